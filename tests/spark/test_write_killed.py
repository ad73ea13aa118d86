"""The driver is killed around the commit of a micro-batch, the broker too, and all goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream, publish_numbers
from tests.spark.query_process import KillableQuery
from tests.spark.spark_versions import SEVERAL_BATCHES, needs_spark
from tests.spark.written import declare_target, numbers_in, sinks_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    needs_spark("4.2", SEVERAL_BATCHES),
]

SCRIPT = Path(__file__).with_name("killed_write.py")


def test_nothing_is_published_twice_or_lost_when_the_driver_dies_around_a_commit(
    broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_target(broker, name)
    declare_stream(broker, f"{name}-in")
    publish_numbers(broker, f"{name}-in", 0, 3000)
    query = KillableQuery(
        tmp_path,
        SCRIPT,
        uri=broker.uri,
        stream=f"{name}-in",
        startingOffsets="earliest",
        maxMessagesPerTrigger="700",
        target=name,
    )
    query.run("staging", 1)
    [sink] = sinks_of(broker)
    assert sink["batch"] == 0
    # What a dead task has staged stays until the next commit.
    left = sink["messages"]
    query.run("staged", 1)
    [sink] = sinks_of(broker)
    assert sink["batch"] == 0
    assert sink["messages"] >= left + 700
    query.run("published", 1)
    broker.kill()
    broker.start()
    [sink] = sinks_of(broker)
    assert (sink["batch"], sink["messages"]) == (1, 0)
    query.run("committed", 2)
    query.run("published", 3)
    query.run("never", 0)
    assert numbers_in(broker, name) == list(range(3000))
