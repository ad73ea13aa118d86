"""Ledgers as DataFrames: one row for each run of messages.

    ledgers = open_ledgers(spark, ["/var/lib/penstock/a", "/var/lib/penstock/b"])
    ledgers.frame().groupBy("queue", "event").sum("count").show()

The files lie where every executor sees them under the same path, as with any `file:` path in Spark.
Jobs of ours do their first step where a file is read, so that its rows need not travel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa

from penstock.spark.jobs.kinds import KIND_NAMES, UNKNOWN
from penstock.spark.jobs.ledger_catalog import (
    Catalog,
    FileSlice,
    KnownQueue,
    Place,
    Role,
    build_catalog,
    find_places,
)
from penstock.spark.jobs.ledger_survey import KINDS, FileFacts, map_records, survey
from penstock.spark.jobs.runs import Runs, runs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

# From runs to whatever a job makes of them, in the task that has them.
Step = Callable[[Iterator[Runs]], Iterator[pa.RecordBatch]]

_TIME: Final = pa.timestamp("us", "UTC")
ROW_SCHEMA: Final = pa.schema(
    [
        ("server", pa.string()),
        ("file", pa.string()),
        ("start", pa.int32()),
        ("time", _TIME),
        ("event", pa.string()),
        ("detail", pa.string()),
        ("vhost", pa.string()),
        ("queue", pa.string()),
        ("third", pa.string()),
        ("life", pa.int32()),
        ("first", pa.int64()),
        ("count", pa.int64()),
        ("queue_id", pa.int32()),
        ("kind", pa.int16()),
        ("time_ms", pa.int64()),
    ]
)
ROW_SQL: Final = (
    "server string, file string, start int, time timestamp, event string, detail string, "
    "vhost string, queue string, third string, life int, first bigint, count bigint, "
    "queue_id int, kind smallint, time_ms bigint"
)
# Rows in one batch for Spark.
ROWS_PER_BATCH: Final = 1 << 16


class RunSource(Protocol):
    """Where a job gets its runs from."""

    @property
    def catalog(self) -> Catalog: ...

    def through(self, step: Step, schema: str) -> DataFrame: ...


@dataclass(frozen=True, slots=True)
class Ledgers:
    """Files of ledgers; a source for jobs. Held by the driver."""

    spark: SparkSession
    catalog: Catalog

    def through(self, step: Step, schema: str) -> DataFrame:
        slices = self.catalog.slices
        tasks = max(1, len(slices))
        return self.spark.range(0, tasks, 1, tasks).mapInArrow(_ReadThen(slices, step), schema)

    def frame(self) -> DataFrame:
        """Every run with its names: see ROW_SQL for the columns."""
        slices = self.catalog.slices
        tasks = max(1, len(slices))
        rows = _ReadRows(slices, self.catalog.queues)
        return self.spark.range(0, tasks, 1, tasks).mapInArrow(rows, ROW_SQL)


@dataclass(frozen=True, slots=True)
class FrameRuns:
    """A DataFrame made from `Ledgers.frame`, filtered perhaps, as a source for jobs."""

    rows: DataFrame
    catalog: Catalog

    def through(self, step: Step, schema: str) -> DataFrame:
        chosen = self.rows.select("queue_id", "start", "kind", "time_ms", "first", "count")
        return chosen.mapInArrow(_TakeThen(step), schema)


def open_ledgers(spark: SparkSession, paths: Sequence[str | Path]) -> Ledgers:
    """Look at every file, in tasks; raises `NoLedger` and `LedgerDamaged`."""
    places = find_places(paths)
    return Ledgers(spark, build_catalog(places, _survey_all(spark, places)))


def _survey_all(spark: SparkSession, places: list[Place]) -> dict[str, FileFacts]:
    paths = [path for place in places for path in place.paths]
    tasks = min(len(paths), 2 * spark.sparkContext.defaultParallelism)
    found = spark.range(0, len(paths), 1, tasks).mapInArrow(_Survey(paths), "facts string")
    told = [FileFacts.from_json(row.facts) for row in found.collect()]
    return {facts.path: facts for facts in told}


@dataclass(frozen=True, slots=True)
class _Survey:
    paths: list[str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            facts = [survey(Path(self.paths[number])) for number in _numbers(batch)]
            yield pa.record_batch({"facts": [known.to_json() for known in facts]})


@dataclass(frozen=True, slots=True)
class _ReadThen:
    slices: list[FileSlice]
    step: Step

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        runs = (
            read_slice(self.slices[number])
            for batch in batches
            for number in _numbers(batch)
            if number < len(self.slices)
        )
        yield from self.step(runs)


@dataclass(frozen=True, slots=True)
class _TakeThen:
    step: Step

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.step(runs_of(batch) for batch in batches)


@dataclass(frozen=True, slots=True)
class _ReadRows:
    slices: list[FileSlice]
    queues: list[KnownQueue]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in _numbers(batch):
                if number < len(self.slices):
                    known = self.slices[number]
                    runs = read_slice(known)
                    for at in range(0, len(runs), ROWS_PER_BATCH):
                        part = runs.where(slice(at, at + ROWS_PER_BATCH))
                        yield rows_of(part, known, self.queues)


def _numbers(batch: pa.RecordBatch) -> list[int]:
    numbers: list[int] = batch.column(0).to_pylist()
    return numbers


def read_slice(known: FileSlice) -> Runs:
    """The runs of a part of a file."""
    records = map_records(known.path, known.end)[known.begin :]
    kinds = KINDS[records["event"].astype(np.int64) * 8 + (records["detail"] & 7)]
    wanted = kinds != UNKNOWN
    for begin, end in known.texts:
        if end > known.begin and begin < known.end:
            wanted[max(0, begin - known.begin) : end - known.begin] = False
    if not wanted.all():
        records = records[wanted]
        kinds = kinds[wanted]
    names = records["name"].astype(np.int64)
    offsets = np.array(known.offsets, dtype=np.int64)
    owners = np.array(known.owners, dtype=np.int32)
    each = offsets[names + 1] - offsets[names]
    runs = Runs(
        queue=np.zeros(len(names), dtype=np.int32),
        start=np.full(len(names), known.start, dtype=np.int32),
        kind=kinds.astype(np.int16),
        time=records["time"].astype(np.int64),
        first=records["first"].astype(np.int64),
        count=records["count"].astype(np.int64),
    )
    if (each == 1).all():
        runs.queue[:] = owners[offsets[names]]
        return runs
    # What a publisher says holds for every queue that it reaches.
    source = np.repeat(np.arange(len(names)), each)
    into = np.arange(len(source)) - np.repeat(np.cumsum(each) - each, each)
    queue = owners[offsets[names[source]] + into]
    return Runs(
        queue,
        runs.start[source],
        runs.kind[source],
        runs.time[source],
        runs.first[source],
        runs.count[source],
    )


def rows_of(runs: Runs, known: FileSlice, queues: list[KnownQueue]) -> pa.RecordBatch:
    """With names, for people."""
    used, places = np.unique(runs.queue, return_inverse=True)
    named = [queues[number] for number in used.tolist()]
    length = len(runs)

    def per_queue(values: list[str]) -> pa.Array:
        return pa.array(values, pa.string()).take(pa.array(places))

    def per_kind(part: int) -> pa.Array:
        return pa.array([names[part] for names in KIND_NAMES]).take(pa.array(runs.kind))

    lives = np.array([queue.life for queue in named], dtype=np.int32)
    columns = [
        pa.array([known.server]).take(pa.array(np.zeros(length, dtype=np.int32))),
        pa.array([known.path]).take(pa.array(np.zeros(length, dtype=np.int32))),
        pa.array(runs.start),
        pa.array(runs.time * 1000).cast(_TIME),
        per_kind(0),
        per_kind(1),
        per_queue([queue.vhost for queue in named]),
        per_queue([queue.queue for queue in named]),
        per_queue([queue.third for queue in named]),
        pa.array(lives[places] if length else lives),
        pa.array(runs.first),
        pa.array(runs.count),
        pa.array(runs.queue),
        pa.array(runs.kind),
        pa.array(runs.time),
    ]
    return pa.record_batch(columns, schema=ROW_SCHEMA)


def queues_of(catalog: Catalog, role: Role) -> list[KnownQueue]:
    return [queue for queue in catalog.queues if queue.role is role]
