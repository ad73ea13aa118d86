"""Queries over the servers of a cluster: the root is killed in the middle, and every row comes once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.cli.demo_steps.cluster import DemoCluster
from penstock.client import blocking
from penstock.client.calls import declare_queue
from penstock.spark.jobs.archive import archive, read_archive
from penstock.wire.amqp091.content import PERSISTENT, BasicProperties
from tests.spark.spark_versions import SEVERAL_BATCHES, needs_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    needs_spark("4.2", SEVERAL_BATCHES),
]

MESSAGES = 1500
STREAM, WORK, TARGET = "events", "work", "target"
# A batch that the root dies in waits for the election.
PATIENCE_SECONDS = 240


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DemoCluster]:
    with DemoCluster(tmp_path / "servers") as servers:
        servers.start()
        yield servers


def fill(cluster: DemoCluster) -> None:
    """Numbers in a stream and in a queue, and an empty queue for the sink."""
    stream: dict[str, object] = {"x-queue-type": "stream"}
    with (
        blocking.connect(cluster.amqp_uri) as connection,
        connection.channel() as channel,
    ):
        channel.call(declare_queue(STREAM, durable=True, arguments=stream))
        channel.call(declare_queue(WORK, durable=True))
        channel.call(declare_queue(TARGET, durable=True))
        channel.select_confirms()
        for queue in (STREAM, WORK):
            messages = [(queue, b"%d" % number) for number in range(MESSAGES)]
            channel.publish_batch("", messages, BasicProperties(delivery_mode=PERSISTENT))
        channel.wait_for_confirms()


def taken(cluster: DemoCluster, queue: str) -> list[int]:
    """All numbers of a queue, sorted."""
    numbers = []
    with blocking.connect(cluster.amqp_uri) as connection, connection.channel() as channel:
        while (message := channel.get(queue, no_ack=True)) is not None:
            numbers.append(int(message.body))
    return sorted(numbers)


def read(spark: SparkSession, cluster: DemoCluster, **source: str) -> DataFrame:
    options = {"uri": cluster.http_uris, "maxMessagesPerTrigger": "500", **source}
    return spark.readStream.format("penstock").options(**options).load()


def into_sink(spark: SparkSession, cluster: DemoCluster, folder: Path) -> StreamingQuery:
    rows = read(spark, cluster, stream=STREAM, startingOffsets="earliest", columns="body")
    return (
        rows.writeStream.format("penstock")
        .options(uri=cluster.http_uris, exchange="", routingKey=TARGET)
        .option("checkpointLocation", str(folder / "sink"))
        .trigger(availableNow=True)
        .start()
    )


def from_queue(spark: SparkSession, cluster: DemoCluster, folder: Path) -> StreamingQuery:
    """Files of rows: Spark's own sink, which has each micro-batch once."""
    return (
        read(spark, cluster, queue=WORK, owner="failover", columns="body")
        .selectExpr("CAST(CAST(body AS STRING) AS INT) AS number")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "work"))
        .trigger(availableNow=True)
        .start(str(folder / "work-rows"))
    )


def await_batches(queries: list[StreamingQuery]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while not all(query.lastProgress for query in queries):
        assert time.monotonic() < until, [query.status for query in queries]
        time.sleep(0.05)


def test_a_sink_a_queue_and_an_archive_continue_over_a_failover_and_have_every_row_once(
    spark: SparkSession, cluster: DemoCluster, tmp_path: Path
) -> None:
    fill(cluster)
    options = {
        "uri": cluster.http_uris,
        "stream": STREAM,
        "startingOffsets": "earliest",
        "maxMessagesPerTrigger": "500",
    }
    queries = [
        into_sink(spark, cluster, tmp_path),
        from_queue(spark, cluster, tmp_path),
        archive(spark, str(tmp_path / "archive"), options),
    ]
    await_batches(queries)
    assert any(query.isActive for query in queries), "the kill would come too late"
    killed = cluster.kill_root()
    for query in queries:
        assert query.awaitTermination(PATIENCE_SECONDS), query.status
    assert cluster.await_root() != killed
    assert taken(cluster, TARGET) == list(range(MESSAGES))
    rows = spark.read.parquet(str(tmp_path / "work-rows")).collect()
    assert sorted(row.number for row in rows) == list(range(MESSAGES))
    assert taken(cluster, WORK) == []
    kept = read_archive(spark, str(tmp_path / "archive")).selectExpr("CAST(body AS STRING) AS body")
    assert sorted(int(row.body) for row in kept.collect()) == list(range(MESSAGES))
