"""Streams to Parquet, each message once.

    ROOT/stream=orders/date=2026-11-16/batch=5f3a9c01-00000012/part-....parquet

A micro-batch replaces its own folders and no others. A query that was killed plans the same
messages for the same number again, so what its first attempt left behind is overwritten, and the
rest is written: each message once, whatever happened. The checkpoint belongs to the archive and is
stored in it; its tag is part of the names, so that a second query does not overwrite the first
one's.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.spark.columns import ALL
from penstock.spark.errors import PipelineError
from penstock.spark.jobs.lake_files import LakeFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CHECKPOINT: Final = "_checkpoint"
_TAG: Final = f"{CHECKPOINT}/penstock-tag"
# About a hundred megabytes of small messages; a larger number makes batches less frequent, not
# faster.
MESSAGES_PER_BATCH: Final = 1_000_000


class ArchiveRefused(PipelineError):
    """The request would write messages twice, or there is nothing to read."""


@dataclass(frozen=True, slots=True)
class ArchiveFolder:
    """Names within an archive."""

    stream: str
    date: str
    batch: str = ""

    def __str__(self) -> str:
        folder = f"stream={self.stream}/date={self.date}"
        return f"{folder}/batch={self.batch}" if self.batch else folder


def dated(rows: DataFrame) -> DataFrame:
    """Rows of the source `penstock` with the column by which archives are partitioned."""
    from pyspark.sql import functions as f

    return rows.withColumn("date", f.date_format("timestamp", "yyyy-MM-dd"))


def write_batch(rows: DataFrame, root: str, batch: str) -> None:
    """Put rows into an archive as one batch; doing it again changes nothing."""
    from pyspark.sql import functions as f

    (
        dated(rows)
        .withColumn("batch", f.lit(batch))
        .write.partitionBy("stream", "date", "batch")
        .option("partitionOverwriteMode", "dynamic")
        .option("compression", "zstd")
        .mode("overwrite")
        .parquet(root)
    )


def read_archive(spark: SparkSession, root: str) -> DataFrame:
    """Everything in it, with the columns of the source and `date`."""
    files = LakeFiles(spark, root)
    if not any(name.startswith("stream=") for name in files.names()):
        raise ArchiveRefused(f"{root} is not an archive. `penstock pipeline archive` creates one.")
    spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    return spark.read.parquet(files.root).drop("batch")


@dataclass(frozen=True, slots=True)
class _WriteBatch:
    """What Spark calls with every micro-batch, in the driver."""

    root: str
    tag: str

    def __call__(self, rows: DataFrame, number: int) -> None:
        write_batch(rows, self.root, f"{self.tag}-{number:08d}")


def is_begun(files: LakeFiles) -> bool:
    """Whether a query has begun it, so that another one continues where that stopped."""
    return files.exists(_TAG)


def archive(
    spark: SparkSession,
    root: str,
    options: dict[str, str],
    every_seconds: float | None = None,
) -> StreamingQuery:
    """Start to archive the streams that `options`, those of the source, name. Without
    `every_seconds` the query ends when all present messages are archived.
    """
    files = LakeFiles(spark, root)
    if not is_begun(files):
        _refuse_a_second(files, options)
        files.write(_TAG, secrets.token_hex(4))
    tag = files.read(_TAG)
    # An archive keeps every column.
    chosen = {"maxMessagesPerTrigger": str(MESSAGES_PER_BATCH), "columns": ALL, **options}
    if "startingTimestamp" not in options:
        # A query begins with new messages by default; an archive with the existing ones.
        chosen.setdefault("startingOffsets", "earliest")
    writer = (
        spark.readStream.format("penstock")
        .options(**chosen)
        .load()
        .writeStream.foreachBatch(_WriteBatch(files.root, tag))
        .option("checkpointLocation", files.full(CHECKPOINT))
        .queryName("penstock archive")
    )
    if every_seconds is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every_seconds} seconds").start()


def _refuse_a_second(files: LakeFiles, options: dict[str, str]) -> None:
    has_rows = any(name.startswith("stream=") for name in files.names())
    if has_rows and not {"startingOffsets", "startingTimestamp"} & options.keys():
        raise ArchiveRefused(
            f"{files.root} contains messages, but its {CHECKPOINT} is missing: archiving from the "
            "beginning would write them a second time. Use a new directory, or set --starting to "
            "the offset at which to continue."
        )
