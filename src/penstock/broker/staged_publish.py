"""Publishing what was staged, in steps: out of a stage, and to where each message's exchange says.

For queues both happen in one tick and so in one batch of the journal. A stream has files of its
own, so a step appends to streams first and takes messages out of the stage when that is safe. A
restart in between repeats the step; the stream then knows the messages by publisher and sequence,
which the step has put into their headers.
"""

from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.header_values import Long
from penstock.broker.message import Message
from penstock.broker.publishing import enqueue_all
from penstock.broker.queues.queue import Queue
from penstock.broker.routing import resolve
from penstock.broker.streams.publishers import ID_HEADER, SEQUENCE_HEADER
from penstock.broker.streams.stream import Stream
from penstock.broker.timers import Timer
from penstock.broker.topology import DeleteQueue
from penstock.broker.vhost import VirtualHost
from penstock.broker.vhost_view import Sink

BATCH: Final = "x-stage-batch"
PARTITION: Final = "x-stage-partition"
# A sequence is batch, partition and position in the stage, in 63 bits.
_POSITION_BITS: Final = 24
_PARTITION_BITS: Final = 16
PARTITIONS_MAX: Final = 1 << _PARTITION_BITS
BATCHES_MAX: Final = 1 << (63 - _POSITION_BITS - _PARTITION_BITS)
STAGE_MESSAGES_MAX: Final = (1 << _POSITION_BITS) - 1
# Messages that are published in one step, during which nobody else is served: a few milliseconds.
STEP_MESSAGES: Final = 2_048
# How soon is asked again whether a stream's appends are safe.
SAFE_POLL_MS: Final = 1


class PublishStep(Timer):
    """Publishes a committed batch step by step. Held by the timers while there is more."""

    def __init__(self, vhost: VirtualHost, sink: Sink) -> None:
        super().__init__()
        self._vhost: VirtualHost = vhost
        self._sink: Sink = sink
        # Ends of streams that must be safe before the step goes on.
        self._awaited: dict[Stream, int] = {}

    def fire(self, now: int) -> None:
        if self._sink.stage is None:
            self._begin(now)
        if self._sink.stage is not None:
            if not self._streams_are_safe():
                self._vhost.timers.schedule(self, now + SAFE_POLL_MS)
                return
            self._finish(self._sink.stage, now)
        if self._sink.pending:
            # Everybody else has a turn first.
            self._vhost.timers.schedule(self, now + 1)
        else:
            self._sink.is_publishing = False

    def _begin(self, now: int) -> None:
        """Take a step's messages out of the next stage and append to streams what belongs there."""
        pending = self._sink.pending
        while pending and pending[0] not in self._vhost.queues:
            pending.pop(0)
        if not pending:
            return
        stage = self._vhost.queues[pending[0]]
        self._sink.stage = stage
        self._awaited = {}
        while len(self._sink.taken) < STEP_MESSAGES:
            entry = stage.get(now)
            if entry is None:
                break
            self._sink.taken.append(entry)
            for queue in self._queues_of(entry.message):
                if isinstance(queue, Stream):
                    queue.enqueue(self._sequenced(stage, entry), now)
                    self._awaited[queue] = queue.end_offset

    def _streams_are_safe(self) -> bool:
        for stream, end in self._awaited.items():
            if not stream.is_deleted and stream.files.readable_offset() < end:
                return False
        return True

    def _finish(self, stage: Queue, now: int) -> None:
        stage.acknowledge_many(self._sink.taken)
        for entry in self._sink.taken:
            message = entry.message
            copy = Message(message.address, message.properties, message.body, message.origin)
            found = self._queues_of(copy)
            if not found:
                self._sink.unroutable += 1
            enqueue_all([queue for queue in found if not isinstance(queue, Stream)], copy, now)
        self._sink.taken = []
        self._sink.stage = None
        if stage.message_count == 0:
            self._vhost.apply(DeleteQueue(stage.name), now)
            self._sink.pending.pop(0)

    def _queues_of(self, message: Message) -> list[Queue]:
        exchange = self._vhost.exchanges.get(message.address.exchange)
        if exchange is None:
            return []
        key = message.address.routing_key
        return resolve(self._vhost, exchange, key, message.properties).queues

    def _sequenced(self, stage: Queue, entry: QueueEntry) -> Message:
        batch = stage.arguments[BATCH]
        partition = stage.arguments[PARTITION]
        assert isinstance(batch, int)
        assert isinstance(partition, int)
        sequence = (batch << _PARTITION_BITS | partition) << _POSITION_BITS | entry.position
        message = entry.message
        headers = dict(message.properties.headers())
        headers[ID_HEADER] = f"sink {self._sink.name}"[:250]
        headers[SEQUENCE_HEADER] = Long(sequence)
        properties = message.properties.rewritten(headers, drop_expiration=False)
        return Message(message.address, properties, message.body, message.origin)
