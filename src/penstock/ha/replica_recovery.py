"""From the journal of a cluster's member back to the state, `syn` and what is staged.

A member's journal says more than that of a server on its own: up to which operation of which root its
state has come, and which messages a SYNC has brought that is not done. Where one is done, the state
became something else in one record, so that what was dequeued before does not count any more.
"""

from penstock.broker.queues.replica_list import ReplicaList
from penstock.broker.state import BrokerState
from penstock.broker.store import records
from penstock.broker.store.appended_blocks import append_at, block_at
from penstock.broker.store.message_store import MessageStore
from penstock.broker.store.recovered_queue import RecoveredQueue
from penstock.broker.store.recovery import StoreRecovery
from penstock.broker.streams.opening import open_streams, streams_of
from penstock.broker.streams.pending_block import PendingBlock
from penstock.broker.streams.replicated_streams import ReplicatedStreams
from penstock.broker.streams.stream_target import in_target
from penstock.formats.replication_id import first_id, offset_of_id
from penstock.ha.broker_replicator import BrokerReplicator
from penstock.ha.replica_queues import ReplicaQueues
from penstock.storage.segment import segment_of


class ReplicaRecovery(StoreRecovery):
    """Held by the node of a cluster's member while it starts."""

    def __init__(self) -> None:
        super().__init__()
        self._staged: dict[int, RecoveredQueue] = {}
        # Whether the batch that is read is staged.
        self._is_staging: bool = False
        # What is appended to streams, by their numbers, and what is staged of it.
        self._blocks: dict[int, list[PendingBlock]] = {}
        self._staged_blocks: dict[int, list[PendingBlock]] = {}
        # The first ids that are left, by queue number, as far as the journal says so: retention
        # dequeues from streams what is before.
        self._first_ids: dict[int, int] = {}

    def batch(self, location: int, payload: bytes) -> None:
        self.found_anything = True
        if payload[0] == records.STAGED:
            self._stage(location, payload)
            return
        super().batch(location, payload)

    def _message(self, record: records.MessageRecord, location: int) -> None:
        super()._message(record, location)
        if self._staged and not self._is_staging:
            self._unstage(record)

    def _dequeued(self, payload: bytes, at: int) -> None:
        super()._dequeued(payload, at)
        record = records.DequeuedRecord(payload, at)
        first, count = record.ranges[-1]
        known = self._first_ids.get(record.queue_number, 0)
        self._first_ids[record.queue_number] = max(known, first + count)

    def _of_the_stream(self, kind: int, payload: bytes, at: int, location: int) -> None:
        if kind == records.APPENDED:
            block = block_at(payload, at, location)
            self._blocks.setdefault(append_at(payload, at).number, []).append(block)
            self._lives.of(segment_of(location)).has_definitions = True
            return
        if kind == records.SYNC_DONE:
            done = records.SyncDoneRecord(payload, at)
            self._finish(done)
            self._syn = (done.epoch, done.k)
            self._syn_segment = segment_of(location)
            return
        if kind == records.ROOT:
            self._staged = {}
            self._staged_blocks = {}
        super()._of_the_stream(kind, payload, at, location)

    def syn(self) -> tuple[int, int]:
        """Epoch and k of the state."""
        return self._syn

    def syn_segment(self) -> int:
        """Where the journal says so."""
        return self._syn_segment

    def _stage(self, location: int, payload: bytes) -> None:
        state = self._queues
        self._queues = self._staged
        self._is_staging = True
        at = records.HEAD_SIZE
        while at < len(payload):
            if payload[at] == records.MESSAGE:
                record = records.MessageRecord(payload, at)
                for index in range(record.pair_count):
                    queue = self._staged.get(record.queue_number(index))
                    if queue is not None and queue.has_left():
                        # What has become part of the state before may have left it and be staged
                        # again.
                        queue.settle()
                self._message(record, location + at)
            elif payload[at] == records.APPENDED:
                number = append_at(payload, at).number
                block = block_at(payload, at, location)
                self._staged_blocks.setdefault(number, []).append(block)
            at += records.size_at(payload, at)
        self._queues = state
        self._is_staging = False

    def _unstage(self, record: records.MessageRecord) -> None:
        """A message that is staged has become part of the state."""
        for index in range(record.pair_count):
            staged = self._staged.get(record.queue_number(index))
            if staged is not None:
                position = record.position(index)
                staged.left(position, position + 1)

    def _finish(self, done: records.SyncDoneRecord) -> None:
        """The state becomes the target, as far as the journal still has it: a message that has been
        copied since comes later, and one that was dequeued since need not be there at all.
        """
        found: dict[int, RecoveredQueue] = {}
        for number, ranges in done.target:
            queue = RecoveredQueue()
            for known in (self._queues.get(number), self._staged.get(number)):
                if known is not None:
                    known.settle()
                    known.keep(ranges)
                    queue.take(known)
            found[number] = queue
        self._queues = found
        self._staged = {}
        blocks: dict[int, list[PendingBlock]] = {}
        self._first_ids = {}
        for number, ranges in done.target:
            there = self._blocks.get(number, []) + self._staged_blocks.get(number, [])
            if ranges:
                self._first_ids[number] = ranges[0][0]
            if there:
                blocks[number] = in_target(ranges, there)
        self._blocks = blocks
        self._staged_blocks = {}

    def restore_replica(
        self,
        state: BrokerState,
        store: MessageStore,
        queues: ReplicaQueues,
        definitions: BrokerReplicator,
        streams: ReplicatedStreams,
        now: int,
    ) -> None:
        """Restore everything. Queues get lists of a replica, since a member starts as a backup."""
        for change in self._changes:
            definitions.change(change, now)
        self._changes = []
        store.next_queue_number = self._next_queue_number
        store.snapshot_segment = self._snapshot_segment
        store.lives = self._lives
        for number, part in queues.by_number.items():
            # Popped, so that no more than one queue's positions are there twice.
            recovered = self._queues.pop(number, None)
            if recovered is not None:
                part.add_octets(self._fill(part.ready, recovered))
        for number, recovered in self._staged.items():
            ready = ReplicaList()
            octets = self._fill(ready, recovered)
            if ready.count:
                queues.staged[number] = ready
                queues.staged_octets[number] = octets
        self._restore_streams(state, store, streams, now)
        self._queues = {}
        self._staged = {}

    def _restore_streams(
        self, state: BrokerState, store: MessageStore, streams: ReplicatedStreams, now: int
    ) -> None:
        """Files first, then what they lack. Raises a `StorageError` for damage."""
        for stream in streams_of(state.queues()):
            assert stream.values is not None, "the stream of a member"
            left = offset_of_id(self._first_ids.get(stream.number, first_id(0)))
            stream.values.first_offset = max(stream.values.first_offset, left)
        open_streams(state.streams, state.queues(), now)
        for number, files in streams.files.items():
            files.restored(self._blocks.get(number, []), store.journal.position)
            for block in files.unreleased():
                self._lives.of(segment_of(block.location)).found_block(block.size)
        for number, blocks in self._staged_blocks.items():
            for block in blocks:
                self._lives.of(segment_of(block.location)).found_block(block.size)
                streams.stage(number, block)
        self._blocks = {}
        self._staged_blocks = {}

    def _fill(self, ready: ReplicaList, recovered: RecoveredQueue) -> int:
        """Returns the octets of the bodies."""
        recovered.settle()
        total = recovered.count_into(self._lives)
        ready.add_many(recovered.positions, recovered.locations)
        ready.may_expire = recovered.may_expire
        ready.highest_position = recovered.highest_position
        return total
