"""A stream into a lake of Parquet files, and a part of the lake back to an exchange.

    python examples/spark/archive_and_replay.py --http http://guest:guest@localhost:15672/ \
        --amqp amqp://guest:guest@localhost:5672 --stream events --lake /var/tmp/lake \
        --exchange again --where "routing_key like 'eu.%'"

The same as `penstock pipeline archive` and `penstock pipeline replay`, as functions on DataFrames:
between the two lies whatever Spark can do with rows.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.spark.jobs.archive import archive, read_archive
from penstock.spark.jobs.replay import replay
from penstock.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def archive_now(spark: SparkSession, http_uri: str, stream: str, lake: str) -> None:
    """Everything that is in the stream now and not in the lake yet."""
    options = {"uri": http_uri, "stream": stream, "startingOffsets": "earliest"}
    archive(spark, lake, options).awaitTermination()


def replay_some(
    spark: SparkSession, lake: str, amqp_uri: str, exchange: str, condition: str
) -> int:
    """Publish with original keys and properties, in the order of their times; how many."""
    return replay(read_archive(spark, lake).where(condition), amqp_uri, exchange)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--http", default="http://guest:guest@localhost:15672/")
    parser.add_argument("--amqp", default="amqp://guest:guest@localhost:5672")
    parser.add_argument("--stream", required=True)
    parser.add_argument("--lake", required=True)
    parser.add_argument("--exchange", required=True)
    parser.add_argument("--where", default="true", help="a condition in SQL")
    chosen = parser.parse_args()
    spark = spark_session(app_name="archive and replay")
    archive_now(spark, chosen.http, chosen.stream, chosen.lake)
    print(f"{read_archive(spark, chosen.lake).count():,} messages are in {chosen.lake}")
    count = replay_some(spark, chosen.lake, chosen.amqp, chosen.exchange, chosen.where)
    print(f"{count:,} of them were published to {chosen.exchange!r} and confirmed")


if __name__ == "__main__":
    main()
