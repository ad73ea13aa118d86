"""Digests of blocks: enough to see that nothing is wrong with 4096 positions, at little cost.

For each block and each kind: how many messages, and the sum of a random number per position. Both
add up over runs, files and servers. Two sets of positions with the same sums are the same set, but
for one chance in 2^36. A block is clean when its messages are a row without gap or repetition, and
everything that entered has left or was there at the next start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from penstock.spark.jobs import kinds as k
from penstock.spark.jobs.runs import BLOCK, Pieces, Runs, cut

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

# Sums over a block stay far below 2^53, so that floating point adds them exactly.
MARK_BITS: Final = 36
# How many pieces are digested at a time: their table of sums has a row for each in the worst case.
CHUNK: Final = 1 << 18

_MARKS: Final = np.random.Generator(np.random.PCG64(20261115)).integers(
    0, 1 << MARK_BITS, size=BLOCK, dtype=np.int64
)
PREFIX: Final = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(_MARKS)])

# Kinds that are counted, those below; routes have no positions, and origins are not events.
COUNTED: Final = k.ROUTED
COUNTS: Final = tuple(f"n{kind}" for kind in range(COUNTED))
# Sums of marks of several kinds together.
MARKED: Final = {
    "entered": (*k.ENTERED, k.PUBLISHED),
    "gone": (*k.LEFT, k.RECEIVED, k.RECEIVED_AGAIN),
    "kept": (k.SURVIVED,),
    "given": (k.DELIVERED, k.CONFIRMED),
    "settled": (k.ACKNOWLEDGED, k.REJECTED, k.DELIVERY_LIMIT, k.LEASED),
    "arrived": (k.ARRIVED,),
}
_IS_ENTERED: Final = np.isin(np.arange(k.KIND_COUNT), MARKED["entered"])
_OF_CLIENTS: Final = (
    k.PUBLISHED,
    k.CONFIRMED,
    k.REFUSED,
    k.RECEIVED,
    k.RECEIVED_AGAIN,
    k.ARRIVED,
)
KEYS: Final = ("queue_id", "start", "block")
SUMS: Final = ("runs", *COUNTS, *MARKED)
DIGEST_SQL: Final = ", ".join(
    ["queue_id int, start int, block bigint"]
    + [f"{name} bigint" for name in SUMS]
    + ["low bigint, high bigint"]
)
_SCHEMA: Final = pa.schema(
    [("queue_id", pa.int32()), ("start", pa.int32()), ("block", pa.int64())]
    + [(name, pa.int64()) for name in (*SUMS, "low", "high")]
)


@dataclass(frozen=True, slots=True)
class Digest:
    """The first step of an audit, where files are read. Sent to executors."""

    def __call__(self, runs: Iterator[Runs]) -> Iterator[pa.RecordBatch]:
        for part in runs:
            pieces = cut(with_survivors(audited(part)))
            for at in range(0, len(pieces), CHUNK):
                yield digest(pieces.where(slice(at, at + CHUNK)))


def audited(runs: Runs) -> Runs:
    """Without runs that have no positions or are not events."""
    is_event = runs.kind < COUNTED
    return runs if is_event.all() else runs.where(is_event)


def positioned(runs: Runs) -> Runs:
    """Without runs that have no positions."""
    is_routed = runs.kind == k.ROUTED
    return runs.where(~is_routed) if is_routed.any() else runs


def with_survivors(runs: Runs) -> Runs:
    """Messages that were there at a start have survived the one before: recorded for both."""
    restored = (runs.kind == k.RESTORED) & (runs.start > 0)
    if not restored.any():
        return runs
    found = runs.where(restored)
    survived = np.full(len(found), k.SURVIVED, dtype=np.int16)
    return Runs(
        np.concatenate([runs.queue, found.queue]),
        np.concatenate([runs.start, found.start - 1]),
        np.concatenate([runs.kind, survived]),
        np.concatenate([runs.time, found.time]),
        np.concatenate([runs.first, found.first]),
        np.concatenate([runs.count, found.count]),
    )


def digest(pieces: Pieces) -> pa.RecordBatch:
    """One row for each block that the pieces touch."""
    runs = pieces.runs
    groups, first_of, places = _groups(runs, pieces.block)
    kind = runs.kind.astype(np.int64)
    cells = places * COUNTED + kind
    shape = (groups, COUNTED)
    length = (pieces.end - pieces.begin).astype(np.float64)
    marks = (PREFIX[pieces.end] - PREFIX[pieces.begin]).astype(np.float64)
    counts = np.bincount(cells, length, groups * COUNTED).reshape(shape).astype(np.int64)
    summed = np.bincount(cells, marks, groups * COUNTED).reshape(shape).astype(np.int64)
    low = np.full(groups, BLOCK, dtype=np.int64)
    high = np.zeros(groups, dtype=np.int64)
    entered = _IS_ENTERED[kind]
    np.minimum.at(low, places[entered], pieces.begin[entered])
    np.maximum.at(high, places[entered], pieces.end[entered])
    columns = [
        runs.queue[first_of],
        runs.start[first_of],
        pieces.block[first_of],
        np.bincount(places, minlength=groups),
        *(counts[:, kind] for kind in range(COUNTED)),
        *(summed[:, list(chosen)].sum(axis=1) for chosen in MARKED.values()),
        low,
        high,
    ]
    return pa.record_batch([pa.array(column) for column in columns], schema=_SCHEMA)


def _groups(
    runs: Runs, block: npt.NDArray[np.int64]
) -> tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Number the different (queue, start, block): how many, a row of each, each row's number."""
    starts = int(runs.start.max(initial=0)) + 1
    lowest = int(block.min(initial=0))
    width = int(block.max(initial=0)) - lowest + 1
    lives = (int(runs.queue.max(initial=0)) + 1) * starts
    if lives * width >= 1 << 63:
        # Positions of several epochs are far apart: number the blocks that are there.
        there = np.unique(block)
        block, lowest, width = np.searchsorted(there, block), 0, len(there)
    key = (runs.queue.astype(np.int64) * starts + runs.start) * width + (block - lowest)
    # Neighbours are mostly of one block: number the stretches, then the few that differ.
    change = np.empty(len(key), dtype=bool)
    change[:1] = True
    np.not_equal(key[1:], key[:-1], out=change[1:])
    heads = np.flatnonzero(change)
    distinct, at, places = np.unique(key[heads], return_index=True, return_inverse=True)
    return len(distinct), heads[at], places[np.cumsum(change) - 1]


