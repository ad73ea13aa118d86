"""Streams as a streaming source, on real Spark and a real broker."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client.calls import declare_exchange
from penstock.spark.address import TlsFiles, read_access
from penstock.spark.http_client import BrokerClient
from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream, delete_stream, publish, publish_numbers
from tests.spark.spark_versions import BACKLOG, QUEUES, SEVERAL_BATCHES, needs_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PATIENCE_SECONDS = 120


class Sink:
    """Gathers what a query's micro-batches hold. Micro-batches that come again replace."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Any]] = {}

    def __call__(self, frame: DataFrame, number: int) -> None:
        self.batches[number] = frame.collect()

    def rows(self) -> list[Any]:
        return [row for _, rows in sorted(self.batches.items()) for row in rows]

    def numbers(self) -> list[int]:
        return [int(row.body) for row in self.rows()]


def start(
    spark: SparkSession,
    broker: BrokerProcess,
    folder: Path,
    sink: Sink,
    trigger: dict[str, Any] | None = None,
    **options: Any,
) -> StreamingQuery:
    chosen = {"uri": broker.uri, "startingOffsets": "earliest", **options}
    frame = spark.readStream.format("penstock").options(**chosen).load()
    return (
        frame.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**(trigger or {"availableNow": True}))
        .start()
    )


def wait_for(count: int, sink: Sink, query: StreamingQuery) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(sink.rows()) < count:
        assert time.monotonic() < deadline, len(sink.rows())
        assert query.isActive, query.exception()
        time.sleep(0.05)


@needs_spark("4.2", SEVERAL_BATCHES)
def test_available_now_reads_all_in_micro_batches_of_the_asked_size(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, name, stream_max_segment_size_bytes=20_000)
    publish_numbers(broker, name, 0, 1000)
    sink = Sink()
    query = start(spark, broker, tmp_path, sink, stream=name, maxMessagesPerTrigger="300")
    query.awaitTermination()
    assert [len(rows) for rows in sink.batches.values()] == [300, 300, 300, 100]
    assert sink.numbers() == list(range(1000))
    # A query that begins again at its checkpoint goes on where it was.
    publish_numbers(broker, name, 1000, 1200)
    start(spark, broker, tmp_path, sink, stream=name).awaitTermination()
    assert sink.numbers() == list(range(1200))


@needs_spark("4.2", SEVERAL_BATCHES)
def test_octets_bound_a_micro_batch(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, name)
    publish(broker, "", [(name, b"x" * 1000) for _ in range(100)])
    sink = Sink()
    query = start(
        spark, broker, tmp_path, sink, stream=name, maxBytesPerTrigger="42000", columns="offset"
    )
    query.awaitTermination()
    # A message takes 1000 octets and a little more for its names, head and lengths.
    assert [len(rows) for rows in sink.batches.values()] == [40, 40, 20]
    assert [row.offset for row in sink.rows()] == list(range(100))


def test_a_query_outlives_a_kill_and_restart_of_the_broker(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, name)
    publish_numbers(broker, name, 0, 500)
    sink = Sink()
    query = start(
        spark, broker, tmp_path, sink, {"processingTime": "100 milliseconds"}, stream=name
    )
    try:
        wait_for(500, sink, query)
        for life in range(1, 3):
            broker.kill()
            broker.start()
            publish_numbers(broker, name, 500 * life, 500 * (life + 1))
            wait_for(500 * (life + 1), sink, query)
    finally:
        query.stop()
    assert sink.numbers() == list(range(1500))


def test_a_partition_that_is_added_is_read_from_its_beginning(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, f"{name}-0")
    publish_numbers(broker, f"{name}-0", 0, 100)
    sink = Sink()
    query = start(
        spark,
        broker,
        tmp_path,
        sink,
        {"processingTime": "100 milliseconds"},
        streamPattern=f"{name}.*",
    )
    try:
        wait_for(100, sink, query)
        declare_stream(broker, f"{name}-1")
        publish_numbers(broker, f"{name}-1", 100, 200)
        wait_for(200, sink, query)
        declare_partitioned(broker, f"{name}-more")
        publish(broker, f"{name}-more", [(f"k{n}", b"%d" % n) for n in range(200, 300)])
        wait_for(300, sink, query)
    finally:
        query.stop()
    assert sorted(sink.numbers()) == list(range(300))


def declare_partitioned(broker: BrokerProcess, name: str) -> None:
    with broker.connection() as connection, connection.channel() as channel:
        channel.call(
            declare_exchange(
                name, "x-partitioned-stream", durable=True, arguments={"x-partitions": 2}
            )
        )


def test_retention_that_overtakes_a_query_is_an_error_or_a_gap(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, name, max_length_bytes=60_000, stream_max_segment_size_bytes=20_000)
    body = b"x" * 200
    publish(broker, "", [(name, body)] * 10)
    sink = Sink()
    start(spark, broker, tmp_path, sink, stream=name, columns="offset").awaitTermination()
    assert len(sink.rows()) == 10
    publish(broker, "", [(name, body)] * 2000)
    failed = start(spark, broker, tmp_path, sink, stream=name, columns="offset")
    with pytest.raises(Exception, match=rf"offsets 10 to \d+ of stream '{name}' were removed"):
        failed.awaitTermination()
    again = start(
        spark, broker, tmp_path, sink, stream=name, columns="offset", failOnDataLoss="false"
    )
    again.awaitTermination()
    offsets = [row.offset for row in sink.rows()]
    assert offsets[:10] == list(range(10))
    assert offsets[10] > 10
    assert offsets[10:] == list(range(offsets[10], 2010))


def test_a_stream_that_was_declared_again_is_noticed(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, name)
    publish_numbers(broker, name, 0, 10)
    sink = Sink()
    start(spark, broker, tmp_path, sink, stream=name).awaitTermination()
    delete_stream(broker, name)
    declare_stream(broker, name)
    publish_numbers(broker, name, 100, 120)
    with pytest.raises(Exception, match="was deleted and declared again"):
        start(spark, broker, tmp_path, sink, stream=name).awaitTermination()
    query = start(spark, broker, tmp_path, sink, stream=name, failOnDataLoss="false")
    query.awaitTermination()
    assert sink.numbers() == [*range(10), *range(100, 120)]


@needs_spark("4.2", BACKLOG)
def test_a_cursor_follows_the_query_and_progress_tells_the_backlog(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, name)
    publish_numbers(broker, name, 0, 30)
    sink = Sink()
    query = start(
        spark, broker, tmp_path, sink, stream=name, cursor="report", maxMessagesPerTrigger="20"
    )
    query.awaitTermination()
    client = BrokerClient(read_access(broker.uri, None, None, TlsFiles(), 5))
    cursor = client.get_json(client.path("streams", "/", name, "cursors", "report"))
    client.close()
    assert (cursor["offset"], cursor["lag"]) == (30, 0)
    latest = query.recentProgress[0]["sources"][0]["latestOffset"]
    assert "'next': 30" in str(latest) or '"next":30' in str(latest).replace(" ", "")


@needs_spark("4.2", QUEUES)
def test_a_checkpoint_of_another_kind_of_query_is_refused(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, name)
    publish_numbers(broker, name, 0, 5)
    start(spark, broker, tmp_path, Sink(), stream=name).awaitTermination()
    query = (
        spark.readStream.format("penstock")
        .options(uri=broker.uri, queue="somewhere", owner="me", retryTimeout="5s")
        .load()
        .writeStream.foreachBatch(Sink())
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(Exception, match="it belongs to another query"):
        query.awaitTermination()
