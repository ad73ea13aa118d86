"""The second step: what happened to every single position of the blocks that were not clean.

Runs are intervals, so positions are not examined one by one: between two neighbouring ends of
runs all positions of a block have the same history, and the number of times each kind of thing
happened to them is a running sum. One pass of numpy does this for all blocks of a task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.spark.jobs import kinds as k
from penstock.spark.jobs.runs import BLOCK, BLOCK_BITS, Pieces

if TYPE_CHECKING:
    import numpy.typing as npt

# Room for a block's places 0 to 4096, both ends included.
_STRIDE: Final = 2 * BLOCK
# The kinds between which times are measured; of a client's message both are the client's events.
ENTERED: Final = (*k.ENTERED, k.PUBLISHED)
LEFT: Final = (*k.LEFT, k.RECEIVED, k.RECEIVED_AGAIN)


@dataclass(frozen=True, slots=True)
class Stretches:
    """Neighbouring positions with one history; `counts[:, kind]` is how often each thing was."""

    queue: npt.NDArray[np.int32]
    start: npt.NDArray[np.int32]
    first: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    # Sums of the times of entering and of leaving, since `origin`.
    entered_at: npt.NDArray[np.int64]
    left_at: npt.NDArray[np.int64]
    origin: int

    def __len__(self) -> int:
        return len(self.first)

    def total(self, *chosen: int) -> npt.NDArray[np.int64]:
        return np.asarray(self.counts[:, list(chosen)].sum(axis=1), dtype=np.int64)


def sweep(pieces: Pieces) -> Stretches:
    runs = pieces.runs
    order = np.lexsort((pieces.block, runs.start, runs.queue))
    queue, start, block = runs.queue[order], runs.start[order], pieces.block[order]
    change = np.empty(len(order), dtype=bool)
    change[:1] = True
    change[1:] = (queue[1:] != queue[:-1]) | (start[1:] != start[:-1]) | (block[1:] != block[:-1])
    group = np.cumsum(change) - 1
    heads = np.flatnonzero(change)
    begins = group * _STRIDE + pieces.begin[order]
    ends = group * _STRIDE + pieces.end[order]
    edges = np.unique(np.concatenate([begins, ends]))
    from_edge = np.searchsorted(edges, begins)
    to_edge = np.searchsorted(edges, ends)
    kind = runs.kind[order]
    time = runs.time[order]
    origin = int(time.min(initial=0))
    since = (time - origin).astype(np.float64)
    counts = np.empty((len(edges), k.KIND_COUNT), dtype=np.int64)
    for number in range(k.KIND_COUNT):
        of_kind = kind == number
        counts[:, number] = _running(from_edge[of_kind], to_edge[of_kind], None, len(edges))
    entered_at = _times(np.isin(kind, ENTERED), from_edge, to_edge, since, len(edges))
    left_at = _times(np.isin(kind, LEFT), from_edge, to_edge, since, len(edges))
    length = np.diff(edges, append=edges[-1:])
    alive = (counts.sum(axis=1) > 0) & (length > 0)
    where = edges // _STRIDE
    return Stretches(
        queue=queue[heads][where][alive],
        start=start[heads][where][alive],
        first=((block[heads][where] << BLOCK_BITS) + edges % _STRIDE)[alive],
        length=length[alive],
        counts=counts[alive],
        entered_at=entered_at[alive],
        left_at=left_at[alive],
        origin=origin,
    )


def _running(
    begins: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64] | None,
    size: int,
) -> npt.NDArray[np.int64]:
    steps = np.bincount(begins, weights, size) - np.bincount(ends, weights, size)
    return np.cumsum(steps).astype(np.int64)


def _times(
    chosen: npt.NDArray[np.bool_],
    begins: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    since: npt.NDArray[np.float64],
    size: int,
) -> npt.NDArray[np.int64]:
    """Whole milliseconds in floating point: exact, as all sums stay below 2^53."""
    return _running(begins[chosen], ends[chosen], since[chosen], size)
