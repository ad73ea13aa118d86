"""The steps of an audit that run in tasks: judging digests, picking blocks, sweeping them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from penstock.spark.jobs import kinds as k
from penstock.spark.jobs.digests import is_clean, positioned, with_survivors
from penstock.spark.jobs.findings import (
    NAMED,
    Circumstances,
    Finding,
    doubtful,
    explained,
    judge,
    times_in_queue,
)
from penstock.spark.jobs.origins import (
    Origins,
    PositionKeys,
    joined_origins,
    named_at,
    origins_of,
    within,
)
from penstock.spark.jobs.runs import BLOCK_BITS, RUN_SCHEMA, RUN_SQL, Pieces, Runs, cut, runs_of
from penstock.spark.jobs.sweep import ENTERED, Stretches, sweep

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from penstock.spark.jobs.chosen_blocks import ChosenBlocks

# Milliseconds in a key with the number of a queue: 34 years.
_MS_BITS: Final = 40
PIECE_SQL: Final = f"{RUN_SQL}, block bigint, begin_at bigint, end_at bigint"
_PIECE_SCHEMA: Final = pa.schema(
    [*RUN_SCHEMA, ("block", pa.int64()), ("begin_at", pa.int64()), ("end_at", pa.int64())]
)
# `pair` and `sequence` identify the publisher and its message, as far as they are known.
FINDING_SQL: Final = (
    "queue_id int, start int, finding int, is_total boolean, first bigint, count bigint, "
    "time_ms bigint, pair int, sequence bigint"
)
_FINDING_SCHEMA: Final = pa.schema(
    [
        ("queue_id", pa.int32()),
        ("start", pa.int32()),
        ("finding", pa.int32()),
        ("is_total", pa.bool_()),
        ("first", pa.int64()),
        ("count", pa.int64()),
        ("time_ms", pa.int64()),
        ("pair", pa.int32()),
        ("sequence", pa.int64()),
    ]
)
# Findings about a client's messages, for the sweep of clients' ledgers; not a finding of its own.
EXPLAINED_ROW: Final = -1
DOUBTFUL_ROW: Final = -2
PIECES_PER_BATCH: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class JudgeBlocks:
    """Adds the column `is_clean` to digests that are complete."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.append_column("is_clean", pa.array(is_clean(batch)))


@dataclass(frozen=True, slots=True)
class PickBlocks:
    """Runs of chosen blocks only, cut."""

    chosen: ChosenBlocks

    def __call__(self, runs: Iterator[Runs]) -> Iterator[pa.RecordBatch]:
        for part in runs:
            if len(self.chosen):
                yield from self.picked(with_survivors(positioned(part)))

    def picked(self, runs: Runs) -> Iterator[pa.RecordBatch]:
        pieces = cut(runs)
        queue = pieces.runs.queue.astype(np.int64)
        chosen = with_later(pieces.where(self.chosen.contains(queue, pieces.block)))
        for begin in range(0, len(chosen), PIECES_PER_BATCH):
            yield _pieces_to_arrow(chosen.where(slice(begin, begin + PIECES_PER_BATCH)))


def with_later(pieces: Pieces) -> Pieces:
    """What was there at a start is known at all starts before the one that it has survived."""
    times = np.where(pieces.runs.kind == k.RESTORED, np.maximum(pieces.runs.start - 1, 0), 0)
    if not times.any():
        return pieces
    source = np.repeat(np.arange(len(pieces)), times + 1)
    into = np.arange(len(source)) - np.repeat(np.cumsum(times + 1) - times - 1, times + 1)
    found = pieces.where(source)
    runs = found.runs
    start = np.where(into > 0, into - 1, runs.start).astype(np.int32)
    kind = np.where(into > 0, k.LATER, runs.kind).astype(np.int16)
    return replace(found, runs=replace(runs, start=start, kind=kind))


@dataclass(frozen=True, slots=True)
class PickExplained:
    """The findings about queues, as runs of the clients' messages in chosen blocks."""

    chosen: ChosenBlocks

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                size = batch.num_rows
                is_doubtful = batch.column("finding").to_numpy() == DOUBTFUL_ROW
                runs = Runs(
                    queue=batch.column("pair").to_numpy().astype(np.int32),
                    start=np.zeros(size, dtype=np.int32),
                    kind=np.where(is_doubtful, k.DOUBTFUL, k.EXPLAINED).astype(np.int16),
                    time=np.zeros(size, dtype=np.int64),
                    first=batch.column("sequence").to_numpy(),
                    count=batch.column("count").to_numpy(),
                )
                yield from PickBlocks(self.chosen).picked(runs)


def _pieces_to_arrow(pieces: Pieces) -> pa.RecordBatch:
    columns = [
        *pieces.runs.to_arrow().columns,
        pa.array(pieces.block),
        pa.array(pieces.begin),
        pa.array(pieces.end),
    ]
    return pa.record_batch(columns, schema=_PIECE_SCHEMA)


