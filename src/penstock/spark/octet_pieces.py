"""Bytes of many rows, joined column by column without a loop over rows.

A piece is the part that every row has in one place: the same octets (`bytes`), octets of one width
(a numpy matrix with a row each) or octets of any size (an Arrow array). Pieces of one width are
joined by copying columns of a matrix; only where sizes differ does Arrow join.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BINARY: Final = pa.binary()
NOTHING: Final = pa.scalar(b"", BINARY)
# bytes | numpy matrix | Arrow array of octets
Piece = Any


def join(count: int, *pieces: Piece) -> Piece:
    """The pieces of each of `count` rows, one after the other: a matrix or an Arrow array."""
    runs: list[list[Any]] = [[]]
    varying: list[pa.Array] = []
    for piece in pieces:
        plain = _even(piece, count)
        if isinstance(plain, pa.Array):
            varying.append(plain)
            runs.append([])
        else:
            runs[-1].append(plain)
    if not varying:
        return _side_by_side(count, runs[0])
    arrays: list[Any] = []
    for at, run in enumerate(runs):
        if run:
            arrays.append(as_array(_side_by_side(count, run)))
        if at < len(varying):
            arrays.append(varying[at])
    return arrays[0] if len(arrays) == 1 else pc.binary_join_element_wise(*arrays, NOTHING)


def _even(piece: Piece, count: int) -> Piece:
    """An array whose values all have one size as a matrix, others as they are."""
    if not isinstance(piece, pa.Array):
        return piece
    ends = offsets_of(piece)
    if count == 0 or (width := int(ends[1] - ends[0])) == 0:
        return piece
    if ends[-1] - ends[0] != width * count or not (np.diff(ends) == width).all():
        return piece
    data = np.frombuffer(piece.buffers()[2], np.uint8, width * count, int(ends[0]))
    return data.reshape(count, width)


def _side_by_side(count: int, parts: list[Any]) -> Any:
    if len(parts) == 1 and not isinstance(parts[0], bytes):
        return parts[0]
    widths = [len(part) if isinstance(part, bytes) else part.shape[1] for part in parts]
    joined = np.empty((count, sum(widths)), np.uint8)
    at = 0
    for part, width in zip(parts, widths, strict=True):
        columns = np.frombuffer(part, np.uint8) if isinstance(part, bytes) else part
        joined[:, at : at + width] = columns
        at += width
    return joined


def as_array(piece: Piece) -> pa.Array:
    """A matrix or an array as an array."""
    if isinstance(piece, pa.Array):
        return piece
    count, width = piece.shape
    ends = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    octets = pa.py_buffer(np.ascontiguousarray(piece))
    return pa.Array.from_buffers(BINARY, count, [None, pa.py_buffer(ends), octets])


def flat(piece: Piece) -> tuple[memoryview, Any]:
    """All octets in a row, and where each row begins in them and the last one ends."""
    if isinstance(piece, pa.Array):
        ends = offsets_of(piece).astype(np.int64)
        data = piece.buffers()[2]
        return memoryview(b"") if data is None else memoryview(data).cast("B"), ends
    count, width = piece.shape
    ends = np.arange(0, (count + 1) * width, width, dtype=np.int64)
    if not piece.size:
        return memoryview(b""), ends
    return np.ascontiguousarray(piece).reshape(-1).data, ends


def sizes_of(piece: Piece) -> Any:
    """Octets of each row's piece; one number where all have the same."""
    if isinstance(piece, bytes):
        return len(piece)
    if isinstance(piece, pa.Array):
        return np.diff(offsets_of(piece)).astype(np.int64)
    return np.full(piece.shape[0], piece.shape[1], np.int64)


def offsets_of(array: pa.Array) -> Any:
    """Where values begin in the array's data, and where the last one ends."""
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)


def big(numbers: Any, width: int) -> Any:
    """Numbers as octets, big-endian, as AMQP has them."""
    octets = np.ascontiguousarray(numbers, ">i8").view(np.uint8).reshape(-1, 8)
    return octets[:, 8 - width :]


def little(numbers: Any) -> Any:
    """Numbers as four octets, little-endian, as rows have them."""
    return np.ascontiguousarray(numbers, "<u4").view(np.uint8).reshape(-1, 4)
