"""Rows of Arrow as messages: joined column by column in Arrow and numpy, never row by row.

Two forms come out: rows as a sink takes them (docs/HTTP.md), and frames of AMQP 0-9-1 for
publishing directly. Both need the same three pieces of each message: its address (exchange and
routing key as short strings), its content header and its body.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.errors import PipelineError
from penstock.wire.amqp091 import property_flags_generated as flags

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORT_STRING_MAX: Final = 255
PERSISTENT: Final = 2
_BINARY: Final = pa.binary()
_NOTHING: Final = pa.scalar(b"", _BINARY)
# Class basic and weight 0, as a content header begins.
_HEADER_START: Final = pa.scalar(b"\x00\x3c\x00\x00", _BINARY)
# Class basic, method publish, and a word that is not used any more.
_PUBLISH: Final = pa.scalar(b"\x00\x3c\x00\x28\x00\x00", _BINARY)
_PUBLISH_BYTES: Final = 7  # with the octet of flags
_HEADER_BYTES: Final = 14
_HEAD: Final = struct.Struct("<II")
_ENTRY: Final = np.dtype(
    [
        ("timestamp", "<u8"),
        ("header_size", "<u4"),
        ("body_size", "<u4"),
        ("exchange_size", "u1"),
        ("key_size", "u1"),
        ("flags", "<u2"),
        ("position", "<u4"),
        ("crc", "<u4"),
        ("unsynced", "<u4"),
    ]
)
# What the checksum covers of an entry.
_FIXED_BYTES: Final = 20

# In the order of the protocol, each with its flag.
TEXT_PROPERTIES: Final = {
    "content_type": flags.CONTENT_TYPE,
    "content_encoding": flags.CONTENT_ENCODING,
    "correlation_id": flags.CORRELATION_ID,
    "reply_to": flags.REPLY_TO,
    "expiration": flags.EXPIRATION,
    "message_id": flags.MESSAGE_ID,
    "type": flags.TYPE,
    "app_id": flags.APP_ID,
}
_ORDER: Final = (
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "app_id",
)
PROPERTY_NAMES: Final = tuple(name for name in _ORDER if name != "headers")


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """The pieces of some messages, each an Arrow array of octets."""

    address: pa.Array
    exchange_sizes: Any
    key_sizes: Any
    header: pa.Array
    body: pa.Array

    def __len__(self) -> int:
        return len(self.body)

    def blocks(self, bytes_max: int, rows_max: int) -> Iterator[tuple[int, bytes]]:
        """(count, octets) for a sink, in pieces of at most so many octets unless one message is
        larger than that by itself.
        """
        header_sizes, body_sizes = sizes_of(self.header), sizes_of(self.body)
        payload = _joined(
            self.address, _little(header_sizes), self.header, _little(body_sizes), self.body
        )
        ends = _offsets(payload).astype(np.int64)
        log = memoryview(payload.buffers()[2])
        index = np.zeros(len(self), _ENTRY)
        index["header_size"] = header_sizes
        index["body_size"] = body_sizes
        index["exchange_size"] = self.exchange_sizes
        index["key_size"] = self.key_sizes
        index["crc"] = _checksums(index, log, ends)
        # Ends of rows with their entries: where a piece may be cut.
        weights = ends[1:] - ends[0] + _ENTRY.itemsize * np.arange(1, len(self) + 1)
        first, used = 0, 0
        while first < len(self):
            last = int(np.searchsorted(weights, used + bytes_max - _HEAD.size, "right"))
            last = min(max(last, first + 1), first + rows_max)
            entries = index[first:last]
            entries["position"] = ends[first:last] - ends[first]
            octets = log[ends[first] : ends[last]]
            yield (
                last - first,
                b"".join([_HEAD.pack(last - first, len(octets)), entries.tobytes(), octets]),
            )
            first, used = last, int(weights[last - 1])

    def frames(self, channel: int, mandatory: bool) -> pa.Array:
        """Of a publish of each message; a body must fit into one frame."""
        number = channel.to_bytes(2, "big")
        method_sizes = _PUBLISH_BYTES + sizes_of(self.address)
        body_sizes = sizes_of(self.body)
        body_frame = _joined(
            pa.scalar(b"\x03" + number, _BINARY),
            _big(body_sizes, 4),
            self.body,
            pa.scalar(b"\xce", _BINARY),
        )
        if not body_sizes.all():
            body_frame = pc.if_else(pa.array(body_sizes > 0), body_frame, _NOTHING)
        return _joined(
            pa.scalar(b"\x01" + number, _BINARY),
            _big(method_sizes, 4),
            _PUBLISH,
            self.address,
            pa.scalar(bytes([mandatory]) + b"\xce\x02" + number, _BINARY),
            _big(sizes_of(self.header), 4),
            self.header,
            pa.scalar(b"\xce", _BINARY),
            body_frame,
        )


def encode_rows(batch: pa.RecordBatch, exchange: str | None, key: str | None) -> EncodedRows:
    """With a constant exchange or routing key, or those of the columns. The columns were checked
    in the driver. Raises `PipelineError` for values that no message can have.
    """
    columns = {name: batch.column(at) for at, name in enumerate(batch.schema.names)}
    count = batch.num_rows
    exchange_piece, exchange_sizes = _part_of_address("exchange", exchange, columns, count)
    key_piece, key_sizes = _part_of_address("routing_key", key, columns, count)
    body = pc.fill_null(_octets(columns["body"]), b"")
    return EncodedRows(
        _joined(exchange_piece, key_piece),
        exchange_sizes,
        key_sizes,
        _header(columns, sizes_of(body)),
        body,
    )


def _part_of_address(
    name: str, constant: str | None, columns: dict[str, pa.Array], count: int
) -> tuple[pa.Array, Any]:
    if constant is not None:
        octets = constant.encode()
        piece = bytes([len(octets)]) + octets
        return _repeated(piece, count), np.full(count, len(octets), np.uint8)
    array = columns[name]
    if array.null_count:
        raise PipelineError(
            f"column '{name}' is null in {array.null_count} of {count} rows; a message needs one"
        )
    piece = _short_strings(array, name)
    return piece, sizes_of(piece) - 1


def _header(columns: dict[str, pa.Array], body_sizes: Any) -> pa.Array:
    """Content headers: body size, flags of the properties that are there, and those."""
    count = len(body_sizes)
    given: dict[str, pa.Array] = {name: columns[name] for name in _ORDER if name in columns}
    if "properties" in columns:
        struct_column = columns["properties"]
        for name in PROPERTY_NAMES:
            if struct_column.type.get_field_index(name) >= 0:
                given[name] = pc.struct_field(struct_column, name)
    words = np.zeros(count, np.int64)
    pieces: list[Any] = []
    for name in _ORDER:
        array = given.get(name)
        if name == "delivery_mode":
            modes = _numbers(array, name, PERSISTENT) if array is not None else None
            words |= flags.DELIVERY_MODE
            pieces.append(
                pa.scalar(bytes([PERSISTENT]), _BINARY) if modes is None else _big(modes, 1)
            )
        elif array is not None:
            flag, piece = _property(name, array)
            if array.null_count:
                valid = pc.is_valid(array)
                piece = pc.if_else(valid, piece, _NOTHING)
                words |= np.where(valid.to_numpy(zero_copy_only=False), flag, 0)
            else:
                words |= flag
            pieces.append(piece)
    return _joined(_HEADER_START, _big(body_sizes, 8), _big(words, 2), *pieces)


def _property(name: str, array: pa.Array) -> tuple[int, pa.Array]:
    """Its flag, and the octets of each value; those of nulls do not matter."""
    if name == "headers":
        return flags.HEADERS, _tables(array)
    if name == "priority":
        return flags.PRIORITY, _big(_numbers(array, name, 0), 1)
    if name == "timestamp":
        if pa.types.is_timestamp(array.type):
            micros = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
            seconds = pc.fill_null(micros, 0).to_numpy() // 1_000_000
        else:
            seconds = pc.fill_null(array.cast(pa.int64()), 0).to_numpy()
        return flags.TIMESTAMP, _big(seconds, 8)
    return TEXT_PROPERTIES[name], _short_strings(array, name)


def _tables(array: pa.MapArray) -> pa.Array:
    """Field tables of text values; a null value is AMQP's void. The entries of a row lie together,
    so that joining entries joins tables.
    """
    bounds = array.offsets.to_numpy()
    start, size = int(bounds[0]), int(bounds[-1] - bounds[0])
    values = _octets(array.items.slice(start, size))
    filled = pc.fill_null(values, b"")
    value = _joined(pa.scalar(b"S", _BINARY), _big(sizes_of(filled), 4), filled)
    if values.null_count:
        value = pc.if_else(pc.is_valid(values), value, pa.scalar(b"V", _BINARY))
    entries = _joined(_short_strings(array.keys.slice(start, size), "headers"), value)
    ends = _offsets(entries)[bounds - start].astype(np.int32)
    data = entries.buffers()[2] or pa.py_buffer(b"")
    rows = pa.Array.from_buffers(_BINARY, len(array), [None, pa.py_buffer(ends), data])
    return _joined(_big(sizes_of(rows), 4), rows)


def _short_strings(array: pa.Array, name: str) -> pa.Array:
    octets = pc.fill_null(_octets(array), b"")
    sizes = sizes_of(octets)
    if len(sizes) and sizes.max() > SHORT_STRING_MAX:
        raise PipelineError(
            f"column '{name}' has a value of {sizes.max()} octets; AMQP takes {SHORT_STRING_MAX}"
        )
    return _joined(_big(sizes, 1), octets)


def _numbers(array: pa.Array, name: str, default: int) -> Any:
    numbers = pc.fill_null(array.cast(pa.int64()), default).to_numpy()
    if len(numbers) and (numbers.min() < 0 or numbers.max() > SHORT_STRING_MAX):
        raise PipelineError(f"column '{name}' has a value that is not within 0 and 255")
    return numbers


def _octets(array: pa.Array) -> pa.Array:
    if not pa.types.is_binary(array.type) and not pa.types.is_string(array.type):
        array = array.cast(pa.string())
    return array.cast(_BINARY)


def _joined(*pieces: Any) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, _NOTHING)


def _offsets(array: pa.Array) -> Any:
    """Where values begin in the array's data, and where the last one ends."""
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)


