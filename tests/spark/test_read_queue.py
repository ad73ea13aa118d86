"""A classic queue as a streaming source, by leases, on real Spark and a real broker."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client.calls import declare_queue
from penstock.spark.address import TlsFiles, read_access
from penstock.spark.columns import LEASE_OFFSET_STEP
from penstock.spark.http_client import BrokerClient
from tests.spark.broker_process import BrokerProcess
from tests.spark.published import publish, publish_numbers
from tests.spark.query_process import KillableQuery
from tests.spark.spark_versions import QUEUES, needs_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), needs_spark("4.2", QUEUES)]

PATIENCE_SECONDS = 60


def declare(broker: BrokerProcess, queue: str) -> None:
    with broker.connection() as connection, connection.channel() as channel:
        channel.call(declare_queue(queue, durable=True))


def ready_count(broker: BrokerProcess, queue: str) -> int:
    with broker.connection() as connection, connection.channel() as channel:
        return channel.call(declare_queue(queue, passive=True)).message_count


def leases(broker: BrokerProcess, queue: str, owner: str) -> list[dict[str, Any]]:
    client = BrokerClient(read_access(broker.uri, None, None, TlsFiles(), 5))
    try:
        found: list[dict[str, Any]] = client.get_json(client.path("leases", "/", queue, owner))[
            "leases"
        ]
    finally:
        client.close()
    return found


def start(
    spark: SparkSession, broker: BrokerProcess, folder: Path, rows: list[Any], **options: str
) -> StreamingQuery:
    def gather(frame: DataFrame, number: int) -> None:
        rows.extend([number, row] for row in frame.collect())

    return (
        spark.readStream.format("penstock")
        .options(uri=broker.uri, **options)
        .load()
        .writeStream.foreachBatch(gather)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def test_a_queue_is_read_in_micro_batches_and_empty_afterwards(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare(broker, name)
    publish_numbers(broker, name, 0, 1000)
    rows: list[Any] = []
    query = start(
        spark, broker, tmp_path, rows, queue=name, owner="report", maxMessagesPerTrigger="400"
    )
    query.awaitTermination()
    assert [int(row.body) for _, row in rows] == list(range(1000))
    assert [number for number, _ in rows] == [0] * 400 + [1] * 400 + [2] * 200
    _, first = rows[0]
    assert (first.stream, first.partition, first.offset) == (name, 0, LEASE_OFFSET_STEP)
    assert (first.routing_key, first.redelivered) == (name, False)
    assert len({row.offset for _, row in rows}) == 1000
    # The last micro-batch is settled too, without a further run.
    assert leases(broker, name, "report") == []
    assert ready_count(broker, name) == 0


def test_octets_bound_a_micro_batch_of_a_queue(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare(broker, name)
    publish(broker, "", [(name, b"%03d" % number + b"x" * 997) for number in range(100)])
    rows: list[Any] = []
    query = start(
        spark, broker, tmp_path, rows, queue=name, owner="report", maxBytesPerTrigger="42000"
    )
    query.awaitTermination()
    assert [int(row.body[:3]) for _, row in rows] == list(range(100))
    numbers = [number for number, _ in rows]
    # Octets of bodies are counted.
    assert [numbers.count(batch) for batch in range(3)] == [42, 42, 16]
    assert ready_count(broker, name) == 0


def test_a_queue_gives_each_message_once_when_the_driver_dies_at_any_step(
    broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare(broker, name)
    publish_numbers(broker, name, 0, 3000)
    query = KillableQuery(
        tmp_path, uri=broker.uri, queue=name, owner="killed", maxMessagesPerTrigger="500"
    )
    # A lease was taken and Spark knows nothing of it.
    query.run("asked", 2)
    [taken] = [lease["number"] for lease in leases(broker, name, "killed")]
    query.run("planned", 1)
    assert [lease["number"] for lease in leases(broker, name, "killed")] == [taken]
    query.run("read", 1)
    query.run("written", 2)
    broker.kill()
    broker.start()
    query.run("committed", 3)
    query.run("never", 0)
    rows = query.rows()
    assert sorted(int(body) for _, body in rows) == list(range(3000))
    assert len({offset for offset, _ in rows}) == 3000
    assert leases(broker, name, "killed") == []


def test_a_lease_whose_query_does_not_come_back_returns_to_the_queue(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare(broker, name)
    publish_numbers(broker, name, 0, 10)

    def fail(frame: DataFrame, number: int) -> None:
        raise ValueError("the sink is full")

    broken = (
        spark.readStream.format("penstock")
        .options(uri=broker.uri, queue=name, owner="gone", leaseTimeout="1s")
        .load()
        .writeStream.foreachBatch(fail)
        .option("checkpointLocation", str(tmp_path / "broken"))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(Exception, match="the sink is full"):
        broken.awaitTermination()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while ready_count(broker, name) != 10:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    rows: list[Any] = []
    start(spark, broker, tmp_path, rows, queue=name, owner="next").awaitTermination()
    assert sorted(int(row.body) for _, row in rows) == list(range(10))
    assert {row.redelivered for _, row in rows} == {True}


def test_a_queue_that_is_not_there_is_said(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    query = start(spark, broker, tmp_path, [], queue=name, owner="me")
    with pytest.raises(Exception, match=f"option 'queue': no queue '{name}'"):
        query.awaitTermination()
