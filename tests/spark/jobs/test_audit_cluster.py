"""The audit over the ledgers of a real cluster whose root was killed, on real Spark."""

from __future__ import annotations

import shutil
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.cli.demo_steps.cluster import DemoCluster
from penstock.client import blocking
from penstock.client.calls import consume, declare_queue, limit_prefetch
from penstock.spark.jobs.audit import audit
from penstock.spark.jobs.ledger_reading import open_ledgers
from penstock.wire.amqp091.content import BasicProperties
from tests.spark.jobs.edited_ledger import without_inherited

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.jobs.verdict import Audit, QueueVerdict

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SECONDS_MAX = 60.0
PUBLISHED = 3000
CONSUMED_FIRST = 1000
LEFT = 500


def publish(cluster: DemoCluster, queue: str, count: int) -> None:
    """All of them are confirmed."""
    with blocking.connect(cluster.amqp_uri) as connection:
        channel = connection.channel()
        channel.call(declare_queue(queue, durable=True))
        channel.select_confirms()
        persistent = BasicProperties(delivery_mode=2)
        channel.publish_batch("", [(queue, b"%d" % n) for n in range(count)], persistent)
        channel.wait_for_confirms()


def drain(cluster: DemoCluster, queue: str, count: int) -> None:
    with blocking.connect(cluster.amqp_uri) as connection:
        channel = connection.channel()
        channel.call(limit_prefetch(100))
        channel.call(consume(queue))
        for delivered in islice(channel.messages(SECONDS_MAX), count):
            channel.ack(delivered)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[DemoCluster, tuple[str, str]]:
    """A cluster that has lost its root and got it back as a backup; and the names of both roots."""
    cluster = DemoCluster(tmp_path_factory.mktemp("servers"))
    with cluster:
        cluster.start()
        publish(cluster, "orders", PUBLISHED)
        publish(cluster, "left", LEFT)
        drain(cluster, "orders", CONSUMED_FIRST)
        first = cluster.kill_root()
        second = cluster.await_root()
        drain(cluster, "orders", PUBLISHED - CONSUMED_FIRST)
        cluster.servers[first].start()
        publish(cluster, "left", LEFT)
    return cluster, (first, second)


def audited(spark: SparkSession, *folders: Path) -> Audit:
    return audit(open_ledgers(spark, folders))


def by_name(found: Audit) -> dict[str, QueueVerdict]:
    assert len({verdict.queue for verdict in found.verdicts}) == len(found.verdicts)
    return {verdict.queue: verdict for verdict in found.verdicts}


def test_the_ledgers_of_all_servers_balance_over_a_failover(
    spark: SparkSession, killed: tuple[DemoCluster, tuple[str, str]]
) -> None:
    found = audited(spark, *killed[0].data)
    queues = by_name(found)
    orders, left = queues["orders"], queues["left"]
    assert (orders.enqueued, orders.acknowledged) == (PUBLISHED, PUBLISHED)
    assert (orders.still_queued, orders.unacknowledged) == (0, 0)
    assert (left.enqueued, left.still_queued) == (2 * LEFT, 2 * LEFT)
    assert (found.total("lost"), found.total("phantom"), found.total("not_judged")) == (0, 0, 0)


def test_a_message_that_the_next_root_does_not_have_is_lost(
    spark: SparkSession, killed: tuple[DemoCluster, tuple[str, str]], tmp_path: Path
) -> None:
    cluster, (first, second) = killed
    folders = [shutil.copytree(data, tmp_path / data.name) for data in cluster.data]
    for folder in folders:
        # A third server became the root when the second one was stopped.
        without_inherited(folder, "left", 3)
    found = audited(spark, *folders)
    left = by_name(found)["left"]
    assert (left.lost, left.still_queued) == (3, 2 * LEFT - 3)
    assert by_name(found)["orders"].lost == 0
    (offence,) = found.offences
    assert (offence.server, offence.queue, offence.count) == (first, "left", 3)
    assert f"not at the next root {second}" in str(offence)
