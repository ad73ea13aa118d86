"""Ledgers as DataFrames: one row for each run of messages.

    ledgers = open_ledgers(spark, ["/var/lib/penstock/a", "/var/lib/penstock/b"])
    ledgers.frame().groupBy("queue", "event").sum("count").show()

Every executor must see the files under the same path, as with any `file:` path in Spark. Penstock's
jobs do their first step where a file is read, so that its rows need not be shuffled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa

from penstock.formats import ledger_records as form
from penstock.spark.jobs.kinds import ENQUEUED, KIND_NAMES, ORIGIN, UNCOMMITTED, UNKNOWN
from penstock.spark.jobs.ledger_catalog import (
    Catalog,
    FileSlice,
    KnownQueue,
    Place,
    Role,
    build_catalog,
    find_places,
)
from penstock.spark.jobs.ledger_origins import origin_runs
from penstock.spark.jobs.ledger_survey import KINDS_OF_PAIRS, FileFacts, map_records, survey
from penstock.spark.jobs.runs import Runs, joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from pyspark.sql import DataFrame, SparkSession

# The first step of a job: from runs to its result, in the task that reads them.
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
# Where a record has its event.
EVENT_AT: Final = 8
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


def open_ledgers(spark: SparkSession, paths: Sequence[str | Path]) -> Ledgers:
    """Survey every file, in tasks; raises `NoLedger` and `LedgerDamaged`."""
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
    # The sequences of an enqueued run may be after the part's end.
    behind = min(known.end + form.SEQUENCE_RECORDS_MAX, known.records)
    whole = map_records(known.path, max(known.end, behind))[known.begin :]
    records = whole[: known.end - known.begin]
    kinds = KINDS_OF_PAIRS[event_pairs(records)]
    wanted = kinds != UNKNOWN
    for begin, end in known.texts:
        if end > known.begin and begin < known.end:
            wanted[max(0, begin - known.begin) : end - known.begin] = False
    if known.uncommitted_from < known.end:
        late = max(0, known.uncommitted_from - known.begin)
        kinds[late:][np.isin(kinds[late:], ENQUEUED)] = UNCOMMITTED
    at = np.flatnonzero(wanted)
    if len(at) < len(records):
        records = records[at]
        kinds = kinds[at]
    names = records["name"]
    offsets = np.array(known.offsets, dtype=np.int64)
    owners = np.array(known.owners, dtype=np.int32)
    each = np.diff(offsets)
    # The only owner of a name, in the broker's ledgers; a queue of all names that have others.
    only = np.append(owners, np.int32(0))[offsets[:-1]]
    runs = Runs(
        queue=only[names],
        start=np.full(len(names), known.start, dtype=np.int32),
        kind=kinds.astype(np.int16),
        time=records["time"].astype(np.int64),
        first=records["first"].astype(np.int64),
        count=records["count"].astype(np.int64),
    )
    if not (each == 1).all():
        return _for_each_owner(runs, names.astype(np.int64), offsets, owners)
    if known.origins is None:
        return runs
    published = (records["event"] == form.ENQUEUED) & (records["publisher"] > 0)
    found = origin_runs(whole, at[published], runs.queue[published], known.start, known.origins)
    return runs if found is None else joined([runs, found])


def event_pairs(records: npt.NDArray[np.void]) -> npt.NDArray[np.uint16]:
    """Event and detail of each record, which lie side by side, as one number."""
    halves = records.view("<u2").reshape(len(records), -1)
    return np.asarray(halves[:, EVENT_AT // 2], dtype=np.uint16)


def _for_each_owner(
    runs: Runs,
    names: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64],
    owners: npt.NDArray[np.int32],
) -> Runs:
    """A publisher's record applies to every queue that it reaches."""
    each = np.diff(offsets)[names]
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
        # An origin has no time: the field holds something else.
        pa.array(runs.time * 1000, mask=runs.kind == ORIGIN).cast(_TIME),
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
