"""Records of the journal: messages, what became of them, definitions, and the stream of operations.

A batch's payload is a row of records, each one kind octet and a size before its content:

    1 message     | size | dialect | origin | pair count | (queue number, position, expires at)*
                  |      | exchange and key as short strings | header size | body size | header
                  |      | body
    2 dequeued    | size | queue number | octets of the bodies that left | (first position, count)*
    3 definition  | size | JSON of one change
    4 snapshot    | size | JSON of everything that is defined; what came before does not count
    5 tick        | size | nothing; gives a tick that wrote only to streams a journal position
    6 operation   | size | epoch | k | octets: the next so many octets of the batch are operation k
    7 staged      | size | nothing; what follows in its batch is not part of the state
    8 sync done   | size | epoch | k | queue count | (queue number, range count, (first, count)*)*
    9 root        | size | epoch: this server became its root; staged records are discarded
    10 position   | size | epoch | k: the last operation that the state contains
    11 appended   | size | messages of a replicated stream (`formats/stream_append.py`)

Kinds 1 to 3 and 11 are what a tick changed. They come first in a batch, and in a cluster an operation record
before them covers exactly them: the same octets are sent to the backups. Behind them comes
housekeeping, which concerns this store only: snapshots, messages that are copied out of an old
segment, positions. Kinds 6 to 11 are written by members of a cluster alone. A staged record is the
first of its batch, too: its messages are staged, and whatever else the batch has is ignored. Behind
sync done, in the same batch, come a snapshot and the definitions that changed since.

Queue numbers and positions are replication ids (`formats/replication_id.py`), 8 octets each; an epoch
has 4 octets, k has 8, counts and sizes have 4. The queue number may be a stream's: the message is on
its way there, and its position tells the offset it has (`streams/journalled_appends.py`). It is
dequeued when it is durable in the stream's own files.

`expires at` is wall-clock milliseconds, 0 for never; each queue has its own time to live. `origin`
is the connection that published it, which has a meaning only in the process that wrote it. All
numbers are big-endian.
"""

from struct import Struct
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message
from penstock.formats.octets import read_u32, read_u64

MESSAGE: Final = 1
DEQUEUED: Final = 2
DEFINITION: Final = 3
SNAPSHOT: Final = 4
TICK: Final = 5
OPERATION: Final = 6
STAGED: Final = 7
SYNC_DONE: Final = 8
ROOT: Final = 9
POSITION: Final = 10
APPENDED: Final = 11

HEAD_SIZE: Final = 5
_HEAD: Final = Struct(">BI")
_MESSAGE_START: Final = Struct(">BII")
_MESSAGE_START_SIZE: Final = 9
_NUMBER_SIZE: Final = 8
_PAIR_SIZE: Final = 24
# Stands for -1, nobody.
_NO_ORIGIN: Final = 0xFFFF_FFFF
# Of a dequeued record before its ranges: number of the queue, octets of the bodies.
_DEQUEUED_START: Final = Struct(">QQ")
_DEQUEUED_START_SIZE: Final = 16
RANGE_SIZE: Final = 12
RANGE_COUNT_MAX: Final = 0xFFFF_FFFF  # of positions, since the field has four octets
TICK_RECORD: Final = _HEAD.pack(TICK, 0)
STAGED_RECORD: Final = _HEAD.pack(STAGED, 0)
_OPERATION: Final = Struct(">BIIQI")
OPERATION_SIZE: Final = 21
_PLACE: Final = Struct(">BIIQ")
_PLACE_SIZE: Final = 12
_ROOT: Final = Struct(">BII")
_IDS: Final = Struct(">QI")
# A message of one queue up to its position, the common case: kind, size, dialect, origin, number of
# pairs, number of the queue.
SINGLE_HEAD_SIZE: Final = 22
_SINGLE_REST: Final = _MESSAGE_START_SIZE + _PAIR_SIZE + 8
# Of its record, without address, header and body.
SINGLE_SIZE: Final = HEAD_SIZE + _SINGLE_REST
_NEVER: Final = bytes(8)


