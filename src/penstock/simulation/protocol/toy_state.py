"""The replicated state of a simulated server: a toy journal that may lose what is not flushed."""

from collections.abc import Callable

from penstock.formats.peer_limits import BadPeerMessage
from penstock.ha.id_ranges import IdRanges, IdSets
from penstock.ha.replicated_state import OperationParts, ReplicatedState
from penstock.simulation.protocol.toy_store import (
    DEQUEUED,
    ENQUEUED,
    GONE,
    TEXT,
    ToyChange,
    ToyRecord,
    ToyStore,
    apply_text,
    decode_changes,
    decode_operation,
    decode_values,
    encode_change,
    encode_values,
)


class ToyJournal:
    """What survives a crash: a store, and any prefix of the records that were written after it."""

    def __init__(self) -> None:
        self.store: ToyStore = ToyStore()
        self.tail: list[ToyRecord] = []
        # The number of records written so far is the position of the journal.
        self.position: int = 0
        self.durable: int = 0

    def fold(self, count: int) -> None:
        for record in self.tail[:count]:
            self.store.do(record)
        del self.tail[:count]
        self.durable += count

    def crash(self, survivors: int) -> None:
        self.fold(survivors)
        self.tail = []
        self.position = self.durable


class ToyState(ReplicatedState):
    """Held by one incarnation of a simulated server."""

    def __init__(self, journal: ToyJournal, ask_for_flush: Callable[[], None]) -> None:
        self.journal: ToyJournal = journal
        self.memory: ToyStore = journal.store.copy()
        self._ask_for_flush: Callable[[], None] = ask_for_flush
        # SYNC-DONEs that were written; a checker looks at the state then.
        self.finished: int = 0

    def write(self, record: ToyRecord) -> None:
        self.memory.do(record)
        self.append(record)

    def append(self, record: ToyRecord) -> None:
        """A record whose changes are in memory already."""
        self.journal.tail.append(record)
        self.journal.position += 1
        self._ask_for_flush()

    def syn(self) -> tuple[int, int]:
        return self.memory.syn

    def durable_syn(self) -> tuple[int, int]:
        return self.journal.store.syn

    def held(self) -> IdSets:
        found = {number: set(queue) for number, queue in self.memory.queues.items()}
        for number, position in self.memory.staged:
            found.setdefault(number, set()).add(position)
        return {number: _ranges(ids) for number, ids in found.items() if ids}

    def begin_root(self, epoch: int) -> int:
        self.write(ToyRecord("root", epoch))
        return self.journal.position

    def ids(self) -> IdSets:
        queues = self.memory.queues
        return {number: _ranges(set(queue)) for number, queue in queues.items() if queue}

    def values(self) -> bytes:
        return encode_values(self.memory.values)

    def begin_reading(self) -> None: ...

    def read(self, number: int, wanted: IdRanges, octets_max: int) -> tuple[bytes, int]:
        queue = self.memory.queues.get(number, {})
        records: list[bytes] = []
        size = 0
        for position in sorted(queue):
            if wanted.contains(position):
                if size >= octets_max:
                    return b"".join(records), position
                change = ToyChange(ENQUEUED, number, position, 1, queue[position])
                records.append(encode_change(change))
                size += len(records[-1])
        return b"".join(records), 0

    def apply(self, operation: bytes) -> None:
        epoch, k, changes = decode_operation(operation)
        if (epoch, k) != (self.memory.syn[0], self.memory.syn[1] + 1):
            raise BadPeerMessage(f"operation {k} of epoch {epoch} came at {self.memory.syn}")
        self.write(ToyRecord("operation", epoch, k, tuple(changes)))

    def parts(self, operation: bytes) -> OperationParts:
        parts = OperationParts()
        for change in decode_operation(operation)[2]:
            if change.kind == ENQUEUED:
                parts.enqueued.append((change.queue, change.first, 1))
            elif change.kind == DEQUEUED:
                parts.dequeued.append((change.queue, change.first, change.size))
            elif change.kind == TEXT:
                parts.changes.append(change.octets)
            elif change.kind == GONE:
                parts.gone.append(change.queue)
        return parts

    def stage_operation(self, operation: bytes) -> None:
        changes = decode_operation(operation)[2]
        self._stage([change for change in changes if change.kind == ENQUEUED])

    def stage_piece(self, records: bytes, missing: IdSets) -> IdSets:
        taken: IdSets = {}
        changes: list[ToyChange] = []
        for change in decode_changes(records, 0):
            lacking = missing.get(change.queue)
            if lacking is not None and lacking.contains(change.first):
                changes.append(change)
                taken.setdefault(change.queue, IdRanges()).add_range(change.first, 1)
        self._stage(changes)
        return taken

    def _stage(self, changes: list[ToyChange]) -> None:
        if changes:
            self.write(ToyRecord("staged", 0, 0, tuple(changes)))

    def finish(
        self, epoch: int, k: int, target: IdSets, values: bytes, changes: list[bytes]
    ) -> None:
        found = decode_values(values)
        for text in changes:
            apply_text(found, text)
        ids = tuple((number, _members(ranges)) for number, ranges in target.items())
        self.write(ToyRecord("done", epoch, k, (), ids, tuple(found.items())))
        self.finished += 1


def _ranges(ids: set[int]) -> IdRanges:
    made = IdRanges()
    for position in sorted(ids):
        made.add_range(position, 1)
    return made


def _members(ranges: IdRanges) -> tuple[int, ...]:
    return tuple(n for first, count in ranges.ranges() for n in range(first, first + count))
