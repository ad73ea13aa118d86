"""Octets of a stream's index and log into Arrow record batches, without a loop over messages.

An entry of the index has a fixed width (`formats/stream_index.py` draws it), so numpy reads a
whole range of it as columns and computes from them where exchange, routing key, head and body of
each message are. Arrow then copies them out of the log. Leased rows have the same form.

The checks: each payload is inside the log and after its predecessor, and the lengths in the log
agree with those of the index in their lowest octet. That detects a wrong range or a shifted index,
not a flipped bit in a body: TCP has a checksum and the broker has checked its own files. `verify`
checks the CRC of each message as well, one call per message.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.amqp091_frames import CLASS_BASIC, CONTENT_HEADER_FIXED_SIZE
from penstock.formats.octets import read_u16
from penstock.formats.stream_index import (
    BODY_SIZE_AT,
    ENTRY_FIELDS,
    ENTRY_SIZE,
    EXCHANGE_SIZE_AT,
    FIXED_SIZE,
    HEADER_SIZE_AT,
    KEY_SIZE_AT,
    WAS_DELIVERED,
)
from penstock.formats.stream_payload import FRAMING_SIZE, SIZE_WIDTH
from penstock.spark.bare_messages import Body, opened
from penstock.spark.columns import COLUMNS, PROPERTIES_ARROW, arrow_schema
from penstock.spark.errors import SegmentDamaged
from penstock.spark.heads import (
    Head,
    decode_head,
    decode_property_list,
)
from penstock.spark.repeats import spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Octets = Any  # bytes, bytearray or memoryview: mypy's Buffer needs Python 3.12
Column = np.ndarray[Any, Any]

ENTRY: Final = np.dtype(list(ENTRY_FIELDS))

# Batches of 1 k to 16 k rows go to Spark equally fast, larger ones more slowly.
BATCH_ROWS: Final = 10000
# Large messages make smaller batches, so that a task's memory does not depend on them much.
BATCH_BYTES: Final = 8 * 1024 * 1024
# Arrow's view of at most this many octets holds them itself, a longer one points into the log.
_INLINE_MAX: Final = 12
# Up to this length octets of equal length are copied by numpy, more quickly than by views.
_WINDOW_MAX: Final = 256
# Bytes that must be readable after the log, so that a window at its end stays inside the buffer.
SPARE_BYTES: Final = _WINDOW_MAX
# The first octets of a head of AMQP 0-9-1, as one number.
_CLASS: Final = np.dtype(">u2")
_CLASS_BASIC: Final = read_u16(CLASS_BASIC, 0)
_NOT_ASCII: Final = 0x80
# Distinct heads that are remembered between batches; heads that never repeat must not pile up.
_HEADS_MAX: Final = 4096


def read_index(octets: Octets) -> Column:
    if len(octets) % ENTRY_SIZE:
        raise SegmentDamaged(f"an index of {len(octets)} bytes ends within an entry")
    return np.frombuffer(octets, dtype=ENTRY)


def cuts(index: Column) -> Column:
    """Positions in the log where it may be cut after each payload: where the next one begins."""
    positions = index["position"]
    found: Column = np.empty(len(index), np.int64)
    found[:-1] = positions[1:]
    found[-1] = log_end(index)
    return found


def log_end(index: Column) -> int:
    """The position in the log behind the last payload."""
    last = index[-1]
    parts = ("position", "exchange_size", "key_size", "header_size", "body_size")
    return FRAMING_SIZE + sum(int(last[part]) for part in parts)


class Places:
    """Where the parts of some messages are in a log, from its first octet, and how long they are.
    All arrays are of one type: numpy is slow where types are mixed.
    """

    def __init__(self, index: Column, log_position: int) -> None:
        self.index = index
        self.exchange_size = index["exchange_size"].astype(np.int64)
        self.key_size = index["key_size"].astype(np.int64)
        self.head_size = index["header_size"].astype(np.int64)
        self.body_size = index["body_size"].astype(np.int64)
        self.start = index["position"].astype(np.int64)
        self.start -= log_position
        self.exchange = self.start + 1
        self.key = self.exchange + self.exchange_size
        self.key += 1
        self.head = self.key + self.key_size
        self.head += SIZE_WIDTH
        self.body = self.head + self.head_size
        self.body += SIZE_WIDTH

    def check(self, log: Column, log_size: int) -> None:
        """Raises `SegmentDamaged` when index and log do not belong together."""
        end = self.body + self.body_size
        if self.start[0] < 0 or end[-1] > log_size or (self.start[1:] < end[:-1]).any():
            raise SegmentDamaged("the index points outside the log that it belongs to")
        # Of each size the lowest octet.
        entries = self.index.view(np.uint8).reshape(len(end), ENTRY_SIZE)
        agree = log[self.start] == entries[:, EXCHANGE_SIZE_AT]
        agree &= log[self.key - 1] == entries[:, KEY_SIZE_AT]
        agree &= log[self.head - SIZE_WIDTH] == entries[:, HEADER_SIZE_AT]
        agree &= log[self.body - SIZE_WIDTH] == entries[:, BODY_SIZE_AT]
        if not agree.all():
            raise SegmentDamaged(f"index and log disagree about message {int(agree.argmin())}")

    def chosen(self, rows: Column) -> Places:
        chosen = object.__new__(Places)
        for name, value in vars(self).items():
            setattr(chosen, name, value[rows])
        return chosen


class RowChoice(ABC):
    """Which rows are wanted. Held by a decoder."""

    @abstractmethod
    def matches(self, rows: Rows) -> Column:
        """A truth value for each row."""


class RowDecoder:
    """Makes batches of the chosen columns. Held by one task; knows the stream's name and number."""

    def __init__(
        self,
        columns: tuple[str, ...],
        stream: str,
        partition: int,
        row_filter: RowChoice | None = None,
        verify: bool = False,
    ) -> None:
        self._columns = columns
        self._schema = arrow_schema(columns)
        self._stream = stream
        self._partition = partition
        self._filter = row_filter
        self._verify = verify
        self._heads: dict[tuple[bool, bool, bytes], Head] = {}
        # Columns that are the same for all rows, and for how many they were made.
        self._constant: dict[str, pa.Array] = {}

    def batches(
        self, index: Column, log: Octets, log_size: int, log_position: int, first_offset: int
    ) -> Iterator[pa.RecordBatch]:
        """Of messages in a row. The log has `SPARE_BYTES` behind its `log_size` octets."""
        for start, end in batch_extents(index):
            rows = index[start:end]
            batch = self.batch(rows, log, log_size, log_position, first_offset + start)
            if batch.num_rows:
                yield batch

    def batch(
        self, index: Column, log: Octets, log_size: int, log_position: int, first_offset: int
    ) -> pa.RecordBatch:
        """As `batches`, of all the messages; it may be empty where rows are chosen."""
        assert len(log) >= log_size + SPARE_BYTES
        places = Places(index, log_position)
        octets = np.frombuffer(log, dtype=np.uint8)
        places.check(octets, log_size)
        if self._verify:
            _verify(index, log, places, first_offset)
        offsets = np.arange(first_offset, first_offset + len(index), dtype=np.int64)
        return self._batch(octets, pa.py_buffer(log), places, offsets)

    def _batch(
        self, log: Column, buffer: pa.Buffer, places: Places, offsets: Column
    ) -> pa.RecordBatch:
        rows = Rows(log, buffer, places, offsets, self._heads)
        if self._filter is not None:
            wanted = np.flatnonzero(self._filter.matches(rows))
            rows = Rows(log, buffer, places.chosen(wanted), offsets[wanted], self._heads)
        arrays = [self._column(name, rows) for name in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, name: str, rows: Rows) -> pa.Array:
        if name not in {"stream", "partition"}:
            return _MAKERS[name](rows)
        known = self._constant.get(name)
        if known is None or len(known) != rows.count:
            value = self._stream if name == "stream" else self._partition
            known = pa.repeat(pa.scalar(value, COLUMNS[name][1]), rows.count)
            self._constant[name] = known
        return known