def append_message(
    pieces: list[bytes],
    message: Message,
    header: bytes,
    address: bytes,
    queue_numbers: list[int],
    entries: list[QueueEntry],
    wall_offset_ms: int,
) -> int:
    """Append a message record for one or several queues; returns its size. Many of one queue each
    are a `RepeatWriter`.
    """
    body = message.body
    count = len(entries)
    size = _MESSAGE_START_SIZE + _PAIR_SIZE * count + 8
    size += len(address) + len(header) + len(body)
    # `to_bytes`, since a call of `Struct.pack` costs as much as ten of them.
    pieces.append((MESSAGE << 32 | size).to_bytes(HEAD_SIZE, "big"))
    pieces.append(_message_start(message.origin, count))
    for index in range(count):
        entry = entries[index]
        pieces.append(queue_numbers[index].to_bytes(_NUMBER_SIZE, "big"))
        pieces.append(entry.position.to_bytes(8, "big"))
        if entry.expires_at:
            pieces.append((entry.expires_at + wall_offset_ms).to_bytes(8, "big"))
        else:
            pieces.append(_NEVER)
    pieces.append(address)
    pieces.append((len(header) << 32 | len(body)).to_bytes(8, "big"))
    pieces.append(header)
    pieces.append(body)
    return HEAD_SIZE + size


def _message_start(origin: int, pair_count: int) -> bytes:
    """Dialect, origin and number of pairs."""
    return ((origin & _NO_ORIGIN) << 32 | pair_count).to_bytes(_MESSAGE_START_SIZE, "big")


def single_head(rest: int, origin: int, queue_number: int) -> bytes:
    """A record of one queue up to its position; `rest` are octets of address, header and body."""
    return b"".join(
        [
            (MESSAGE << 32 | _SINGLE_REST + rest).to_bytes(HEAD_SIZE, "big"),
            _message_start(origin, 1),
            queue_number.to_bytes(_NUMBER_SIZE, "big"),
        ]
    )


def single_tail_start(address: bytes, header_size: int, body_size: int) -> bytes:
    """The part between its position and its header, if it never expires."""
    return b"".join([_NEVER, address, (header_size << 32 | body_size).to_bytes(8, "big")])


def encode_range(first: int, count: int) -> bytes:
    """So many positions from the first one on."""
    return first.to_bytes(8, "big") + count.to_bytes(4, "big")


def encode_ranges(positions: list[int]) -> list[bytes]:
    """Positions as ranges, in the order in which they are given."""
    ranges: list[bytes] = []
    first = positions[0]
    following = first
    for position in positions:
        if position == following:
            following += 1
        else:
            ranges.append(encode_range(first, following - first))
            first = position
            following = position + 1
    ranges.append(encode_range(first, following - first))
    return ranges


def append_dequeued(
    pieces: list[bytes], queue_number: int, body_bytes: int, ranges: list[bytes]
) -> int:
    """Append a record of the ranges of positions that left one queue; returns its size.
    `body_bytes` are the octets of the bodies that the ranges held.
    """
    size = _DEQUEUED_START_SIZE + RANGE_SIZE * len(ranges)
    pieces.append(_HEAD.pack(DEQUEUED, size))
    pieces.append(_DEQUEUED_START.pack(queue_number, body_bytes))
    # One piece, since whoever sends them takes a step for each.
    pieces.append(b"".join(ranges))
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


def append_parts(pieces: list[bytes], kind: int, parts: list[bytes]) -> int:
    """Append a record whose content comes in parts; returns its size."""
    size = sum([len(part) for part in parts])
    pieces.append(_HEAD.pack(kind, size))
    pieces.extend(parts)
    return HEAD_SIZE + size


