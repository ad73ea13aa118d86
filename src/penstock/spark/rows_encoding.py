"""Rows of Arrow as messages: joined column by column in Arrow and numpy, never row by row.

There are two results: rows as a sink accepts them (docs/HTTP.md), and frames of AMQP 0-9-1 for
publishing directly. Both need the same three pieces of each message: its address (exchange and
routing key as short strings), its content header and its body.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.amqp091_frames import (
    BODY,
    CONTENT_HEADER_START,
    END,
    HEADER,
    METHOD,
    PUBLISH_FIXED_SIZE,
    PUBLISH_START,
)
from penstock.formats.octets import SHORT_STRING_BYTES_MAX
from penstock.formats.row_block import BLOCK_HEAD, BLOCK_HEAD_SIZE
from penstock.formats.stream_index import ENTRY_FIELDS
from penstock.spark.errors import PipelineError
from penstock.spark.header_values import STRING, value_of
from penstock.spark.octet_pieces import (
    BINARY,
    NOTHING,
    Piece,
    as_array,
    big,
    flat,
    join,
    little,
    offsets_of,
    sizes_of,
)
from penstock.wire.amqp091 import property_flags_generated as flags
from penstock.wire.amqp091.field_table import encode_table

if TYPE_CHECKING:
    from collections.abc import Iterator

PERSISTENT: Final = 2
_TABLE_SIZE_BYTES: Final = 4
_ENTRY: Final = np.dtype(list(ENTRY_FIELDS))

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
    """The pieces of some messages."""

    count: int
    address: Piece
    exchange_sizes: Any
    key_sizes: Any
    header: Piece
    body: pa.Array

    def __len__(self) -> int:
        return self.count

    def blocks(self, bytes_max: int, rows_max: int) -> Iterator[tuple[int, bytes]]:
        """(count, octets) for a sink, in pieces of at most so many octets unless one message is
        larger than that by itself. Rows have no checksums of their own: that of the request
        covers them.
        """
        header_sizes, body_sizes = sizes_of(self.header), sizes_of(self.body)
        payload = join(
            self.count, self.address, little(header_sizes), self.header, little(body_sizes),
            self.body,
        )  # fmt: skip
        log, ends = flat(payload)
        index = np.zeros(self.count, _ENTRY)
        index["header_size"] = header_sizes
        index["body_size"] = body_sizes
        index["exchange_size"] = self.exchange_sizes
        index["key_size"] = self.key_sizes
        # Ends of rows with their entries: where a piece may be cut.
        weights = ends[1:] - ends[0] + _ENTRY.itemsize * np.arange(1, self.count + 1)
        first, used = 0, 0
        while first < self.count:
            last = int(np.searchsorted(weights, used + bytes_max - BLOCK_HEAD_SIZE, "right"))
            last = min(max(last, first + 1), first + rows_max)
            entries = index[first:last]
            entries["position"] = ends[first:last] - ends[first]
            octets = log[ends[first] : ends[last]]
            yield (
                last - first,
                b"".join([BLOCK_HEAD.pack(last - first, len(octets)), entries.tobytes(), octets]),
            )
            first, used = last, int(weights[last - 1])

    def frames(self, channel: int, mandatory: bool) -> tuple[memoryview, Any]:
        """Of a publish of each message, and where each begins; a body must fit into one frame."""
        number = channel.to_bytes(2, "big")
        body_sizes = sizes_of(self.body)
        body_frame: tuple[Piece, ...] = (BODY + number, big(body_sizes, 4), self.body, END)
        if not body_sizes.all():
            # A message without a body has no such frame.
            whole = as_array(join(self.count, *body_frame))
            body_frame = (pc.if_else(pa.array(body_sizes > 0), whole, NOTHING),)
        return flat(
            join(
                self.count,
                METHOD + number,
                big(PUBLISH_FIXED_SIZE + sizes_of(self.address), 4),
                PUBLISH_START,
                self.address,
                bytes([mandatory]) + END + HEADER + number,
                big(sizes_of(self.header), 4),
                self.header,
                END,
                *body_frame,
            )
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
        count,
        # An address is never empty, so that it is a matrix or an array.
        join(count, exchange_piece, key_piece),
        exchange_sizes,
        key_sizes,
        _header(columns, sizes_of(body)),
        body,
    )


def _part_of_address(
    name: str, constant: str | None, columns: dict[str, pa.Array], count: int
) -> tuple[Piece, Any]:
    """As a short string, and the sizes of the text in it."""
    if constant is not None:
        octets = constant.encode()
        return bytes([len(octets)]) + octets, len(octets)
    array = columns[name]
    if array.null_count:
        raise PipelineError(
            f"column '{name}' is null in {array.null_count} of {count} rows; a message needs one"
        )
    piece = _short_strings(array, name)
    return piece, sizes_of(piece) - 1


def _header(columns: dict[str, pa.Array], body_sizes: Any) -> Piece:
    """Content headers: body size, flags of the properties that are there, and those."""
    count = len(body_sizes)
    given: dict[str, pa.Array] = {name: columns[name] for name in _ORDER if name in columns}
    if "properties" in columns:
        struct_column = columns["properties"]
        for name in PROPERTY_NAMES:
            if struct_column.type.get_field_index(name) >= 0:
                given[name] = pc.struct_field(struct_column, name)
    words = np.zeros(count, np.int64)
    pieces: list[Piece] = []
    for name in _ORDER:
        array = given.get(name)
        if name == "delivery_mode":
            modes = _numbers(array, name, PERSISTENT) if array is not None else None
            words |= flags.DELIVERY_MODE
            pieces.append(bytes([PERSISTENT]) if modes is None else big(modes, 1))
        elif array is not None:
            flag, piece = _property(name, array, columns.get("header_types"))
            if array.null_count:
                valid = pc.is_valid(array)
                piece = pc.if_else(valid, as_array(piece), NOTHING)
                words |= np.where(valid.to_numpy(zero_copy_only=False), flag, 0)
            else:
                words |= flag
            pieces.append(piece)
    return join(count, CONTENT_HEADER_START, big(body_sizes, 8), big(words, 2), *pieces)


def _property(name: str, array: pa.Array, types: pa.MapArray | None) -> tuple[int, Piece]:
    """Its flag, and the octets of each value; those of nulls do not matter."""
    if name == "headers":
        return flags.HEADERS, _tables(array, types)
    if name == "priority":
        return flags.PRIORITY, big(_numbers(array, name, 0), 1)
    if name == "timestamp":
        if pa.types.is_timestamp(array.type):
            micros = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
            seconds = pc.fill_null(micros, 0).to_numpy() // 1_000_000
        else:
            seconds = pc.fill_null(array.cast(pa.int64()), 0).to_numpy()
        return flags.TIMESTAMP, big(seconds, 8)
    return TEXT_PROPERTIES[name], _short_strings(array, name)


def _tables(array: pa.MapArray, types: pa.MapArray | None) -> Piece:
    """Field tables of text values; a null value is AMQP's void. The entries of a row are adjacent,
    so that joining entries joins tables.
    """
    bounds = array.offsets.to_numpy()
    start, size = int(bounds[0]), int(bounds[-1] - bounds[0])
    texts = array.items.slice(start, size)
    if types is None:
        values = _octets(texts)
        filled = pc.fill_null(values, b"")
        value = join(size, b"S", big(sizes_of(filled), 4), filled)
        if values.null_count:
            value = pc.if_else(pc.is_valid(values), as_array(value), pa.scalar(b"V", BINARY))
    else:
        value = _typed_values(texts, _kinds_of(array, types))
    entries = as_array(join(size, _short_strings(array.keys.slice(start, size), "headers"), value))
    ends = offsets_of(entries)[bounds - start].astype(np.int32)
    data = entries.buffers()[2] or pa.py_buffer(b"")
    rows = pa.Array.from_buffers(BINARY, len(array), [None, pa.py_buffer(ends), data])
    return join(len(array), big(sizes_of(rows), 4), rows)


def _kinds_of(array: pa.MapArray, types: pa.MapArray) -> list[str]:
    """The type of every header, row by row; one that is not named is a text."""
    kinds: list[str] = []
    for headers, named in zip(array.to_pylist(), types.to_pylist(), strict=True):
        known = dict(named or ())
        kinds += [known.get(name) or STRING for name, _ in headers or ()]
    return kinds


def _typed_values(texts: pa.Array, kinds: list[str]) -> pa.Array:
    """Values with the letters of their types. Many are alike, so each is encoded once."""
    encoded: dict[tuple[str, str | None], bytes] = {}
    values: list[bytes] = []
    for kind, text in zip(kinds, texts.to_pylist(), strict=True):
        octets = encoded.get((kind, text))
        if octets is None:
            try:
                table = encode_table({"": value_of(kind, text)})
            except (ValueError, TypeError, OverflowError) as error:
                raise PipelineError(f"column 'headers': {error}") from None
            # Without the table's size and the empty name.
            octets = table[_TABLE_SIZE_BYTES + 1 :]
            encoded[kind, text] = octets
        values.append(octets)
    return pa.array(values, BINARY)


def _short_strings(array: pa.Array, name: str) -> Piece:
    octets = pc.fill_null(_octets(array), b"")
    sizes = sizes_of(octets)
    if len(sizes) and sizes.max() > SHORT_STRING_BYTES_MAX:
        raise PipelineError(
            f"column '{name}' has a value of {sizes.max()} bytes; the maximum in AMQP is "
            f"{SHORT_STRING_BYTES_MAX}"
        )
    return join(len(octets), big(sizes, 1), octets)


def _numbers(array: pa.Array, name: str, default: int) -> Any:
    numbers = pc.fill_null(array.cast(pa.int64()), default).to_numpy()
    if len(numbers) and (numbers.min() < 0 or numbers.max() > SHORT_STRING_BYTES_MAX):
        raise PipelineError(f"column '{name}' has a value that is not between 0 and 255")
    return numbers


def _octets(array: pa.Array) -> pa.Array:
    if not pa.types.is_binary(array.type) and not pa.types.is_string(array.type):
        array = array.cast(pa.string())
    return array.cast(BINARY)
