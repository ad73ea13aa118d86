"""Executors die in the middle of reading and of writing: their tasks are tried again elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream, publish
from tests.spark.query_process import KillableQuery
from tests.spark.spark_versions import SEVERAL_BATCHES, needs_spark
from tests.spark.written import declare_target, drained

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    needs_spark("4.2", SEVERAL_BATCHES),
]

SCRIPT = Path(__file__).with_name("killed_executors.py")
# Of rows that a task has read and passed on, some are then staged and some are not.
BODY_BYTES = 10_000
COUNT = 2_000


def test_nothing_is_lost_or_doubled_when_executors_die(
    broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_target(broker, name)
    declare_stream(broker, f"{name}-in")
    bodies = [b"%d" % number + bytes(BODY_BYTES) for number in range(COUNT)]
    publish(broker, "", [(f"{name}-in", body) for body in bodies])
    query = KillableQuery(
        tmp_path,
        SCRIPT,
        uri=broker.uri,
        stream=f"{name}-in",
        startingOffsets="earliest",
        maxMessagesPerTrigger=str(COUNT // 2),
        minPartitions="2",
        target=name,
    )
    query.run("never", 0)
    assert {mark.name for mark in (tmp_path / "out").iterdir()} == {"reading", "writing"}
    found = [int(message.body.rstrip(b"\0")) for message in drained(broker, name)]
    assert sorted(found) == list(range(COUNT))