def operation_record(epoch: int, k: int, octets: int) -> bytes:
    """The first record of an operation, whose part of the batch has so many octets behind it."""
    return _OPERATION.pack(OPERATION, OPERATION_SIZE - HEAD_SIZE, epoch, k, octets)


def root_record(epoch: int) -> bytes:
    return _ROOT.pack(ROOT, 4, epoch)


def position_record(epoch: int, k: int) -> bytes:
    return _PLACE.pack(POSITION, _PLACE_SIZE, epoch, k)


def append_sync_done(
    pieces: list[bytes], epoch: int, k: int, target: list[tuple[int, list[tuple[int, int]]]]
) -> int:
    """Append the record that ends a SYNC; returns its size. The target lists, per queue number, the
    ranges of positions as first one and count.
    """
    content = [_PLACE.pack(SYNC_DONE, 0, epoch, k)[HEAD_SIZE:], len(target).to_bytes(4, "big")]
    for number, ranges in target:
        encoded: list[bytes] = []
        for first, count in ranges:
            encoded.extend(_encode_long_range(first, count))
        content.append(_IDS.pack(number, len(encoded)))
        content.extend(encoded)
    octets = b"".join(content)
    pieces.append(_HEAD.pack(SYNC_DONE, len(octets)))
    pieces.append(octets)
    return HEAD_SIZE + len(octets)


def _encode_long_range(first: int, count: int) -> list[bytes]:
    """Several when its count does not fit the field."""
    encoded: list[bytes] = []
    while count > RANGE_COUNT_MAX:
        encoded.append(encode_range(first, RANGE_COUNT_MAX))
        first += RANGE_COUNT_MAX
        count -= RANGE_COUNT_MAX
    encoded.append(encode_range(first, count))
    return encoded


def size_at(data: bytes, at: int) -> int:
    """Octets of the whole record whose kind octet is at `at`."""
    return HEAD_SIZE + read_u32(data, at + 1)


def pair_count_at(data: bytes, at: int) -> int:
    """In how many queues the message is whose record begins here."""
    return read_u32(data, at + HEAD_SIZE + 5)


class OperationRecord:
    """The record before an operation, read."""

    def __init__(self, data: bytes, at: int) -> None:
        """`at` is the record's kind octet."""
        self.epoch: int = read_u32(data, at + HEAD_SIZE)
        self.k: int = read_u64(data, at + HEAD_SIZE + 4)
        # Of the records that belong to it, which follow.
        self.octets: int = read_u32(data, at + HEAD_SIZE + 12)


class DequeuedRecord:
    """What left a queue, read."""

    def __init__(self, data: bytes, at: int) -> None:
        """`at` is the record's kind octet."""
        start = at + HEAD_SIZE
        self.queue_number: int = read_u64(data, start)
        self.body_bytes: int = read_u64(data, start + 8)
        # First position and count of each.
        self.ranges: list[tuple[int, int]] = read_ranges(
            data, start + _DEQUEUED_START_SIZE, at + size_at(data, at)
        )


class SyncDoneRecord:
    """The record that ends a SYNC, read."""

    def __init__(self, data: bytes, at: int) -> None:
        """`at` is the record's kind octet."""
        self.epoch: int = read_u32(data, at + HEAD_SIZE)
        self.k: int = read_u64(data, at + HEAD_SIZE + 4)
        # Per queue number, ranges of positions as first one and count.
        self.target: list[tuple[int, list[tuple[int, int]]]] = []
        place = at + HEAD_SIZE + _PLACE_SIZE
        queue_count = read_u32(data, place)
        place += 4
        for _ in range(queue_count):
            number = read_u64(data, place)
            end = place + 12 + read_u32(data, place + 8) * RANGE_SIZE
            self.target.append((number, read_ranges(data, place + 12, end)))
            place = end