def sizes_of(array: pa.Array) -> Any:
    return np.diff(_offsets(array)).astype(np.int64)


def _big(numbers: Any, width: int) -> pa.Array:
    """Numbers as octets, big-endian, as AMQP has them."""
    octets = np.ascontiguousarray(numbers, ">i8").view(np.uint8).reshape(-1, 8)[:, 8 - width :]
    return _fixed(np.ascontiguousarray(octets), width)


def _little(numbers: Any) -> pa.Array:
    return _fixed(np.ascontiguousarray(numbers, "<u4"), 4)


def _fixed(octets: Any, width: int) -> pa.Array:
    count = octets.nbytes // width
    ends = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(
        _BINARY, count, [None, pa.py_buffer(ends), pa.py_buffer(octets.tobytes())]
    )


def _repeated(piece: bytes, count: int) -> pa.Array:
    return _fixed(np.frombuffer(piece * count, np.uint8), len(piece))


def _checksums(index: Any, log: memoryview, ends: Any) -> list[int]:
    entries = memoryview(index.tobytes())
    crc = zlib.crc32
    size = _ENTRY.itemsize
    places = ends.tolist()
    return [
        crc(log[start:end], crc(entries[at : at + _FIXED_BYTES]))
        for start, end, at in zip(
            places, places[1:], range(0, size * len(index), size), strict=False
        )
    ]
