"""Runs of messages as numpy arrays: one for each record of a ledger, and their blocks.

A block is 4096 neighbouring positions of a queue. Runs are cut where blocks end, so that a block
can be judged by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

BLOCK_BITS: Final = 12
BLOCK: Final = 1 << BLOCK_BITS

RUN_FIELDS: Final = (
    ("queue_id", pa.int32()),
    ("start", pa.int32()),
    ("kind", pa.int16()),
    ("time_ms", pa.int64()),
    ("first", pa.int64()),
    ("count", pa.int64()),
)
RUN_SCHEMA: Final = pa.schema([pa.field(name, kind) for name, kind in RUN_FIELDS])
RUN_SQL: Final = (
    "queue_id int, start int, kind smallint, time_ms bigint, first bigint, count bigint"
)


@dataclass(frozen=True, slots=True)
class Runs:
    """Arrays of one length: queue, which start of its broker, kind, time, positions."""

    queue: npt.NDArray[np.int32]
    start: npt.NDArray[np.int32]
    kind: npt.NDArray[np.int16]
    time: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.queue)

    def where(self, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.int64] | slice) -> Runs:
        return Runs(
            self.queue[chosen],
            self.start[chosen],
            self.kind[chosen],
            self.time[chosen],
            self.first[chosen],
            self.count[chosen],
        )

    def to_arrow(self) -> pa.RecordBatch:
        columns = (self.queue, self.start, self.kind, self.time, self.first, self.count)
        return pa.record_batch([pa.array(column) for column in columns], schema=RUN_SCHEMA)


def joined(parts: Sequence[Runs]) -> Runs:
    if len(parts) == 1:
        return parts[0]
    types = (np.int32, np.int32, np.int16, np.int64, np.int64, np.int64)
    return Runs(
        *(
            np.concatenate([getattr(part, name) for part in parts] or [np.zeros(0)]).astype(
                kind, copy=False
            )
            for name, kind in zip(Runs.__slots__, types, strict=True)
        )
    )


def runs_of(batch: pa.RecordBatch) -> Runs:
    """The other way round: from a batch with at least these columns."""
    columns = [
        batch.column(name).cast(kind).to_numpy(zero_copy_only=False) for name, kind in RUN_FIELDS
    ]
    return Runs(*columns)


@dataclass(frozen=True, slots=True)
class Pieces:
    """Runs cut at blocks; `begin` and `end` are places within the block."""

    runs: Runs
    block: npt.NDArray[np.int64]
    begin: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.block)

    def where(self, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.int64] | slice) -> Pieces:
        return Pieces(
            self.runs.where(chosen), self.block[chosen], self.begin[chosen], self.end[chosen]
        )


def cut(runs: Runs) -> Pieces:
    last = runs.first + runs.count - 1
    block = runs.first >> BLOCK_BITS
    extra = (last >> BLOCK_BITS) - block
    begin = runs.first & (BLOCK - 1)
    if not extra.any():
        return Pieces(runs, block, begin, begin + runs.count)
    times = extra + 1
    source = np.repeat(np.arange(len(runs)), times)
    # How many blocks into its run each piece is.
    into = np.arange(len(source)) - np.repeat(np.cumsum(times) - times, times)
    runs = Runs(
        runs.queue[source],
        runs.start[source],
        runs.kind[source],
        runs.time[source],
        runs.first[source],
        runs.count[source],
    )
    block = block[source] + into
    begin = np.where(into == 0, begin[source], 0)
    end = np.minimum(last[source] + 1 - (block << BLOCK_BITS), BLOCK)
    return Pieces(runs, block, begin, end)
