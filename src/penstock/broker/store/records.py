"""Records of the journal: messages, what became of them, definitions.

A batch's payload is a row of records, each one kind octet and a size before its content:

    1 message     | size | dialect | pair count | (queue number, position)* | expires at | exchange
                  |      | and key as short strings | header size | body size | header | body
    2 dequeued    | size | queue number | (first position, count)*
    3 definition  | size | JSON of one change
    4 snapshot    | size | JSON of everything that is defined; what came before does not count

`expires at` is wall-clock milliseconds, 0 for never. All numbers are big-endian.
"""

from struct import Struct
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message

MESSAGE: Final = 1
DEQUEUED: Final = 2
DEFINITION: Final = 3
SNAPSHOT: Final = 4

HEAD_SIZE: Final = 5
_HEAD: Final = Struct(">BI")
_MESSAGE_START: Final = Struct(">BH")
_PAIR: Final = Struct(">IQ")
_PAIR_SIZE: Final = 12
_EXPIRY: Final = Struct(">Q")
_SIZES: Final = Struct(">II")
_QUEUE: Final = Struct(">I")
_RANGE: Final = Struct(">QI")
RANGE_SIZE: Final = 12
# One message of one queue, the common case, in one piece: kind, size, dialect, one pair, expiry.
_SINGLE: Final = Struct(">BIBHIQQ")
_SINGLE_REST: Final = 1 + 2 + 12 + 8 + 8


def read_u32(data: bytes, at: int) -> int:
    return data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]


def read_u64(data: bytes, at: int) -> int:
    return read_u32(data, at) << 32 | read_u32(data, at + 4)


def append_message(
    pieces: list[bytes],
    message: Message,
    header: bytes,
    address: bytes,
    queue_numbers: list[int],
    entries: list[QueueEntry],
    expires_at: int,
) -> int:
    """Append a message record for one or several queues; returns its size."""
    body = message.body
    if len(entries) == 1:
        size = _SINGLE_REST + len(address) + len(header) + len(body)
        pieces.append(
            _SINGLE.pack(MESSAGE, size, 0, 1, queue_numbers[0], entries[0].position, expires_at)
        )
    else:
        pairs = b"".join(
            [
                _PAIR.pack(number, entry.position)
                for number, entry in zip(queue_numbers, entries, strict=True)
            ]
        )
        size = 1 + 2 + len(pairs) + 8 + len(address) + 8 + len(header) + len(body)
        pieces.append(_HEAD.pack(MESSAGE, size))
        pieces.append(_MESSAGE_START.pack(0, len(entries)))
        pieces.append(pairs)
        pieces.append(_EXPIRY.pack(expires_at))
    pieces.append(address)
    pieces.append(_SIZES.pack(len(header), len(body)))
    pieces.append(header)
    pieces.append(body)
    return HEAD_SIZE + size


def append_dequeued(pieces: list[bytes], queue_number: int, positions: list[int]) -> int:
    """Append a record of what left one queue, as ranges of positions; returns its size."""
    ranges: list[bytes] = []
    first = positions[0]
    following = first
    for position in positions:
        if position == following:
            following += 1
        else:
            ranges.append(_RANGE.pack(first, following - first))
            first = position
            following = position + 1
    ranges.append(_RANGE.pack(first, following - first))
    size = 4 + RANGE_SIZE * len(ranges)
    pieces.append(_HEAD.pack(DEQUEUED, size))
    pieces.append(_QUEUE.pack(queue_number))
    pieces.extend(ranges)
    return HEAD_SIZE + size


def append_text(pieces: list[bytes], kind: int, text: bytes) -> int:
    """Append a definition or a snapshot; returns its size."""
    pieces.append(_HEAD.pack(kind, len(text)))
    pieces.append(text)
    return HEAD_SIZE + len(text)


def append_raw(pieces: list[bytes], record: bytes) -> int:
    """Append a record that was read elsewhere."""
    pieces.append(record)
    return len(record)


def size_at(data: bytes, at: int) -> int:
    """Octets of the whole record whose kind octet is at `at`."""
    return HEAD_SIZE + read_u32(data, at + 1)


class MessageRecord:
    """Where the parts of a message record lie in the octets it was read from."""

    def __init__(self, data: bytes, at: int) -> None:
        """`at` is the record's kind octet; the whole record lies in `data`."""
        pair_count = data[at + HEAD_SIZE + 1] << 8 | data[at + HEAD_SIZE + 2]
        self._data: bytes = data
        self._pairs: int = at + HEAD_SIZE + 3
        self.pair_count: int = pair_count
        expiry = self._pairs + pair_count * _PAIR_SIZE
        self.expires_at: int = read_u64(data, expiry)
        self._exchange: int = expiry + 8
        self._key: int = self._exchange + 1 + data[self._exchange]
        sizes = self._key + 1 + data[self._key]
        self._header: int = sizes + 8
        self._header_size: int = read_u32(data, sizes)
        self.body_size: int = read_u32(data, sizes + 4)

    def queue_number(self, index: int) -> int:
        return read_u32(self._data, self._pairs + index * _PAIR_SIZE)

    def position(self, index: int) -> int:
        return read_u64(self._data, self._pairs + index * _PAIR_SIZE + 4)

    def with_pairs(self, pairs: list[tuple[int, int]]) -> bytes:
        """The same message for these (queue number, position) pairs only."""
        encoded = b"".join([_PAIR.pack(number, position) for number, position in pairs])
        rest = self._data[self._pairs + self.pair_count * _PAIR_SIZE :]
        size = 3 + len(encoded) + len(rest)
        return b"".join(
            [_HEAD.pack(MESSAGE, size), _MESSAGE_START.pack(0, len(pairs)), encoded, rest]
        )

    def exchange(self) -> str:
        start = self._exchange + 1
        return self._data[start : self._key].decode("utf-8", "surrogateescape")

    def routing_key(self) -> str:
        start = self._key + 1
        end = start + self._data[self._key]
        return self._data[start:end].decode("utf-8", "surrogateescape")

    def header(self) -> bytes:
        return self._data[self._header : self._header + self._header_size]

    def body(self) -> bytes:
        start = self._header + self._header_size
        return self._data[start : start + self.body_size]
