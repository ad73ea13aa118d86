"""From the journal of a cluster's member back to the state, `syn` and what is staged.

A member's journal says more than that of a server on its own: up to which operation of which root its
state has come, and which messages a SYNC has brought that is not done. Where one is done, the state
became something else in one record, so that what was dequeued before does not count any more.
"""

from penstock.broker.queues.replica_list import ReplicaList
from penstock.broker.state import BrokerState
from penstock.broker.store import records
from penstock.broker.store.message_store import MessageStore
from penstock.broker.store.recovered_queue import RecoveredQueue
from penstock.broker.store.recovery import StoreRecovery
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

    def _of_the_stream(self, kind: int, payload: bytes, at: int, location: int) -> None:
        if kind == records.SYNC_DONE:
            done = records.SyncDoneRecord(payload, at)
            self._finish(done)
            self._syn = (done.epoch, done.k)
            self._syn_segment = segment_of(location)
            return
        if kind == records.ROOT:
            self._staged = {}
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

    def restore_replica(
        self,
        state: BrokerState,
        store: MessageStore,
        queues: ReplicaQueues,
        definitions: BrokerReplicator,
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
            recovered = self._queues.get(number)
            if recovered is not None:
                part.add_octets(self._fill(part.ready, recovered))
        for number, recovered in self._staged.items():
            ready = ReplicaList()
            octets = self._fill(ready, recovered)
            if ready.count:
                queues.staged[number] = ready
                queues.staged_octets[number] = octets
        self._queues = {}
        self._staged = {}

    def _fill(self, ready: ReplicaList, recovered: RecoveredQueue) -> int:
        """Returns the octets of the bodies."""
        recovered.settle()
        total = recovered.count_into(self._lives)
        ready.add_many(recovered.positions, recovered.locations)
        ready.may_expire = recovered.may_expire
        ready.highest_position = recovered.highest_position
        return total
