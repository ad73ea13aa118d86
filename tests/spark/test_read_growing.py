"""A stream that joins while a query runs is part of a micro-batch, and of it when it comes again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream, publish_numbers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_micro_batch_that_took_up_a_partition_is_the_same_when_it_comes_again(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    batches: dict[int, list[int]] = {}

    def gather(frame: DataFrame, number: int) -> None:
        batches[number] = sorted(int(row.body) for row in frame.select("body").collect())

    def run() -> None:
        (
            spark.readStream.format("penstock")
            .options(uri=broker.uri, streamPattern=f"{name}-.*", startingOffsets="earliest")
            .load()
            .writeStream.foreachBatch(gather)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )

    declare_stream(broker, f"{name}-0")
    publish_numbers(broker, f"{name}-0", 0, 10)
    run()
    declare_stream(broker, f"{name}-1")
    publish_numbers(broker, f"{name}-0", 10, 15)
    publish_numbers(broker, f"{name}-1", 15, 20)
    run()
    assert batches == {0: list(range(10)), 1: list(range(10, 20))}
    # As if the driver had died before it could commit, and the streams had grown meanwhile.
    (tmp_path / "commits" / "1").unlink()
    (tmp_path / "commits" / ".1.crc").unlink(missing_ok=True)
    del batches[1]
    publish_numbers(broker, f"{name}-0", 20, 25)
    publish_numbers(broker, f"{name}-1", 25, 30)
    run()
    # Before Spark 4.2 a run that finishes a micro-batch takes nothing up.
    run()
    assert batches == {0: list(range(10)), 1: list(range(10, 20)), 2: list(range(20, 30))}
