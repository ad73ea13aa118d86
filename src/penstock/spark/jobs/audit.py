"""The audit: what became of every message, per queue, from the broker's and the clients' ledgers.

Digests come first: most blocks of 4096 positions are shown to be clean by sums alone, computed
where the files are read. Only runs of the other blocks are shuffled, and examined position by
position. The same holds for clean blocks of queues that record why messages are gone, when a client
misses messages of that queue. A sample of the clean blocks goes the same way, for the times that
messages spent in the queue; the sample never decides what is found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.formats.ledger_records import IS_STREAM
from penstock.spark.jobs import kinds as k
from penstock.spark.jobs.audit_steps import (
    DOUBTFUL_ROW,
    EXPLAINED_ROW,
    FINDING_SQL,
    PIECE_SQL,
    JudgeBlocks,
    PickBlocks,
    PickExplained,
    SweepBlocks,
)
from penstock.spark.jobs.chosen_blocks import chosen_blocks
from penstock.spark.jobs.circumstances import circumstances
from penstock.spark.jobs.digests import COUNTS, DIGEST_SQL, KEYS, MARKED, SUMS, Digest
from penstock.spark.jobs.ledger_catalog import Catalog, Role
from penstock.spark.jobs.runs import BLOCK
from penstock.spark.jobs.verdict import Audit, Example, conclude

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark.jobs.chosen_blocks import ChosenBlocks
    from penstock.spark.jobs.ledger_reading import RunSource

# Enough messages for percentiles of the time in a queue: half a million at most.
SAMPLED_BLOCKS: Final = 128
# The limit of records in the sample, where they describe single messages.
SAMPLED_RUNS: Final = 250_000
# Runs that one task sweeps at once; about 400 bytes of memory each.
RUNS_PER_SWEEP: Final = 1_000_000
# Enough to search for in a log; more of them mostly have the same cause.
EXAMPLES_MAX: Final = 20

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Total:
    """Sums over all blocks of one queue and one start."""

    queue: int
    start: int
    blocks: int
    runs: int
    lowest: int
    counts: tuple[int, ...]


def audit(
    source: RunSource,
    examples_max: int = EXAMPLES_MAX,
    tell: Tell | None = None,
    sampled_blocks: int = SAMPLED_BLOCKS,
) -> Audit:
    """Audit a whole set of ledgers; `tell` is called with the current step."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as f

    say = tell or _silent
    say("digesting blocks")
    catalog = source.catalog
    blocks = _judged_blocks(source).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        totals = [
            total
            for total in _totals(blocks)
            if catalog.queues[total.queue].role is not Role.INTERNAL
        ]
        _note_streams(catalog, totals)
        stride = _stride(totals, sampled_blocks)
        unwanted = [
            queue.number
            for queue in catalog.queues
            if queue.is_stream or queue.role is Role.INTERNAL
        ]
        wanted = blocks.where(~f.col("queue_id").isin(unwanted)) if unwanted else blocks
        may_explain = " + ".join(f"n{kind}" for kind in k.EXPLAINING) + " > 0"
        rows = wanted.select(
            "queue_id",
            "block",
            "runs",
            "is_clean",
            f.expr(f"block % {stride} = 0").alias("is_sampled"),
            f.expr(may_explain if catalog.has_origins else "false").alias("may_explain"),
        )
        chosen = _Chosen(rows.where("not is_clean or is_sampled or may_explain").toArrow(), catalog)
    finally:
        blocks.unpersist()
    say(f"examining {chosen.dirty:,} blocks of {sum(total.blocks for total in totals):,}")
    second = _Second(source, chosen.runs, examples_max, stride)
    found = second.look(chosen.blocks) if len(chosen.blocks) else []
    return conclude(
        catalog,
        {(total.queue, total.start): total.counts for total in totals},
        [Example(*row) for row in found],
        examples_max,
        blocks=sum(total.blocks for total in totals),
        dirty_blocks=chosen.dirty,
    )


def _silent(text: str) -> None:
    """For callers without a progress display."""


def _judged_blocks(source: RunSource) -> DataFrame:
    from pyspark.sql import functions as f

    partial = source.through(Digest(), DIGEST_SQL)
    sums = [f.sum(name).alias(name) for name in SUMS]
    bounds = [f.min("low").alias("low"), f.max("high").alias("high")]
    whole = partial.groupBy(*KEYS).agg(*sums, *bounds)
    return whole.mapInArrow(JudgeBlocks(), f"{DIGEST_SQL}, is_clean boolean")