def is_clean(blocks: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Which blocks need no second step; of digests that are added up over everything."""
    names = {name: blocks.column(name).to_numpy() for name in (*SUMS, "low", "high")}

    def counted(*chosen: int) -> npt.NDArray[np.int64]:
        total = np.zeros(len(blocks), dtype=np.int64)
        for kind in chosen:
            total += names[f"n{kind}"]
        return total

    low = np.minimum(names["low"], names["high"])
    entered = counted(*MARKED["entered"])
    in_a_row = (entered == names["high"] - low) & (
        names["entered"] == PREFIX[names["high"]] - PREFIX[low]
    )
    balanced = (entered == counted(*MARKED["gone"], k.SURVIVED)) & (
        names["entered"] == names["gone"] + names["kept"]
    )
    given, answered = counted(k.DELIVERED), counted(*MARKED["settled"])
    settled_once = (given == answered) & (names["given"] == names["settled"])
    of_broker = settled_once & (names[f"n{k.REQUEUED}"] == 0)
    confirmed = counted(k.CONFIRMED)
    of_client = (
        ((confirmed == 0) | ((confirmed == entered) & (names["given"] == names["entered"])))
        & (names[f"n{k.REFUSED}"] == 0)
        & (names[f"n{k.RECEIVED_AGAIN}"] == 0)
    )
    arrived = counted(k.ARRIVED)
    of_client &= (arrived == 0) | ((arrived == entered) & (names["arrived"] == names["entered"]))
    is_of_client = counted(*_OF_CLIENTS) > 0
    settled = np.where(is_of_client, of_client, of_broker)
    return np.asarray(in_a_row & balanced & settled, dtype=bool)
