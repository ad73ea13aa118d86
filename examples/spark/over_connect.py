"""The data source over Spark Connect: a thin client, and a Spark that runs elsewhere.

    python examples/spark/over_connect.py --uri http://guest:guest@localhost:15672/ --stream events

`--remote local[2]` starts a Spark Connect server here; `sc://host:15002` uses one that runs, whose
executors need `penstock[spark]` installed and must reach the broker. The client needs
`pip install 'pyspark[connect]'`.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from penstock.spark import register
from penstock.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def remote_session(remote: str) -> SparkSession:
    from pyspark.sql import SparkSession

    if remote.startswith("local"):
        # The server is started here, so it needs what any Spark needs.
        os.environ["JAVA_HOME"] = str(java_home())
        os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.remote(remote).getOrCreate()
    register(session)
    return session


def topics(spark: SparkSession, uri: str, stream: str) -> list[tuple[str, int]]:
    """How many messages each topic has, the most frequent first."""
    rows = (
        spark.read.format("penstock")
        .option("uri", uri)
        .option("stream", stream)
        .option("columns", "routing_key")
        .load()
        .groupBy("routing_key")
        .count()
        .collect()
    )
    return sorted(((row[0], row[1]) for row in rows), key=lambda topic: (-topic[1], topic[0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uri", default="http://guest:guest@localhost:15672/")
    parser.add_argument("--stream", required=True)
    parser.add_argument("--remote", default="local[2]")
    chosen = parser.parse_args()
    spark = remote_session(chosen.remote)
    for topic, count in topics(spark, chosen.uri, chosen.stream):
        print(f"{topic} {count}")
    spark.stop()


if __name__ == "__main__":
    main()
