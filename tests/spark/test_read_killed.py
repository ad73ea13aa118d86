"""The driver is killed between every pair of steps and started again from its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream, publish_numbers
from tests.spark.query_process import KillableQuery
from tests.spark.spark_versions import SEVERAL_BATCHES, needs_spark

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    needs_spark("4.2", SEVERAL_BATCHES),
]


def test_nothing_is_lost_or_doubled_when_the_driver_dies_at_any_step(
    broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, name)
    publish_numbers(broker, name, 0, 5000)
    query = KillableQuery(
        tmp_path,
        uri=broker.uri,
        stream=name,
        startingOffsets="earliest",
        maxMessagesPerTrigger="700",
    )
    query.run("asked", 2)
    for batch, step in enumerate(("planned", "read", "written", "committed"), 1):
        query.run(step, batch)
    publish_numbers(broker, name, 5000, 5500)
    query.run("never", 0)
    rows = query.rows()
    assert sorted(offset for offset, _ in rows) == list(range(5500))
    assert all(int(body) == offset for offset, body in rows)