class Rows:
    """The rows of one batch; makes columns of them. Heads are decoded once, for all columns."""

    def __init__(
        self,
        log: Column,
        buffer: pa.Buffer,
        places: Places,
        offsets: Column,
        heads: dict[tuple[bool, bool, bytes], Head],
    ) -> None:
        self.count = len(offsets)
        self._log = log
        self._buffer = buffer
        self._places = places
        self._offsets = offsets
        self._known_heads = heads
        self._distinct: tuple[list[Head], pa.Array] | None = None
        self._class_basic: Column | None = None
        self._opened: dict[int, Body] | None = None
        self._key: pa.Array | None = None

    def offset(self) -> pa.Array:
        return _from_numbers(self._offsets, pa.int64())

    def timestamp(self) -> pa.Array:
        microseconds = self._places.index["timestamp"].astype(np.int64) * 1000
        return _from_numbers(microseconds, COLUMNS["timestamp"][1])

    def exchange(self) -> pa.Array:
        return _text(self._octets(self._places.exchange, self._places.exchange_size))

    def routing_key(self) -> pa.Array:
        if self._key is None:
            self._key = _text(self._octets(self._places.key, self._places.key_size))
        return self._key

    def redelivered(self) -> pa.Array:
        return pa.array((self._places.index["flags"] & WAS_DELIVERED) != 0)

    def headers(self) -> pa.Array:
        return self.spread([head.headers for head in self.heads()], COLUMNS["headers"][1])

    def header_types(self) -> pa.Array:
        return self.spread([head.types for head in self.heads()], COLUMNS["header_types"][1])

    def properties(self) -> pa.Array:
        return self.spread([head.properties for head in self.heads()], PROPERTIES_ARROW)

    def id(self) -> pa.Array:
        return self.spread([head.id for head in self.heads()], pa.string())

    def body(self) -> pa.Array:
        starts = self._places.body
        sizes = self._places.body_size
        is_10 = ~self._is_091()
        if not is_10.any():
            return self._octets(starts, sizes)
        framing = _data_framing(self._log, starts, sizes)
        framing[~is_10] = 0
        bodies = self._octets(starts + framing, sizes - framing)
        if self._uncommon():
            values = bodies.to_pylist()
            for row, body in self._uncommon().items():
                values[row] = body.content
            bodies = pa.array(values, pa.binary())
        return bodies

    def _uncommon(self) -> dict[int, Body]:
        """Bodies of AMQP 1.0 messages by row that are not one data section; others are simple."""
        if self._opened is None:
            self._opened = {}
            is_10 = ~self._is_091()
            if is_10.any():
                starts = self._places.body
                sizes = self._places.body_size
                is_simple = _data_framing(self._log, starts, sizes) > 0
                rows = np.flatnonzero(is_10 & ~is_simple)
                bodies = self._octets(starts[rows], sizes[rows]).to_pylist()
                for row, body in zip(rows.tolist(), bodies, strict=True):
                    self._opened[row] = opened(body)
        return self._opened

    def heads(self) -> list[Head]:
        """The distinct heads of these rows."""
        return self._heads()[0]

    def spread(self, values: list[Any], kind: pa.DataType) -> pa.Array:
        """One value per distinct head to one per row."""
        return spread(values, kind, self._heads()[1])

    def _heads(self) -> tuple[list[Head], pa.Array]:
        if self._distinct is None:
            starts = self._places.head
            sizes = self._places.head_size
            # Without the size of the body in it, many heads are the same.
            is_cut = bool(self._is_091().all())
            if is_cut:
                starts = starts + CONTENT_HEADER_FIXED_SIZE
                sizes = sizes - CONTENT_HEADER_FIXED_SIZE
            encoded = pc.dictionary_encode(self._octets(starts, sizes))
            found = encoded.dictionary.to_pylist()
            indices = encoded.indices
            if self._uncommon():
                heads, indices = self._heads_and_bodies(found, indices.to_pylist())
            else:
                heads = [self._head(is_cut, octets) for octets in found]
            self._distinct = (heads, indices)
        return self._distinct

    def _heads_and_bodies(self, found: list[bytes], rows: list[int]) -> tuple[list[Head], pa.Array]:
        """For heads that depend on the body: a property gives its type, and it may have a
        footer.
        """
        heads: list[Head] = []
        places: dict[tuple[int, bool, bytes], int] = {}
        indices: list[int] = []
        uncommon = self._uncommon()
        for row, number in enumerate(rows):
            body = uncommon.get(row)
            key = (number, False, b"") if body is None else (number, body.is_encoded, body.footer)
            place = places.get(key)
            if place is None:
                place = len(heads)
                places[key] = place
                heads.append(self._head(False, found[number], body))
            indices.append(place)
        return heads, pa.array(indices, pa.int32())

    def _head(self, is_cut: bool, octets: bytes, body: Body | None = None) -> Head:
        if body is not None and body.footer:
            return decode_head(octets, body)
        key = (is_cut, body is not None and body.is_encoded, octets)
        known = self._known_heads.get(key)
        if known is None:
            known = decode_property_list(octets) if is_cut else decode_head(octets, body)
            if len(self._known_heads) >= _HEADS_MAX:
                self._known_heads.clear()
            self._known_heads[key] = known
        return known

    def _is_091(self) -> Column:
        if self._class_basic is None:
            is_class = _windows(self._log, _CLASS)[self._places.head] == _CLASS_BASIC
            is_class &= self._places.head_size >= CONTENT_HEADER_FIXED_SIZE
            self._class_basic = is_class
        return self._class_basic

    def _octets(self, starts: Column, sizes: Column) -> pa.Array:
        return copied(self._log, self._buffer, starts, sizes)


