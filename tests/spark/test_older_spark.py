"""What Spark 4.0 and 4.1 lack is made up for where that is possible, and else said."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream, publish_numbers
from tests.spark.spark_versions import QUEUES, SEVERAL_BATCHES, STREAM_WRITER, before_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def stream_of(spark: SparkSession, broker: BrokerProcess, **options: str) -> DataFrame:
    return spark.readStream.format("penstock").options(uri=broker.uri, **options).load()


@before_spark("4.2", SEVERAL_BATCHES)
def test_all_there_is_comes_in_one_micro_batch_whatever_its_limit(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, name)
    batches: list[list[int]] = []

    def gather(frame: DataFrame, number: int) -> None:
        del batches[number:]
        batches.append(sorted(int(row.body) for row in frame.select("body").collect()))

    def run() -> None:
        (
            stream_of(
                spark, broker, stream=name, startingOffsets="earliest", maxMessagesPerTrigger="30"
            )
            .writeStream.foreachBatch(gather)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )

    publish_numbers(broker, name, 0, 100)
    run()
    publish_numbers(broker, name, 100, 120)
    run()
    assert batches == [list(range(100)), list(range(100, 120))]


@before_spark("4.2", QUEUES)
def test_a_queue_is_refused(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    query = (
        stream_of(spark, broker, queue=name, owner="me")
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    with pytest.raises(Exception, match=r"reading a queue needs Spark 4\.2 or later"):
        query.awaitTermination()


@before_spark("4.1", STREAM_WRITER)
def test_a_streaming_write_is_refused_and_batches_in_its_place_are_written(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, name)
    publish_numbers(broker, name, 0, 50)
    declare_stream(broker, f"{name}-out")
    read = {"stream": name, "startingOffsets": "earliest", "columns": "body"}
    target: dict[str, Any] = {"uri": broker.uri, "exchange": "", "routingKey": f"{name}-out"}

    def write(frame: DataFrame, number: int) -> None:
        del number
        frame.write.format("penstock").options(**target).mode("append").save()

    refused = (
        stream_of(spark, broker, **read)
        .writeStream.format("penstock")
        .options(**target)
        .option("checkpointLocation", str(tmp_path / "refused"))
    )
    with pytest.raises(Exception, match=r"needs Spark 4\.1 or later"):
        refused.start().awaitTermination()
    (
        stream_of(spark, broker, **read)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path / "taken"))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    found = spark.read.format("penstock").options(uri=broker.uri, stream=f"{name}-out").load()
    assert sorted(int(row.body) for row in found.select("body").collect()) == list(range(50))
