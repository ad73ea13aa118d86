"""How a broker is reached and how reading is cut into tasks: the options that other tests leave out."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream, publish_numbers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

READER = {"user": "analyst", "password": "not a secret"}
DEFINITIONS: dict[str, Any] = {
    "vhosts": [{"name": "/"}, {"name": "a/b"}],
    "users": [
        {"name": "guest", "password": "guest", "tags": ["administrator"]},
        {"name": READER["user"], "password": READER["password"], "tags": []},
    ],
    "permissions": [
        {"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},
        {"user": "analyst", "vhost": "/", "configure": "^$", "write": "^$", "read": "^open-"},
    ],
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("broker")
    definitions = folder / "definitions.json"
    definitions.write_text(json.dumps(DEFINITIONS))
    process = BrokerProcess(folder / "data", f"--definitions={definitions}")
    yield process
    process.close()


def read(spark: SparkSession, **options: str) -> DataFrame:
    return spark.read.format("penstock").options(retryTimeout="5s", **options).load()


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port


def test_a_dead_address_is_passed_over_by_driver_and_tasks(
    spark: SparkSession, broker: BrokerProcess, name: str
) -> None:
    declare_stream(broker, name)
    publish_numbers(broker, name, 0, 10)
    uri = f"http://127.0.0.1:{closed_port()}/, {broker.uri}"
    assert read(spark, uri=uri, stream=name).count() == 10
    frame = spark.range(5).selectExpr("cast(id + 10 as string) as body")
    target = {"uri": uri, "exchange": "", "routingKey": name}
    frame.write.format("penstock").options(**target).mode("append").save()
    rows = read(spark, uri=uri, stream=name).select("body").collect()
    assert sorted(int(row.body) for row in rows) == list(range(15))


def test_a_user_reads_what_it_may_and_its_password_stands_in_no_checkpoint(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    for stream in (f"open-{name}", f"shut-{name}"):
        declare_stream(broker, stream)
        publish_numbers(broker, stream, 0, 10)
    secret = tmp_path / "password"
    secret.write_text(READER["password"])
    access = {"uri": broker.uri, "user": READER["user"], "password": f"file:{secret}"}
    counts: list[int] = []
    query = (
        spark.readStream.format("penstock")
        .options(**access, stream=f"open-{name}", startingOffsets="earliest")
        .load()
        .writeStream.foreachBatch(lambda frame, _: counts.append(frame.count()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sum(counts) == 10
    for file in (tmp_path / "checkpoint").rglob("*"):
        assert file.is_dir() or READER["password"].encode() not in file.read_bytes()
    with pytest.raises(Exception, match=f"shut-{name}"):
        read(spark, **access, stream=f"shut-{name}")


def test_another_virtual_host_is_named_in_the_address(
    spark: SparkSession, broker: BrokerProcess
) -> None:
    with pytest.raises(Exception, match="'a/b'"):
        read(spark, uri=f"{broker.uri}a%2Fb", stream="orders")


def test_no_task_has_more_rows_than_asked_for(
    spark: SparkSession, broker: BrokerProcess, name: str
) -> None:
    declare_stream(broker, name)
    publish_numbers(broker, name, 0, 1000)
    frame = read(spark, uri=broker.uri, stream=name, columns="offset", rowsPerPartition="150")
    counts = frame.selectExpr("spark_partition_id() as task").groupBy("task").count().collect()
    assert sum(row["count"] for row in counts) == 1000
    assert max(row["count"] for row in counts) <= 150


def test_a_query_begins_at_a_time_with_the_filter_that_it_was_given(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, name)
    publish_numbers(broker, name, 0, 20)
    numbers: list[int] = []

    def gather(frame: DataFrame, _: int) -> None:
        numbers.extend(int(row.body) for row in frame.collect())

    long_ago, to_come = "2020-01-01T00:00:00Z", "4102444800000"
    for run, (moment, key) in enumerate([(long_ago, name), (long_ago, "other"), (to_come, name)]):
        (
            spark.readStream.format("penstock")
            .options(uri=broker.uri, stream=name, columns="body", filter=f"key: {key}")
            .option("startingTimestamp", moment)
            .load()
            .writeStream.foreachBatch(gather)
            .option("checkpointLocation", str(tmp_path / str(run)))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )
    assert numbers == list(range(20))