_MAKERS: Final[dict[str, Callable[[Rows], pa.Array]]] = {
    "offset": Rows.offset,
    "timestamp": Rows.timestamp,
    "exchange": Rows.exchange,
    "routing_key": Rows.routing_key,
    "headers": Rows.headers,
    "header_types": Rows.header_types,
    "properties": Rows.properties,
    "body": Rows.body,
    "id": Rows.id,
    "redelivered": Rows.redelivered,
}


def batch_extents(index: Column) -> Iterator[tuple[int, int]]:
    """Where to cut: at most BATCH_ROWS, and at most BATCH_BYTES unless one message has more."""
    ends = cuts(index)
    start = 0
    while start < len(index):
        limit = int(index["position"][start]) + BATCH_BYTES
        end = int(np.searchsorted(ends, limit, side="right"))
        end = max(start + 1, min(end, start + BATCH_ROWS))
        yield start, end
        start = end


def copied(log: Column, buffer: pa.Buffer, starts: Column, sizes: Column) -> pa.Array:
    """A plain binary array of pieces of the log."""
    count = len(starts)
    if count == 0:
        return pa.array([], pa.binary())
    size = int(sizes[0])
    if size <= _WINDOW_MAX and (sizes == size).all():
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(size)
        data = _pieces(log, starts, size) if size else np.empty(0, np.uint8)
        return pa.Array.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )
    views = np.zeros((count, 4), dtype=np.int32)
    views[:, 0] = sizes
    # The prefix, views[:, 1], and the number of the buffer stay 0: a cast reads neither's content.
    views[:, 3] = starts
    short = np.flatnonzero(sizes <= _INLINE_MAX)
    if len(short):
        inline = _pieces(log, starts[short], _INLINE_MAX)
        inline[np.arange(_INLINE_MAX) >= sizes[short, None]] = 0
        views[short, 1:] = inline.view(np.int32)
    array = pa.Array.from_buffers(pa.binary_view(), count, [None, pa.py_buffer(views), buffer])
    return array.cast(pa.binary())


