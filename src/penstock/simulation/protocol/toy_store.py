"""What a toy journal replays to: queues, values and what is staged; and the octets of operations.

operation: epoch(4) | k(8) | change*
change:    E(1) | queue(8) | id(8) | size(2) | body
D(1) | queue(8) | first(8) | count(4)
T(1) | size(2) | text
G(1) | queue(8)
"""

from struct import Struct
from typing import Final, NamedTuple

from penstock.formats.peer_limits import BadPeerMessage

ENQUEUED: Final = 1
DEQUEUED: Final = 2
TEXT: Final = 3
GONE: Final = 4

_HEAD: Final = Struct(">IQ")
_ENQUEUED: Final = Struct(">BQQH")
_DEQUEUED: Final = Struct(">BQQI")
_TEXT: Final = Struct(">BH")
_GONE: Final = Struct(">BQ")


class ToyChange(NamedTuple):
    """One change of an operation; which fields count depends on its kind."""

    kind: int
    queue: int = 0
    first: int = 0
    size: int = 0
    octets: bytes = b""


def encode_head(epoch: int, k: int) -> bytes:
    return _HEAD.pack(epoch, k)


def encode_change(change: ToyChange) -> bytes:
    if change.kind == ENQUEUED:
        head = _ENQUEUED.pack(ENQUEUED, change.queue, change.first, len(change.octets))
        return head + change.octets
    if change.kind == DEQUEUED:
        return _DEQUEUED.pack(DEQUEUED, change.queue, change.first, change.size)
    if change.kind == TEXT:
        return _TEXT.pack(TEXT, len(change.octets)) + change.octets
    return _GONE.pack(GONE, change.queue)


def decode_operation(octets: bytes) -> tuple[int, int, list[ToyChange]]:
    if len(octets) < _HEAD.size:
        raise BadPeerMessage("an operation is cut short")
    epoch, k = _HEAD.unpack_from(octets)
    return epoch, k, decode_changes(octets, _HEAD.size)


def decode_changes(octets: bytes, at: int) -> list[ToyChange]:
    changes: list[ToyChange] = []
    while at < len(octets):
        kind = octets[at]
        if kind == ENQUEUED:
            _, queue, first, size = _ENQUEUED.unpack_from(octets, at)
            at += _ENQUEUED.size
            changes.append(ToyChange(kind, queue, first, 1, octets[at : at + size]))
            at += size
        elif kind == DEQUEUED:
            _, queue, first, count = _DEQUEUED.unpack_from(octets, at)
            at += _DEQUEUED.size
            changes.append(ToyChange(kind, queue, first, count))
        elif kind == TEXT:
            _, size = _TEXT.unpack_from(octets, at)
            at += _TEXT.size
            changes.append(ToyChange(kind, 0, 0, 0, octets[at : at + size]))
            at += size
        else:
            _, queue = _GONE.unpack_from(octets, at)
            at += _GONE.size
            changes.append(ToyChange(kind, queue))
    return changes


class ToyRecord(NamedTuple):
    """One batch of a toy journal, atomic by its checksum."""

    kind: str
    epoch: int = 0
    k: int = 0
    changes: tuple[ToyChange, ...] = ()
    # Of SYNC-DONE: the ids that stay, by queue, and the values.
    target: tuple[tuple[int, tuple[int, ...]], ...] = ()
    values: tuple[tuple[bytes, bytes], ...] = ()


class ToyStore:
    """Held twice by a toy state: in memory, and as what is on the disk."""

    def __init__(self) -> None:
        self.queues: dict[int, dict[int, bytes]] = {}
        self.values: dict[bytes, bytes] = {}
        self.staged: dict[tuple[int, int], bytes] = {}
        self.syn: tuple[int, int] = (0, 0)

    def copy(self) -> "ToyStore":
        made = ToyStore()
        made.queues = {number: dict(queue) for number, queue in self.queues.items()}
        made.values = dict(self.values)
        made.staged = dict(self.staged)
        made.syn = self.syn
        return made

    def contents(self) -> tuple[dict[int, dict[int, bytes]], dict[bytes, bytes]]:
        """What two equal states have in common."""
        return {n: queue for n, queue in self.queues.items() if queue}, self.values

    def change(self, change: ToyChange) -> None:
        if change.kind == ENQUEUED:
            self.queues.setdefault(change.queue, {})[change.first] = change.octets
        elif change.kind == DEQUEUED:
            queue = self.queues.get(change.queue, {})
            for position in range(change.first, change.first + change.size):
                queue.pop(position, None)
        elif change.kind == TEXT:
            apply_text(self.values, change.octets)
        else:
            self.queues.pop(change.queue, None)

    def do(self, record: ToyRecord) -> None:
        if record.kind == "operation":
            for change in record.changes:
                self.change(change)
            self.syn = (record.epoch, record.k)
        elif record.kind == "staged":
            for change in record.changes:
                self.staged[change.queue, change.first] = change.octets
        elif record.kind == "done":
            self._done(record)
        elif record.kind == "root":
            self.staged = {}
            self.syn = (record.epoch, 0)

    def _done(self, record: ToyRecord) -> None:
        made: dict[int, dict[int, bytes]] = {}
        for number, ids in record.target:
            old = self.queues.get(number, {})
            queue: dict[int, bytes] = {}
            for position in ids:
                body = old.get(position) or self.staged.get((number, position))
                if body is not None:
                    queue[position] = body
            made[number] = queue
        self.queues = made
        self.staged = {}
        self.values = dict(record.values)
        self.syn = (record.epoch, record.k)


def apply_text(values: dict[bytes, bytes], text: bytes) -> None:
    """`key=value`, or `key=` to remove it."""
    key, _, value = text.partition(b"=")
    if value:
        values[key] = value
    else:
        values.pop(key, None)


def encode_values(values: dict[bytes, bytes]) -> bytes:
    return b"\n".join(key + b"=" + values[key] for key in sorted(values))


def decode_values(text: bytes) -> dict[bytes, bytes]:
    values: dict[bytes, bytes] = {}
    for line in text.split(b"\n"):
        if line:
            apply_text(values, line)
    return values