def _totals(blocks: DataFrame) -> list[_Total]:
    from pyspark.sql import functions as f

    entered = " + ".join(f"n{kind}" for kind in MARKED["entered"])
    lowest = f.expr(f"min(if({entered} > 0, block * {BLOCK} + low, null))")
    grouped = blocks.groupBy("queue_id", "start").agg(
        f.count("*").alias("blocks"),
        f.sum("runs").alias("runs"),
        lowest.alias("lowest"),
        *[f.sum(name).alias(name) for name in COUNTS],
    )
    return [
        _Total(
            row.queue_id,
            row.start,
            row.blocks,
            row.runs,
            -1 if row.lowest is None else row.lowest,
            tuple(row[name] for name in COUNTS),
        )
        for row in grouped.collect()
    ]


def _stride(totals: list[_Total], sampled_blocks: int) -> int:
    """One of how many blocks is sampled."""
    blocks = sum(total.blocks for total in totals)
    runs = sum(total.runs for total in totals)
    return max(1, blocks // sampled_blocks, runs // SAMPLED_RUNS)


class _Chosen:
    """Blocks that are examined a second time, from rows of candidates.

    A clean block of a queue may hold the reason why a client misses messages, for instance that all
    of them were dropped. Such blocks are examined when a client's block of that queue is not clean;
    whether they are in the sample has no influence on what is found.
    """

    def __init__(self, rows: pa.Table, catalog: Catalog) -> None:
        numbers = rows.column("queue_id").to_numpy().astype(np.int64)
        is_dirty = ~rows.column("is_clean").to_numpy()
        # Queues with the same virtual host and name, the clients' and all servers', are one group.
        groups: dict[tuple[str, str], int] = {}
        group_of = np.array(
            [groups.setdefault((q.vhost, q.queue), len(groups)) for q in catalog.queues] or [0]
        )
        is_client = np.array([q.role is Role.CLIENT for q in catalog.queues] or [False], dtype=bool)
        missing = np.zeros(len(groups) + 1, dtype=bool)
        missing[group_of[numbers[is_dirty & is_client[numbers]]]] = True
        explains = rows.column("may_explain").to_numpy() & missing[group_of[numbers]]
        taken = is_dirty | rows.column("is_sampled").to_numpy() | explains
        self.blocks: ChosenBlocks = chosen_blocks(
            numbers[taken], rows.column("block").to_numpy()[taken]
        )
        self.dirty = int(is_dirty.sum())
        self.runs = int(rows.column("runs").to_numpy()[taken].sum())


def _note_streams(catalog: Catalog, totals: list[_Total]) -> None:
    """A queue's positions begin with 1, a stream's with 0."""
    for total in totals:
        queue = catalog.queues[total.queue]
        if total.lowest == 0 and queue.role is Role.QUEUE:
            queue.flags |= IS_STREAM


@dataclass(frozen=True, slots=True)
class _Second:
    """The second step, on chosen blocks."""

    source: RunSource
    runs: int
    examples_max: int
    # Times in the queue are measured in one of this many blocks.
    stride: int

    def look(self, chosen: ChosenBlocks) -> list[tuple[Any, ...]]:
        catalog = self.source.catalog
        if not catalog.has_origins:
            return [tuple(row) for row in self._swept(self._picked(chosen)).collect()]
        is_client = np.array([queue.role is Role.CLIENT for queue in catalog.queues], dtype=bool)
        of_clients = is_client[chosen.queues()]
        return self._look_twice(chosen.where(~of_clients), chosen.where(of_clients))

    def _look_twice(
        self, of_queues: ChosenBlocks, of_clients: ChosenBlocks
    ) -> list[tuple[Any, ...]]:
        """Queues first: the findings there are passed to the clients that published the
        messages.
        """
        from pyspark import StorageLevel
        from pyspark.sql import functions as f

        if not len(of_queues):
            return [tuple(row) for row in self._swept(self._picked(of_clients)).collect()]
        is_explained = f.col("finding").isin(EXPLAINED_ROW, DOUBTFUL_ROW)
        queues = self._swept(self._picked(of_queues)).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            found = queues.where(~is_explained).collect()
            if len(of_clients):
                explained = queues.where(is_explained)
                told = explained.mapInArrow(PickExplained(of_clients), PIECE_SQL)
                found += self._swept(self._picked(of_clients).unionAll(told)).collect()
        finally:
            queues.unpersist()
        return [tuple(row) for row in found]

    def _picked(self, chosen: ChosenBlocks) -> DataFrame:
        return self.source.through(PickBlocks(chosen), PIECE_SQL)

    def _swept(self, pieces: DataFrame) -> DataFrame:
        parallelism = _parallelism(pieces.sparkSession)
        tasks = max(1, -(-self.runs // RUNS_PER_SWEEP), parallelism)
        spread = pieces.repartition(tasks, "queue_id", "block")
        step = SweepBlocks(circumstances(self.source.catalog), self.examples_max, self.stride)
        return spread.mapInArrow(step, FINDING_SQL)


def _parallelism(spark: SparkSession) -> int:
    return int(spark.conf.get("spark.sql.shuffle.partitions", "2") or 2)