def _pieces(log: Column, starts: Column, size: int) -> Column:
    """Pieces of equal length, one per row. As items of a type of that length they are copied
    twice as fast as by numpy's windows.
    """
    found: Column = _windows(log, np.dtype(f"V{size}"))[starts]
    return found.view(np.uint8).reshape(len(starts), size)


def _windows(log: Column, kind: np.dtype[Any]) -> Column:
    """The log as items of a type, one for each octet that it may begin with."""
    shape = (len(log) - kind.itemsize + 1,)
    return np.ndarray(shape, kind, buffer=log, strides=(1,))


def _data_framing(log: Column, starts: Column, sizes: Column) -> Column:
    """Octets before the data in bodies that are one data section of AMQP 1.0; 0 for others."""
    opening = _pieces(log, starts, 8).astype(np.int64)
    is_data = (opening[:, :3] == (0x00, 0x53, 0x75)).all(axis=1)
    is_short = is_data & (opening[:, 3] == 0xA0) & (opening[:, 4] == sizes - 5)
    size = opening[:, 4] << 24 | opening[:, 5] << 16 | opening[:, 6] << 8 | opening[:, 7]
    is_long = is_data & (opening[:, 3] == 0xB0) & (size == sizes - 8)
    framing: Column = np.where(is_short, 5, 0) + np.where(is_long, 8, 0)
    return framing


def _from_numbers(numbers: Column, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def _text(octets: pa.Array) -> pa.Array:
    _, offsets, data = octets.buffers()
    if data is not None and not (np.frombuffer(data, np.uint8) & _NOT_ASCII).any():
        # Most names; they need not be read as UTF-8.
        return pa.Array.from_buffers(pa.string(), len(octets), [None, offsets, data], 0)
    try:
        return octets.cast(pa.string())
    except pa.ArrowInvalid:
        # Names that are not UTF-8 are rare; they are shown with the replacement character.
        return pa.array([name.decode(errors="replace") for name in octets.to_pylist()], pa.string())


def _verify(index: Column, log: Octets, places: Places, first_offset: int) -> None:
    view = memoryview(log)
    fixed = index.tobytes()
    ends = places.body + places.body_size
    extents = zip(places.start.tolist(), ends.tolist(), index["crc"].tolist(), strict=True)
    for row, (start, end, crc) in enumerate(extents):
        at = row * ENTRY_SIZE
        if zlib.crc32(view[start:end], zlib.crc32(fixed[at : at + FIXED_SIZE])) != crc:
            raise SegmentDamaged(
                f"the checksum of the message at offset {first_offset + row} does not match"
            )
