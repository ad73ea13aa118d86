"""Publishing what was staged, in steps: out of a stage, and to where each message's exchange says.

For queues both happen in one tick and so in one batch of the journal. A stream has files of its
own, so a step appends to streams first and takes messages out of the stage when that is safe. A
restart in between repeats the step; the stream then knows the messages by publisher and sequence,
which the step has put into their headers. Nothing is appended before the commit itself is safe: a
power loss could keep the append and lose the commit, and another attempt would then be taken for
the repetition of one that never counted.
"""

from typing import Final

from penstock.broker.delayed_publish import hold_back
from penstock.broker.entry import QueueEntry
from penstock.broker.exchanges.delayed import DelayedExchange
from penstock.broker.header_values import Long
from penstock.broker.message import Address, Message
from penstock.broker.publishing import enqueue_all
from penstock.broker.queues.queue import Queue
from penstock.broker.routing import Route, resolve
from penstock.broker.streams.publishers import ID_HEADER, SEQUENCE_HEADER
from penstock.broker.streams.stream import SAFE_POLL_MS, Stream, are_safe
from penstock.broker.timers import Timer
from penstock.broker.topology import DeleteQueue
from penstock.broker.vhost import VirtualHost
from penstock.broker.vhost_view import Sink
from penstock.storage.flush_waiter import FlushWaiter

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
# Routes that are kept, one for each address; above the number all are dropped.
ROUTES_MAX: Final = 4096


class PublishStep(Timer):
    """Publishes a committed batch step by step. Held by the timers while there is more."""

    def __init__(self, vhost: VirtualHost, sink: Sink) -> None:
        super().__init__()
        self._vhost: VirtualHost = vhost
        self._sink: Sink = sink
        # Ends of streams that must be safe before the step goes on.
        self._awaited: dict[Stream, int] = {}
        # Stages whose commit is safe.
        self._safe: set[str] = set()
        self._routes: dict[Address, Route] = {}

    def fire(self, now: int) -> None:
        if self._sink.stage is None:
            self._skip_missing()
            if self._sink.pending and self._sink.pending[0] not in self._safe:
                gate = CommitGate(self, list(self._sink.pending), now)
                self._vhost.streams.wrote(gate, [])
                return
            self._begin(now)
        if self._sink.stage is not None:
            if not are_safe(self._awaited):
                self._vhost.timers.schedule(self, now + SAFE_POLL_MS)
                return
            self._finish(self._sink.stage, now)
        if self._sink.pending:
            # Everybody else has a turn first.
            self._vhost.timers.schedule(self, now + 1)
        else:
            self._sink.is_publishing = False

    def commits_are_safe(self, stages: list[str], now: int) -> None:
        self._safe = set(stages)
        self._vhost.timers.schedule(self, now)

    def _skip_missing(self) -> None:
        pending = self._sink.pending
        while pending and pending[0] not in self._vhost.queues:
            pending.pop(0)

    def _begin(self, now: int) -> None:
        """Take a step's messages out of the next stage and append to streams what belongs there."""
        pending = self._sink.pending
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
            for queue in self._route_of(entry.message).queues:
                if isinstance(queue, Stream):
                    queue.enqueue(self._sequenced(stage, entry), now)
                    self._awaited[queue] = queue.end_offset

    def _finish(self, stage: Queue, now: int) -> None:
        stage.acknowledge_many(self._sink.taken)
        for entry in self._sink.taken:
            message = entry.message
            copy = Message(message.address, message.properties, message.body, message.origin)
            route = self._route_of(copy)
            for delayed in route.delayed:
                hold_back(self._vhost, delayed, copy, now)
            queues = [queue for queue in route.queues if not isinstance(queue, Stream)]
            accepted = enqueue_all(queues, copy, now)
            if not accepted or not (route.queues or route.delayed):
                # A full queue that refuses publishes has no room for it either.
                self._sink.unroutable += 1
        self._sink.taken = []
        self._sink.stage = None
        if stage.message_count == 0:
            self._vhost.apply(DeleteQueue(stage.name), now)
            self._sink.pending.pop(0)

    def _route_of(self, message: Message) -> Route:
        address = message.address
        known = self._routes.get(address)
        if (
            known is not None
            and known.generation == self._vhost.generation
            and not message.properties.has_extra_keys
        ):
            return known
        exchange = self._vhost.exchanges.get(address.exchange)
        nowhere = Route(self._vhost.generation)
        if exchange is None:
            return nowhere
        if isinstance(exchange, DelayedExchange) and exchange.delay_of(message.properties) > 0:
            nowhere.delayed.append(exchange)
            return nowhere
        route = resolve(self._vhost, exchange, address.routing_key, message.properties)
        if route.cacheable:
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            self._routes[address] = route
        return route

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


class CommitGate(FlushWaiter):
    """Lets a step go on once the commits that it knows of are safe. Held by the stream store."""

    def __init__(self, step: PublishStep, stages: list[str], now: int) -> None:
        self._step: PublishStep = step
        self._stages: list[str] = stages
        self._asked_at: int = now

    def mark(self) -> int:
        return 0

    def became_durable(self, mark: int, now: int) -> None:
        # Where nothing is flushed this is called at once, without a time.
        self._step.commits_are_safe(self._stages, max(now, self._asked_at))