def read_ranges(data: bytes, at: int, end: int) -> list[tuple[int, int]]:
    """First position and count of each range."""
    ranges: list[tuple[int, int]] = []
    while at < end:
        ranges.append((read_u64(data, at), read_u32(data, at + 8)))
        at += RANGE_SIZE
    return ranges


def root_epoch(data: bytes, at: int) -> int:
    """Of a root record."""
    return read_u32(data, at + HEAD_SIZE)


def position_at(data: bytes, at: int) -> tuple[int, int]:
    """Epoch and k of a position record."""
    return read_u32(data, at + HEAD_SIZE), read_u64(data, at + HEAD_SIZE + 4)


def is_whole_message(data: bytes, at: int, end: int) -> bool:
    """Whether the parts of a message record fill it exactly; `end` is where its size says that it
    ends, within the data.
    """
    place = at + HEAD_SIZE + _MESSAGE_START_SIZE
    if place > end:
        return False
    pair_count = read_u32(data, at + HEAD_SIZE + 5)
    place += pair_count * _PAIR_SIZE
    if pair_count == 0 or place >= end:
        return False
    # The key follows the exchange.
    place += 1 + data[place]
    if place >= end:
        return False
    place += 1 + data[place]
    if place + 8 > end:
        return False
    return place + 8 + read_u32(data, place) + read_u32(data, place + 4) == end


def is_whole_dequeued(size: int) -> bool:
    """Whether a dequeued record of this size has whole ranges, and at least one."""
    octets = size - HEAD_SIZE - _DEQUEUED_START_SIZE
    return octets > 0 and octets % RANGE_SIZE == 0


class MessageRecord:
    """Where the parts of a message record lie in the octets it was read from."""

    def __init__(self, data: bytes, at: int) -> None:
        """`at` is the record's kind octet; the whole record lies in `data`."""
        pair_count = read_u32(data, at + HEAD_SIZE + 5)
        self._data: bytes = data
        self._start: int = at + HEAD_SIZE
        self._pairs: int = self._start + _MESSAGE_START_SIZE
        self.pair_count: int = pair_count
        self._exchange: int = self._pairs + pair_count * _PAIR_SIZE
        self._key: int = self._exchange + 1 + data[self._exchange]
        sizes = self._key + 1 + data[self._key]
        self._header: int = sizes + 8
        self._header_size: int = read_u32(data, sizes)
        self.body_size: int = read_u32(data, sizes + 4)

    def queue_number(self, index: int) -> int:
        return read_u64(self._data, self._pairs + index * _PAIR_SIZE)

    def position(self, index: int) -> int:
        return read_u64(self._data, self._pairs + index * _PAIR_SIZE + 8)

    def expires_at(self, index: int) -> int:
        return read_u64(self._data, self._pairs + index * _PAIR_SIZE + 16)

    def index_of(self, number: int, position: int) -> int:
        """Which pair is the one of a queue's position."""
        for index in range(self.pair_count):
            if self.position(index) == position and self.queue_number(index) == number:
                return index
        raise AssertionError("a record that a queue points to names the queue")

    def origin(self) -> int:
        origin = read_u32(self._data, self._start + 1)
        return -1 if origin == _NO_ORIGIN else origin

    def with_pairs(self, indices: list[int]) -> bytes:
        """The same message for some of its pairs only; the record is all there is in its octets."""
        begin = self._pairs
        kept = [
            self._data[begin + index * _PAIR_SIZE : begin + (index + 1) * _PAIR_SIZE]
            for index in indices
        ]
        rest = self._data[self._exchange :]
        size = _MESSAGE_START_SIZE + _PAIR_SIZE * len(kept) + len(rest)
        start = _MESSAGE_START.pack(0, read_u32(self._data, self._start + 1), len(kept))
        return b"".join([_HEAD.pack(MESSAGE, size), start, *kept, rest])

    def address(self) -> bytes:
        """Exchange and routing key as short strings."""
        return self._data[self._exchange : self._key + 1 + self._data[self._key]]

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
