"""What a SYNC brings to a backup, staged beside its state: batches of the journal that do not count yet.

Most messages come in runs, equal but for their bodies and with positions in a row. A run that is wanted as
a whole is staged as a whole, so that joining costs little for each message.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.store import records
from penstock.broker.store.appended_blocks import append_at
from penstock.broker.store.message_store import MessageStore
from penstock.ha.replica_operation import (
    BadOperation,
    MessageRun,
    piece_runs,
    read_operation,
    spans_of,
)
from penstock.ha.replica_queues import ReplicaQueues
from penstock.ha.stream_replicator import StreamReplicator
from penstock.storage.segment import segment_of

# Nobody waits for what is staged before the end of the SYNC, whose flush covers it. So it is flushed
# seldom: every flush of a disk that others use, too, costs these time. Not never, so that the last
# flush is short and the kernel holds little back.
STAGED_UNFLUSHED_BYTES: Final = 4 * 1024 * 1024
Taken = list[tuple[int, int, int]]  # queue number, first position, how many


@mypyc_attr(allow_interpreted_subclasses=True)
class WantedIds:
    """What a backup lacks of a SYNC. The part of it that decides which messages are staged."""

    def wants(self, number: int, position: int) -> bool:
        raise NotImplementedError

    def wants_all(self, number: int, first: int, count: int) -> bool:
        raise NotImplementedError


class SyncStaging:
    """Held by the replica store."""

    def __init__(
        self, store: MessageStore, queues: ReplicaQueues, streams: StreamReplicator
    ) -> None:
        self._store: MessageStore = store
        self._queues: ReplicaQueues = queues
        self._streams: StreamReplicator = streams
        # Where the journal ended when a flush was last asked for.
        self._flushed_position: int = store.journal.position

    def stage_operation(self, octets: bytes) -> None:
        """Stage the messages of an operation. Raises `BadOperation`."""
        operation = read_operation(octets)
        spans_of(octets, operation.runs)
        for number, first, count in operation.enqueued():
            # Ids of an operation are new, and a start would take this message for the one that is here.
            if self._queues.holds_any(number, first, count):
                raise BadOperation(
                    f"one of {count} messages of queue {number} from {first} on is here"
                )
        if operation.runs or operation.append_places:
            self._stage(octets, operation.runs, operation.append_places)
        for record in operation.dequeued:
            self._queues.unstage_dequeued(record)

    def stage_records(self, octets: bytes, wanted: WantedIds) -> Taken:
        """Stage those messages of a row of records that are wanted; returns the ids that were
        wanted. Raises `BadOperation`.
        """
        kept: list[bytes] = []
        runs: list[MessageRun] = []
        append_places: list[int] = []
        taken: Taken = []
        size = 0
        pieces = piece_runs(octets)
        # A start would take the second of two that are the same message for the first.
        spans_of(octets, [run for run in pieces if octets[run.at] == records.MESSAGE])
        for run in pieces:
            whole = octets[run.at : run.at + run.count * run.size]
            if octets[run.at] == records.APPENDED:
                ids = _wanted_of(octets, run.at, wanted)
                if ids:
                    taken.extend(ids)
                    append_places.append(size)
                    kept.append(whole)
                    size += len(whole)
                continue
            if run.count > 1 and self._takes(records.MessageRecord(octets, run.at), run, wanted):
                record = records.MessageRecord(octets, run.at)
                taken.append((record.queue_number(0), record.position(0), run.count))
                runs.append(MessageRun(size, run.size, run.count))
                kept.append(whole)
                size += len(whole)
                continue
            for at in range(0, len(whole), run.size):
                part = self._wanted_part(whole[at : at + run.size], wanted, taken)
                if part:
                    runs.append(MessageRun(size, len(part)))
                    kept.append(part)
                    size += len(part)
        if kept:
            self._stage(b"".join(kept), runs, append_places)
        return taken

    def _takes(self, first: records.MessageRecord, run: MessageRun, wanted: WantedIds) -> bool:
        """Whether a run is wanted as a whole, and nothing of it is here."""
        number, position = first.queue_number(0), first.position(0)
        if not wanted.wants_all(number, position, run.count):
            return False
        return not self._queues.holds_any(number, position, run.count)

    def _wanted_part(self, octets: bytes, wanted: WantedIds, taken: Taken) -> bytes:
        """A message record, as far as it is wanted and not here; what is wanted is added to `taken`."""
        record = records.MessageRecord(octets, 0)
        indices: list[int] = []
        for index in range(record.pair_count):
            number, position = record.queue_number(index), record.position(index)
            if wanted.wants(number, position):
                taken.append((number, position, 1))
                if not self._queues.holds(number, position):
                    indices.append(index)
        if not indices:
            return b""
        return octets if len(indices) == record.pair_count else record.with_pairs(indices)

    def _stage(self, octets: bytes, runs: list[MessageRun], append_places: list[int]) -> None:
        """One batch of records that are not part of the state: runs of messages of queues, and of
        streams at these places.
        """
        base = self._store.journal.append(records.STAGED_RECORD + octets) + records.HEAD_SIZE
        count = 0
        body_bytes = 0
        for run in runs:
            first = records.MessageRecord(octets, run.at)
            number, position = first.queue_number(0), first.position(0)
            if run.count > 1 and not self._queues.holds_any(number, position, run.count):
                self._queues.stage_run(first, run, base + run.at)
                count += run.count
                body_bytes += run.count * first.body_size
                continue
            for at in range(run.at, run.at + run.count * run.size, run.size):
                record = records.MessageRecord(octets, at)
                staged = self._stage_one(record, base + at)
                count += staged
                body_bytes += staged * record.body_size
        self._store.lives.wrote(segment_of(base), count, body_bytes, False)
        self._streams.stage(octets, append_places, base)
        journal = self._store.journal
        if journal.position - self._flushed_position >= STAGED_UNFLUSHED_BYTES:
            self._flushed_position = journal.position
            journal.request_flush()

    def _stage_one(self, record: records.MessageRecord, location: int) -> int:
        """Returns for how many queues it was staged."""
        count = 0
        for index in range(record.pair_count):
            number, position = record.queue_number(index), record.position(index)
            if self._queues.holds(number, position):
                continue
            self._queues.stage(number, position, location, record.body_size)
            count += 1
            if record.expires_at(index):
                self._queues.staged[number].may_expire = True
        return count


def _wanted_of(octets: bytes, at: int, wanted: WantedIds) -> Taken:
    """The messages of an append to a stream that are wanted."""
    append = append_at(octets, at)
    if wanted.wants_all(append.number, append.first_id, append.count):
        return [(append.number, append.first_id, append.count)]
    ids = range(append.first_id, append.first_id + append.count)
    return [(append.number, each, 1) for each in ids if wanted.wants(append.number, each)]
