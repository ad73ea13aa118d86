"""Every script of examples/spark, on a real Spark and a real broker."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples.spark import (
    archive_and_replay,
    enrich_and_publish,
    over_connect,
    totals_in_sqlite,
    windowed_counts,
)
from penstock.client.calls import bind_queue, declare_exchange, declare_queue
from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream, declare_topic, publish
from tests.spark.spark_versions import SEVERAL_BATCHES, STREAM_WRITER, needs_spark
from tests.spark.written import drained

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]


def topics_of(broker: BrokerProcess, name: str, counts: dict[str, int]) -> None:
    """Publish so many messages of each topic to the exchange of the stream's name."""
    messages = [(topic, b"12345") for topic, count in counts.items() for _ in range(count)]
    publish(broker, name, messages)


def stream_of_topics(broker: BrokerProcess, name: str) -> None:
    declare_stream(broker, name)
    declare_topic(broker, name, name)


def test_windowed_counts_are_written_when_their_window_is_over(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    stream_of_topics(broker, name)
    topics_of(broker, name, {"eu.sold": 30, "us.sold": 20})
    counted = time.time()
    counts = windowed_counts.windowed_counts(spark, broker.uri, name, "1 second", "1 second")
    windowed_counts.write_counts(counts, tmp_path, None).awaitTermination()
    # Time is what closes a window: so it must pass, and a message of a later time must come.
    for step in (3.0, 6.0):
        while time.time() < counted + step:
            time.sleep(0.05)
        topics_of(broker, name, {"clock": 1})
        windowed_counts.write_counts(counts, tmp_path, None).awaitTermination()
    rows = spark.read.parquet(str(tmp_path / "rows")).where("topic != 'clock'").collect()
    assert all((row["end"] - row["start"]).total_seconds() == 1 for row in rows)
    for topic, count in {"eu.sold": 30, "us.sold": 20}.items():
        assert sum(row["count"] for row in rows if row["topic"] == topic) == count
    keys = [(row["start"], row["topic"]) for row in rows]
    assert len(keys) == len(set(keys)), "a window was written twice"


@needs_spark("4.1", STREAM_WRITER)
def test_orders_are_enriched_and_published_once(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    orders, target = f"{name}-orders", f"{name}-priced"
    declare_stream(broker, orders)
    with broker.connection() as connection, connection.channel() as channel:
        channel.call(declare_exchange(target, "topic", durable=True))
        channel.call(declare_queue(target, durable=True))
        channel.call(bind_queue(target, target, "priced.*"))
    prices = spark.createDataFrame([("apple", 0.5), ("pear", 2.0)], "item string, price double")

    def run() -> None:
        enrich_and_publish.start(
            spark, broker.uri, orders, target, prices, str(tmp_path), None
        ).awaitTermination()

    publish(broker, "", [(orders, b'{"item": "apple", "count": 3}')])
    run()
    publish(broker, "", [(orders, b'{"item": "plum", "count": 1}')])
    run()
    apple, plum = drained(broker, target)
    assert apple.routing_key == "priced.apple"
    assert json.loads(apple.body) == {"item": "apple", "count": 3, "price": 0.5, "total": 1.5}
    assert apple.properties.content_type == "application/json"
    assert plum.routing_key == "priced.plum"
    assert json.loads(plum.body) == {"item": "plum", "count": 1}


def test_a_stream_is_archived_and_a_part_of_it_comes_back(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    stream_of_topics(broker, name)
    topics_of(broker, name, {"eu.a": 3, "us.a": 4, "eu.b": 2})
    lake = str(tmp_path / "lake")
    archive_and_replay.archive_now(spark, broker.uri, name, lake)
    topics_of(broker, name, {"eu.c": 1})
    archive_and_replay.archive_now(spark, broker.uri, name, lake)
    with broker.connection() as connection, connection.channel() as channel:
        channel.call(declare_exchange(f"{name}-again", "topic", durable=True))
        channel.call(declare_queue(f"{name}-back", durable=True))
        channel.call(bind_queue(f"{name}-back", f"{name}-again", "#"))
    count = archive_and_replay.replay_some(
        spark, lake, broker.amqp_uri, f"{name}-again", "routing_key LIKE 'eu.%'"
    )
    keys = [message.routing_key for message in drained(broker, f"{name}-back")]
    assert count == 6
    assert keys == ["eu.a"] * 3 + ["eu.b"] * 2 + ["eu.c"]


@needs_spark("4.2", SEVERAL_BATCHES)
def test_a_micro_batch_that_spark_repeats_is_added_once(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    stream_of_topics(broker, name)
    database, checkpoint = str(tmp_path / "totals.db"), tmp_path / "checkpoint"

    def totals() -> list[tuple[str, int, int]]:
        totals_in_sqlite.start(
            spark, broker.uri, name, database, str(checkpoint), None
        ).awaitTermination()
        with closing(sqlite3.connect(database)) as connection:
            return connection.execute("SELECT * FROM totals ORDER BY topic").fetchall()

    topics_of(broker, name, {"eu.sold": 7, "us.sold": 2})
    assert totals() == [("eu.sold", 7, 35), ("us.sold", 2, 10)]
    # As if Spark had died between the database's commit and its own.
    for path in (checkpoint / "commits").iterdir():
        path.unlink()
    topics_of(broker, name, {"us.sold": 1})
    assert totals() == [("eu.sold", 7, 35), ("us.sold", 3, 15)]


def test_topics_are_counted(spark: SparkSession, broker: BrokerProcess, name: str) -> None:
    stream_of_topics(broker, name)
    topics_of(broker, name, {"a": 1, "b": 5, "c": 1})
    assert over_connect.topics(spark, broker.uri, name) == [("b", 5), ("a", 1), ("c", 1)]
