"""The streaming sink, on real Spark and a real broker: each micro-batch once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream, publish_numbers
from tests.spark.spark_versions import SEVERAL_BATCHES, STREAM_WRITER, needs_spark
from tests.spark.written import declare_target, numbers_in, sinks_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), needs_spark("4.1", STREAM_WRITER)]

PATIENCE_SECONDS = 120


def start(
    spark: SparkSession,
    broker: BrokerProcess,
    folder: Path,
    name: str,
    trigger: dict[str, Any] | None = None,
    **options: Any,
) -> StreamingQuery:
    """From the stream NAME-in to the queue NAME, by way of a shuffle."""
    source = {
        "uri": broker.uri,
        "stream": f"{name}-in",
        "startingOffsets": "earliest",
        "maxMessagesPerTrigger": "300",
        "columns": "body",
    }
    target = {"uri": broker.uri, "exchange": "", "routingKey": name, **options}
    return (
        spark.readStream.format("penstock")
        .options(**source)
        .load()
        .repartition(3)
        .writeStream.format("penstock")
        .options(**target)
        .option("checkpointLocation", str(folder))
        .trigger(**(trigger or {"availableNow": True}))
        .start()
    )


def prepared(broker: BrokerProcess, name: str, count: int) -> None:
    declare_target(broker, name)
    declare_stream(broker, f"{name}-in")
    publish_numbers(broker, f"{name}-in", 0, count)


@needs_spark("4.2", SEVERAL_BATCHES)
def test_each_message_is_published_once_and_the_sink_is_the_checkpoints(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    prepared(broker, name, 1000)
    query = start(spark, broker, tmp_path / "a", name)
    query.awaitTermination()
    assert numbers_in(broker, name) == list(range(1000))
    known = {sink["sink"]: sink["batch"] for sink in sinks_of(broker)}
    assert known[f"spark.{query.id}"] == 3
    # Another checkpoint is another query, whose batches are its own.
    start(spark, broker, tmp_path / "b", name).awaitTermination()
    assert numbers_in(broker, name) == list(range(1000))


@needs_spark("4.2", SEVERAL_BATCHES)
def test_a_commit_that_spark_forgot_is_dropped_when_it_comes_again(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    prepared(broker, name, 500)
    start(spark, broker, tmp_path, name, sink=name).awaitTermination()
    # As if the driver had died between the broker's commit and its own.
    (tmp_path / "commits" / "1").unlink()
    for crc in (tmp_path / "commits").glob(".1.crc"):
        crc.unlink()
    publish_numbers(broker, f"{name}-in", 500, 600)
    start(spark, broker, tmp_path, name, sink=name).awaitTermination()
    assert numbers_in(broker, name) == list(range(600))


@needs_spark("4.2", SEVERAL_BATCHES)
def test_a_sink_that_is_ahead_of_its_query_is_an_error(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    prepared(broker, name, 700)
    start(spark, broker, tmp_path / "a", name, sink=name).awaitTermination()
    with pytest.raises(Exception, match=r"has lost its checkpoint\. Nothing of this batch"):
        start(spark, broker, tmp_path / "b", name, sink=name).awaitTermination()
    assert len(numbers_in(broker, name)) == 700
    response = httpx.delete(f"{broker.uri}api/sinks/%2F/{name}", auth=("guest", "guest"))
    assert response.status_code == 204


def test_a_query_outlives_kills_of_the_broker(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    prepared(broker, name, 300)
    query = start(spark, broker, tmp_path, name, {"processingTime": "50 milliseconds"})
    count = 300
    try:
        for _ in range(3):
            publish_numbers(broker, f"{name}-in", count, count + 1500)
            count += 1500
            time.sleep(0.3)  # somewhere within a micro-batch, wherever that is
            broker.kill()
            broker.start()
        query.processAllAvailable()
    finally:
        query.stop()
    assert numbers_in(broker, name) == list(range(count))


def test_at_least_once_publishes_directly(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    prepared(broker, name, 700)
    before = [sink["sink"] for sink in sinks_of(broker)]
    start(
        spark, broker, tmp_path, name, deduplicate="false", amqpUri=broker.amqp_uri
    ).awaitTermination()
    assert numbers_in(broker, name) == list(range(700))
    assert [sink["sink"] for sink in sinks_of(broker)] == before
