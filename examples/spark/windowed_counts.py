"""How many messages of each topic came in each window of time, late ones within bounds.

    python examples/spark/windowed_counts.py --uri http://guest:guest@localhost:15672/ \
        --stream events --to counts

A message belongs to the window of the time at which the broker took it. A window's row is written
when the watermark has passed its end: once, and never changed afterwards. Only the two columns that
are needed are asked for, so bodies are not even copied.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from penstock.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def windowed_counts(
    spark: SparkSession, uri: str, stream: str, width: str, lateness: str
) -> DataFrame:
    messages = (
        spark.readStream.format("penstock")
        .option("uri", uri)
        .option("stream", stream)
        .option("startingOffsets", "earliest")
        .option("columns", "timestamp,routing_key")
        .load()
    )
    return (
        messages.withWatermark("timestamp", lateness)
        .groupBy(f.window("timestamp", width), f.col("routing_key").alias("topic"))
        .count()
        .select("window.start", "window.end", "topic", "count")
    )


def write_counts(counts: DataFrame, to: Path, every: str | None) -> StreamingQuery:
    """Into Parquet files; without `every` until everything that is there is counted."""
    writer = (
        counts.writeStream.format("parquet")
        .option("path", str(to / "rows"))
        .option("checkpointLocation", str(to / "checkpoint"))
    )
    chosen = writer.trigger(processingTime=every) if every else writer.trigger(availableNow=True)
    return chosen.start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uri", default="http://guest:guest@localhost:15672/")
    parser.add_argument("--stream", required=True)
    parser.add_argument("--to", type=Path, required=True, help="a directory for rows and progress")
    parser.add_argument("--width", default="10 seconds")
    parser.add_argument("--lateness", default="30 seconds")
    parser.add_argument("--every", default="5 seconds", help="how often a micro-batch begins")
    chosen = parser.parse_args()
    spark = spark_session(app_name="windowed counts")
    counts = windowed_counts(spark, chosen.uri, chosen.stream, chosen.width, chosen.lateness)
    write_counts(counts, chosen.to, chosen.every).awaitTermination()


if __name__ == "__main__":
    main()
