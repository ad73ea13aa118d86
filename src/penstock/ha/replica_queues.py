"""The queues of a backup by their numbers, what is staged beside them, and the segments that hold both.

Invariants
- an id is in its queue or staged, never both;
- `lives` counts every id of both, so reclaiming keeps staged messages as it keeps those of the state.
"""

from array import array

from penstock.broker.delays.delay_line import DelayLine
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.position_runs import Ranges
from penstock.broker.queues.queue_journal import ReadyLists
from penstock.broker.queues.ready_list import ReadyList
from penstock.broker.queues.replica_list import ReplicaList
from penstock.broker.store import records
from penstock.broker.store.locations import counts_by_segment
from penstock.broker.store.message_store import MessageStore
from penstock.ha.queue_replicator import QueueReplicator
from penstock.ha.replica_operation import (
    BadOperation,
    MessageRun,
    ReplicaOperation,
    spans_of,
)
from penstock.storage.segment import segment_of


class ReplicaQueues:
    """Held by the replica store."""

    def __init__(self, store: MessageStore) -> None:
        self._store: MessageStore = store
        self.by_number: dict[int, QueueReplicator] = {}
        # Messages of a SYNC that is not done; the store's reclaimer looks there too.
        self.staged: dict[int, ReplicaList] = store.staged
        # Of their bodies.
        self.staged_octets: dict[int, int] = {}

    # What is defined.

    def add_queue(self, number: int, queue: MessageQueue) -> QueueReplicator:
        ready = queue.journal_list()
        assert isinstance(ready, ReplicaList), "made by the lists of a replica"
        queue.number = number
        part = QueueReplicator(ready, queue, None)
        self.by_number[number] = part
        return part

    def add_line(self, number: int, line: DelayLine) -> QueueReplicator:
        ready = ReplicaList()
        line.number = number
        line.waiting = ready
        part = QueueReplicator(ready, None, line)
        self.by_number[number] = part
        return part

    def forget(self, number: int) -> None:
        """It is deleted, and everything in it."""
        part = self.by_number.pop(number, None)
        if part is not None:
            self._count_off(part.clear())

    def check(self, operation: ReplicaOperation) -> None:
        """Raises `BadOperation` if it defines or enqueues what is there already."""
        for change in operation.changes:
            if change.queue_number in self.by_number:
                raise BadOperation(f"a second queue is to have number {change.queue_number}")
        spans = spans_of(operation.octets, operation.runs)
        for number, (lowest, _) in spans.items():
            part = self.by_number.get(number)
            # Nearly always all come behind those that are here.
            if part is not None and lowest <= part.ready.highest_position:
                self._check_new(part.ready, number, operation)
        for record in operation.dequeued:
            part = self.by_number.get(record.queue_number)
            if part is not None:
                known = max(part.ready.highest_position, spans.get(record.queue_number, (0, 0))[1])
                _check_known(record, known)

    def _check_new(self, ready: ReplicaList, number: int, operation: ReplicaOperation) -> None:
        for known, first, count in operation.enqueued():
            if known == number and ready.count_in([(first, count)]):
                raise BadOperation(
                    f"queue {number} has one of the {count} messages from {first} on"
                )

    # What an operation brings.

    def add_messages(
        self, octets: bytes, runs: list[MessageRun], base: int, has_definitions: bool
    ) -> None:
        """Message records of a batch, whose payload has this location."""
        count = 0
        body_bytes = 0
        # Most are of the same queue as the one before.
        number = 0
        part: QueueReplicator | None = None
        added = 0
        for run in runs:
            at = run.at
            record = records.MessageRecord(octets, at)
            size = record.body_size
            if run.count > 1:
                repeated = self._add_run(record, run, base + at)
                count += repeated
                body_bytes += repeated * size
                continue
            for index in range(record.pair_count):
                if record.queue_number(index) != number:
                    if part is not None:
                        part.add_octets(added)
                    number = record.queue_number(index)
                    part = self.by_number.get(number)
                    added = 0
                if part is None:
                    # Its queue was deleted in the same operation.
                    continue
                position = record.position(index)
                part.enqueued(position, base + at, record.expires_at(index) != 0)
                added += size
                count += 1
                body_bytes += size
                if self.staged:
                    self._unstage(number, position, size)
        if part is not None:
            part.add_octets(added)
        self._store.lives.wrote(segment_of(base), count, body_bytes, has_definitions)

    def _add_run(self, first: records.MessageRecord, run: MessageRun, location: int) -> int:
        """Records that repeat the first, which is at this location. Returns how many counted."""
        number = first.queue_number(0)
        part = self.by_number.get(number)
        if part is None:
            return 0
        count = run.count
        position = first.position(0)
        part.enqueued_run(first, run, location)
        if self.staged:
            for each in range(position, position + count):
                self._unstage(number, each, first.body_size)
        return count

    def remove_messages(self, record: records.DequeuedRecord) -> None:
        part = self.by_number.get(record.queue_number)
        if part is None:
            # What was out with consumers when its queue was deleted.
            return
        self._count_off(part.dequeued(record.ranges))
        part.add_octets(-record.body_bytes)

    def _count_off(self, locations: "array[int]") -> None:
        lives = self._store.lives
        if len(locations) == 1:
            lives.dequeued_unread(segment_of(locations[0]))
            return
        for segment, count in counts_by_segment(locations).items():
            lives.dequeued_unread(segment, count)

    # What is staged.

    def holds(self, number: int, position: int) -> bool:
        """Whether the state or the staged area has it."""
        part = self.by_number.get(number)
        if part is not None and part.ready.location_of(position) >= 0:
            return True
        staged = self.staged.get(number)
        return staged is not None and staged.location_of(position) >= 0

    def holds_any(self, number: int, first: int, count: int) -> bool:
        """Whether the state or the staged area has any of these."""
        part = self.by_number.get(number)
        if part is not None and part.ready.count_in([(first, count)]):
            return True
        staged = self.staged.get(number)
        return staged is not None and staged.count_in([(first, count)]) > 0

    def stage_run(self, first: records.MessageRecord, run: MessageRun, location: int) -> None:
        """Records that are equal but for their bodies, the first of them at this location."""
        number = first.queue_number(0)
        ready = self.staged.get(number)
        if ready is None:
            ready = ReplicaList()
            self.staged[number] = ready
        ready.add_run(first.position(0), run.count, location, run.size)
        if first.expires_at(0):
            ready.may_expire = True
        octets = run.count * first.body_size
        self.staged_octets[number] = self.staged_octets.get(number, 0) + octets

    def stage(self, number: int, position: int, location: int, size: int) -> None:
        ready = self.staged.get(number)
        if ready is None:
            ready = ReplicaList()
            self.staged[number] = ready
        ready.add(position, location)
        self.staged_octets[number] = self.staged_octets.get(number, 0) + size

    def _unstage(self, number: int, position: int, size: int) -> None:
        """A message that is staged has become part of the state."""
        ready = self.staged.get(number)
        if ready is not None:
            gone = ready.remove_ranges([(position, 1)])
            if len(gone):
                self._count_off(gone)
                self.staged_octets[number] -= size
                if ready.count == 0:
                    del self.staged[number]
                    del self.staged_octets[number]

    def unstage_dequeued(self, record: records.DequeuedRecord) -> None:
        """What clients publish and consume during a SYNC need not stay until its end, when it would be
        dropped. Only if all of it is staged: otherwise the octets of what is are not known.
        """
        number = record.queue_number
        ready = self.staged.get(number)
        if ready is None:
            return
        for one in record.ranges:
            if ready.count_in([one]) != one[1]:
                return
        self._count_off(ready.remove_ranges(record.ranges))
        self.staged_octets[number] -= record.body_bytes
        if ready.count == 0:
            del self.staged[number]
            del self.staged_octets[number]

    def discard_staged(self) -> None:
        for ready in self.staged.values():
            self._count_off(ready.drain()[1])
        self.staged.clear()
        self.staged_octets = {}

    def check_target(self, target: list[tuple[int, Ranges]]) -> None:
        """Raises `BadOperation` unless the state and what is staged have all messages of the target, by
        queue number.
        """
        for number, ranges in target:
            part = self.by_number.get(number)
            staged = self.staged.get(number)
            missing = sum([count for _, count in ranges])
            if part is not None:
                missing -= part.ready.count_in(ranges)
            if staged is not None:
                missing -= staged.count_in(ranges)
            if missing:
                raise BadOperation(
                    f"a SYNC cannot be done: {missing} messages of queue {number} are missing"
                )

    # Everything.

    def lists(self) -> list[ReplicaList]:
        return [part.ready for part in self.by_number.values()] + list(self.staged.values())

    def counts(self) -> dict[int, int]:
        """How many ids each segment is needed for."""
        total: dict[int, int] = {}
        for ready in self.lists():
            for locations in ready.location_blocks():
                for segment, count in counts_by_segment(locations).items():
                    total[segment] = total.get(segment, 0) + count
        return total


def _check_known(record: records.DequeuedRecord, highest: int) -> None:
    """A start would also take those for dequeued that are enqueued later."""
    for first, count in record.ranges:
        if first + count - 1 > highest:
            raise BadOperation(
                f"message {first + count - 1} of queue {record.queue_number} is dequeued, and was not "
                "enqueued"
            )


class ReplicaLists(ReadyLists):
    """Makes the lists of a backup's queues, whatever their priorities."""

    def make(self, max_priority: int) -> ReadyList:
        return ReplicaList()

    def gone(self, locations: "array[int]") -> None:
        assert not len(locations), "a queue is emptied before it is deleted"
