"""Few values for many rows, as an Arrow array: most batches have one head for all their rows, and
heads that differ do so in few of their properties.

Buffers are laid out by numpy; a `take` with the same index for all rows costs several times that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def repeated(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    """`value` is what `pa.array` makes one row of that type from."""
    if value is None:
        return pa.nulls(count, kind)
    if pa.types.is_struct(kind):
        columns = [repeated(value[field.name], field.type, count) for field in kind]
        return pa.StructArray.from_arrays(columns, fields=list(kind))
    if pa.types.is_map(kind):
        keys = [key for key, _ in value]
        items = [item for _, item in value]
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(keys))
        return pa.MapArray.from_arrays(
            pa.array(offsets), _tiled(keys, count), _tiled(items, count), type=kind
        )
    return pa.repeat(pa.scalar(value, kind), count)


def spread(values: list[Any], kind: pa.DataType, chosen: pa.Array) -> pa.Array:
    """For each row one of the values, by its index."""
    if all(value == values[0] for value in values):
        return repeated(values[0], kind, len(chosen))
    if pa.types.is_struct(kind) and None not in values:
        columns = [
            spread([value[field.name] for value in values], field.type, chosen) for field in kind
        ]
        return pa.StructArray.from_arrays(columns, fields=list(kind))
    return pa.array(values, kind).take(chosen)


def _tiled(texts: list[str | None], count: int) -> pa.Array:
    """The same texts one after the other, `count` times."""
    if None in texts:
        return pa.array(texts * count, pa.string())
    encoded = [(text or "").encode() for text in texts]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int32)
    period = int(ends[-1]) if len(ends) else 0
    offsets = np.zeros(count * len(texts) + 1, dtype=np.int32)
    starts = np.arange(count, dtype=np.int32) * np.int32(period)
    offsets[1:] = (starts[:, None] + ends[None, :]).ravel()
    data = b"".join(encoded) * count
    return pa.Array.from_buffers(
        pa.string(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
