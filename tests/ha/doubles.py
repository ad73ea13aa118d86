"""Doubles of what a primary and a backup talk to."""

from penstock.formats.peer_limits import BadPeerMessage
from penstock.ha import messages
from penstock.ha.backup_line import BackupLine
from penstock.ha.id_ranges import IdRanges, IdSets
from penstock.ha.primary import InSyncSet, PrimaryListener
from penstock.ha.queue_snapshot import SnapshotsReader, encode_in_parts
from penstock.simulation.protocol.toy_state import ToyJournal, ToyState
from penstock.simulation.protocol.toy_store import (
    DEQUEUED,
    ENQUEUED,
    ToyChange,
    ToyRecord,
    encode_change,
    encode_head,
)
from penstock.world.entropy import Entropy


class RecordingLine(BackupLine):
    """Keeps what was sent; unsent octets are what the test says."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes]] = []
        self.ended: str = ""
        self.unsent: int = 0
        self.counts_unsent: bool = False

    def send(self, kind: int, pieces: list[bytes]) -> None:
        octets = b"".join(pieces)
        self.sent.append((kind, octets))
        if self.counts_unsent:
            self.unsent += len(octets)

    def unsent_bytes(self) -> int:
        return self.unsent

    def end(self, reason: str) -> None:
        self.ended = reason

    def take(self) -> list[tuple[int, bytes]]:
        sent, self.sent = self.sent, []
        return sent

    def kinds(self) -> list[int]:
        return [kind for kind, _ in self.sent]

    def piece_octets(self) -> int:
        """Of the records in all pieces."""
        sizes = [len(octets) for kind, octets in self.sent if kind == messages.PIECE]
        return sum(sizes) - len(sizes) * messages.PIECE_HEAD_SIZE


class FixedSet(InSyncSet):
    """An in-sync set that the test changes."""

    def __init__(self, names: list[str]) -> None:
        self.names: list[str] = names
        self.begun: bool = True

    def awaited(self) -> list[str]:
        return self.names

    def has_begun(self) -> bool:
        return self.begun


class RecordingListener(PrimaryListener):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.positions: list[tuple[int, int]] = []
        self.progress: list[str] = []

    def committed(self, position: int, k: int, now: int) -> None:
        self.positions.append((position, k))

    def acknowledged(self, name: str, now: int) -> None:
        self.progress.append(name)


class CountingEntropy(Entropy):
    """1, 2, 3: every nonce is another one."""

    def __init__(self) -> None:
        self._count: int = 0

    def octets(self, count: int) -> bytes:
        self._count += 1
        return self._count.to_bytes(count, "big")


class ManualState(ToyState):
    """A toy state whose journal is flushed by the test."""

    def __init__(self) -> None:
        super().__init__(ToyJournal(), self._count_flush)
        self.flushes_asked: int = 0

    def _count_flush(self) -> None:
        self.flushes_asked += 1

    def flush(self) -> None:
        self.journal.fold(len(self.journal.tail))

    def enqueue(self, number: int, position: int, body: bytes) -> None:
        """Into the inherited state, without an operation."""
        self.memory.change(ToyChange(ENQUEUED, number, position, 1, body))
        self.journal.store.change(ToyChange(ENQUEUED, number, position, 1, body))


def operation(epoch: int, k: int, *changes: ToyChange) -> bytes:
    return encode_head(epoch, k) + b"".join(encode_change(change) for change in changes)


def enqueued(number: int, position: int, body: bytes = b"body") -> ToyChange:
    return ToyChange(ENQUEUED, number, position, 1, body)


def dequeued(number: int, first: int, count: int = 1) -> ToyChange:
    return ToyChange(DEQUEUED, number, first, count)


def written(state: ManualState, epoch: int, k: int, *changes: ToyChange) -> bytes:
    """A root's own operation: in memory and in the journal."""
    state.write(ToyRecord("operation", epoch, k, changes))
    return operation(epoch, k, *changes)


def sets_of(table: dict[int, list[int]]) -> IdSets:
    made: IdSets = {}
    for number, ids in table.items():
        made[number] = IdRanges()
        for position in ids:
            made[number].add_range(position, 1)
    return made


def encode_id_sets(sets: IdSets) -> bytes:
    """All in one part."""
    return encode_in_parts(sets, 0)[0]


def decode_id_sets(data: bytes, at: int, ranges_max: int) -> IdSets:
    """All in one part, up to the end of the data."""
    reader = SnapshotsReader(ranges_max)
    end = reader.read(data, at)
    if end != len(data):
        raise BadPeerMessage(f"{len(data) - end} octets follow a set of ids")
    return reader.sets