@dataclass(frozen=True, slots=True)
class SweepBlocks:
    """All pieces of some blocks in; findings out, with examples of those that matter."""

    known: Circumstances
    examples_max: int
    # Times in the queue are measured in one of this many blocks, so that blocks which are examined
    # for another reason do not count more than others.
    stride: int = 1

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken = [batch for batch in batches if batch.num_rows]
        if not taken:
            return
        whole = pa.Table.from_batches(taken).combine_chunks().to_batches()[0]
        places = [whole.column(name).to_numpy() for name in ("block", "begin_at", "end_at")]
        pieces = Pieces(runs_of(whole), *places)
        is_origin = pieces.runs.kind == k.ORIGIN
        found = sweep(pieces.where(~is_origin))
        rows = PositionKeys(found)
        origins = origins_of(pieces.where(is_origin), found, rows)
        for finding, times in judge(found, self.known):
            if times.any():
                yield _totals(found, finding, times)
                if finding in NAMED:
                    yield self._examples(found, finding, times, origins, rows)
        yield from _histograms(found, self.stride)
        if len(origins):
            told = within(origins, found, explained(found, self.known), rows)
            yield _client_rows(EXPLAINED_ROW, joined_origins(told))
            yield _explained_totals(told)
            doubted = within(origins, found, doubtful(found, self.known), rows)
            yield _client_rows(DOUBTFUL_ROW, joined_origins(doubted))

    def _examples(
        self,
        found: Stretches,
        finding: Finding,
        times: npt.NDArray[np.int64],
        origins: Origins,
        places: PositionKeys,
    ) -> pa.RecordBatch:
        """The first of each queue; stretches come sorted by queue, start and position."""
        at = np.flatnonzero(times)
        queue = found.queue[at]
        heads = np.flatnonzero(np.append(True, queue[1:] != queue[:-1]))
        sizes = np.diff(np.append(heads, len(at)))
        at = at[np.arange(len(at)) - np.repeat(heads, sizes) < self.examples_max]
        entered = np.maximum(found.total(*ENTERED)[at], 1)
        time = np.where(found.entered_at[at] > 0, found.origin + found.entered_at[at] // entered, 0)
        place = (found.queue[at], found.start[at], found.first[at], found.length[at])
        whose = named_at(origins, places, *place)
        return _finding_rows(
            found.queue[at],
            found.start[at],
            finding,
            False,
            found.first[at],
            found.length[at],
            time,
            whose,
        )


def _client_rows(finding: int, origins: Origins) -> pa.RecordBatch:
    """Counts of these are messages of clients, by `pair` and `sequence`."""
    return _finding_rows(
        origins.queue,
        origins.start,
        finding,
        False,
        origins.first,
        origins.end - origins.first,
        None,
        (origins.pair, origins.sequence),
    )


def _explained_totals(origins: Origins) -> pa.RecordBatch:
    """How many explained messages of each queue are those of known clients."""
    used, places = np.unique(origins.queue, return_inverse=True)
    length = (origins.end - origins.first).astype(np.float64)
    sums = np.bincount(places, length, len(used)).astype(np.int64)
    zeros = np.zeros(len(used), dtype=np.int64)
    return _finding_rows(used, zeros, Finding.EXPLAINED, True, zeros, sums)


def _totals(found: Stretches, finding: Finding, times: npt.NDArray[np.int64]) -> pa.RecordBatch:
    starts = int(found.start.max()) + 1
    key = found.queue.astype(np.int64) * starts + found.start
    used, places = np.unique(key, return_inverse=True)
    sums = np.bincount(places, (times * found.length).astype(np.float64)).astype(np.int64)
    some = sums > 0
    return _finding_rows(
        (used // starts)[some],
        (used % starts)[some],
        finding,
        True,
        np.zeros(int(some.sum()), dtype=np.int64),
        sums[some],
    )


def _histograms(found: Stretches, stride: int) -> Iterator[pa.RecordBatch]:
    """Rows whose `first` are milliseconds and whose `count` are messages."""
    taken, is_known = times_in_queue(found)
    is_known &= (found.first >> BLOCK_BITS) % stride == 0
    if not is_known.any():
        return
    rounded = rounded_ms(taken[is_known])
    queue = found.queue[is_known].astype(np.int64)
    used, places = np.unique((queue << _MS_BITS) + rounded, return_inverse=True)
    sums = np.bincount(places, found.length[is_known].astype(np.float64)).astype(np.int64)
    starts = np.zeros(len(used), dtype=np.int32)
    first = used & ((1 << _MS_BITS) - 1)
    yield _finding_rows(used >> _MS_BITS, starts, Finding.TIME_IN_QUEUE, True, first, sums)


def rounded_ms(taken: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """To about two digits, so that a histogram stays small."""
    digits = np.floor(np.log10(np.maximum(taken, 1))).astype(np.int64)
    step = 10 ** np.maximum(digits - 1, 0)
    return np.asarray(taken // step * step, dtype=np.int64)


def _finding_rows(
    queue: npt.NDArray[np.int64] | npt.NDArray[np.int32],
    start: npt.NDArray[np.int64] | npt.NDArray[np.int32],
    finding: int,
    is_total: bool,
    first: npt.NDArray[np.int64],
    count: npt.NDArray[np.int64],
    time: npt.NDArray[np.int64] | None = None,
    whose: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None,
) -> pa.RecordBatch:
    size = len(queue)
    nobody = np.full(size, -1, dtype=np.int64)
    pair, sequence = (nobody, nobody) if whose is None else whose
    columns = [
        pa.array(queue.astype(np.int32)),
        pa.array(start.astype(np.int32)),
        pa.array(np.full(size, finding, dtype=np.int32)),
        pa.array(np.full(size, is_total, dtype=bool)),
        pa.array(first),
        pa.array(count),
        pa.array(np.zeros(size, dtype=np.int64) if time is None else time),
        pa.array(pair.astype(np.int32)),
        pa.array(sequence),
    ]
    return pa.record_batch(columns, schema=_FINDING_SCHEMA)
