"""The replicated state of a server: its broker's state and its message store."""

from penstock.formats.peer_limits import BadPeerMessage
from penstock.ha.id_ranges import IdRanges, IdSets, add_ids, ranges_of, union_sets
from penstock.ha.replica_operation import BadOperation, ReplicaOperation
from penstock.ha.replica_store import ReplicaStore
from penstock.ha.replicated_state import OperationParts, ReplicatedState
from penstock.ha.sync_staging import WantedIds
from penstock.storage.journal import NOT_SUMMED


class StoredReplica(ReplicatedState):
    """Held by the node of a cluster's member, for its primary and its backup."""

    def __init__(self, replica: ReplicaStore, now: int) -> None:
        self._replica: ReplicaStore = replica
        # What time it is: the owner says so before it calls.
        self.now: int = now

    def syn(self) -> tuple[int, int]:
        return self._replica.syn()

    def durable_syn(self) -> tuple[int, int]:
        return self._replica.durable_syn()

    def held(self) -> IdSets:
        return union_sets(_sets(self._replica.ids()), _sets(self._replica.staged_ids()))

    def committed_position(self, epoch: int, k: int) -> int:
        """See `ReplicaStore.committed_position`."""
        return self._replica.committed_position(epoch, k)

    # The root's side.

    def begin_root(self, epoch: int) -> int:
        return self._replica.promote(epoch, self.now)

    def ids(self) -> IdSets:
        return _sets(self._replica.ids())

    def values(self) -> bytes:
        return self._replica.values()

    def begin_reading(self) -> None:
        self._replica.begin_reading()

    def read(self, number: int, wanted: IdRanges, octets_max: int) -> tuple[bytes, int]:
        return self._replica.read(number, wanted.ranges(), octets_max)

    def first_uncommitted(self) -> dict[int, int]:
        return self._replica.first_uncommitted()

    # The backup's side.

    def apply(self, operation: bytes) -> None:
        self.apply_received(operation, 0, NOT_SUMMED)

    def apply_received(self, octets: bytes, start: int, checksum: int) -> None:
        try:
            self._replica.apply(octets, self.now, checksum, start)
        except BadOperation as error:
            raise BadPeerMessage(str(error)) from error

    def parts(self, operation: bytes) -> OperationParts:
        try:
            return _parts(self._replica.parts(operation))
        except BadOperation as error:
            raise BadPeerMessage(str(error)) from error

    def stage_operation(self, operation: bytes) -> None:
        try:
            self._replica.staging.stage_operation(operation)
        except BadOperation as error:
            raise BadPeerMessage(str(error)) from error

    def stage_piece(self, records: bytes, missing: IdSets) -> IdSets:
        try:
            taken = self._replica.staging.stage_records(records, MissingIds(missing))
        except BadOperation as error:
            raise BadPeerMessage(str(error)) from error
        sets: IdSets = {}
        for number, first, count in taken:
            add_ids(sets, number, first, count)
        return sets

    def finish(
        self, epoch: int, k: int, target: IdSets, values: bytes, changes: list[bytes]
    ) -> None:
        wanted = [(number, target[number].ranges()) for number in sorted(target)]
        try:
            self._replica.finish(epoch, k, wanted, values, changes, self.now)
        except BadOperation as error:
            raise BadPeerMessage(str(error)) from error


class MissingIds(WantedIds):
    """What a SYNC still lacks, for the store."""

    def __init__(self, missing: IdSets) -> None:
        self._missing: IdSets = missing

    def wants(self, number: int, position: int) -> bool:
        ids = self._missing.get(number)
        return ids is not None and ids.contains(position)

    def wants_all(self, number: int, first: int, count: int) -> bool:
        ids = self._missing.get(number)
        return ids is not None and ids.contains_range(first, count)


def _sets(ids: dict[int, list[tuple[int, int]]]) -> IdSets:
    return {number: ranges_of(ranges) for number, ranges in ids.items() if ranges}


def _parts(operation: ReplicaOperation) -> OperationParts:
    parts = OperationParts()
    parts.enqueued = operation.enqueued()
    for dequeued in operation.dequeued:
        for first, count in dequeued.ranges:
            parts.dequeued.append((dequeued.queue_number, first, count))
    for change in operation.changes:
        parts.gone.extend(change.gone_numbers)
    parts.changes = operation.texts
    return parts
