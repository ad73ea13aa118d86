"""Running totals per topic in a database, right whatever crashes: `foreachBatch` done properly.

    python examples/spark/totals_in_sqlite.py --uri http://guest:guest@localhost:15672/ \
        --stream events --database totals.db --checkpoint /var/tmp/totals

Spark repeats a micro-batch when it was stopped before it could note that it was done. So the number
of the micro-batch is written in the same transaction as its figures; a repeated one finds its
number there and changes nothing. Any database with transactions will do; this one comes with Python.
"""

from __future__ import annotations

import argparse
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from penstock.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TABLES = """
CREATE TABLE IF NOT EXISTS totals (topic TEXT PRIMARY KEY, messages INTEGER, octets INTEGER);
CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY);
"""
ADD = """
INSERT INTO totals VALUES (?, ?, ?) ON CONFLICT (topic) DO UPDATE
SET messages = messages + excluded.messages, octets = octets + excluded.octets
"""


@dataclass(frozen=True, slots=True)
class AddTotals:
    """What Spark calls with every micro-batch, in the driver. A database belongs to one query."""

    database: str

    def __call__(self, rows: DataFrame, number: int) -> None:
        totals = (
            rows.groupBy("routing_key")
            .agg(f.count("*").alias("messages"), f.sum(f.length("body")).alias("octets"))
            .collect()
        )
        with closing(sqlite3.connect(self.database)) as connection:
            connection.executescript(TABLES)
            with connection:  # one transaction
                new = connection.execute("INSERT OR IGNORE INTO batches VALUES (?)", (number,))
                if new.rowcount:
                    connection.executemany(ADD, [tuple(row) for row in totals])


def start(
    spark: SparkSession, uri: str, stream: str, database: str, checkpoint: str, every: str | None
) -> StreamingQuery:
    messages = (
        spark.readStream.format("penstock")
        .option("uri", uri)
        .option("stream", stream)
        .option("startingOffsets", "earliest")
        .option("columns", "routing_key,body")
        .option("maxMessagesPerTrigger", 200_000)
        .load()
    )
    writer = messages.writeStream.foreachBatch(AddTotals(database)).option(
        "checkpointLocation", checkpoint
    )
    chosen = writer.trigger(processingTime=every) if every else writer.trigger(availableNow=True)
    return chosen.start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uri", default="http://guest:guest@localhost:15672/")
    parser.add_argument("--stream", required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--every", default="5 seconds")
    chosen = parser.parse_args()
    spark = spark_session(app_name="totals in SQLite")
    start(
        spark, chosen.uri, chosen.stream, chosen.database, chosen.checkpoint, chosen.every
    ).awaitTermination()


if __name__ == "__main__":
    main()
