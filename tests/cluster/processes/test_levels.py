"""Levels of replication, counts of deliveries and auto-delete queues over the SIGKILL of a root."""

import contextlib

import pika
import pytest

from tests.cluster.processes.servers import ClusterServer, RunningCluster, says
from tests.cluster.processes.traffic import PERSISTENT, TROUBLES, connected, parameters

pytestmark = pytest.mark.timeout(900)

LEVELS = ("none", "configuration", "all")


class Declared:
    """What a test has declared and done; done again if its root did not stay."""

    def __init__(self) -> None:
        # Open until the root dies, because of its consumer.
        self._connections: list[pika.BlockingConnection] = []

    def end(self) -> None:
        for connection in self._connections:
            with contextlib.suppress(*TROUBLES):
                connection.close()

    def __call__(self, root: ClusterServer) -> None:
        connection = pika.BlockingConnection(parameters(root))
        self._connections.append(connection)
        channel = connection.channel()
        channel.confirm_delivery()
        for level in LEVELS:
            channel.queue_declare(level, durable=True, arguments={"x-replicate": level})
            channel.basic_publish("", level, b"one", PERSISTENT)
        for name in ("used", "unused"):
            channel.queue_declare(name, durable=True, auto_delete=True)
        channel.basic_consume("used", lambda *_: None)
        arguments = {"x-queue-type": "quorum", "x-delivery-limit": 2}
        channel.queue_declare("counted", durable=True, arguments=arguments)
        channel.queue_purge("counted")
        channel.basic_publish("", "counted", b"returned", PERSISTENT)
        for _ in range(2):
            got, _, _ = channel.basic_get("counted")
            assert got is not None
            channel.basic_nack(got.delivery_tag)
        # The answer comes after the nack was read.
        assert channel.queue_declare("counted", passive=True).method.message_count == 1


def test_levels_counts_and_used_queues_after_the_root_was_killed(three: RunningCluster) -> None:
    declared = Declared()
    three.start().while_root_stays(declared)
    three.whole_root().kill()
    declared.end()
    connection = connected(three)
    channel = connection.channel()
    for name in ("configuration", "all", "unused", "counted"):
        channel.queue_declare(name, passive=True)
    assert channel.basic_get("configuration") == (None, None, None)
    assert channel.basic_get("all", auto_ack=True)[2] == b"one"
    got, properties, body = channel.basic_get("counted")
    assert got is not None and properties is not None
    assert (body, got.redelivered) == (b"returned", True)
    assert (properties.headers or {})["x-delivery-count"] == 2
    # The limit is reached, so that it is gone.
    channel.basic_nack(got.delivery_tag)
    assert channel.basic_get("counted") == (None, None, None)
    for name in ("none", "used"):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no queue"):
            connection.channel().queue_declare(name, passive=True)
    connection.close()


def test_a_member_with_another_default_level_is_refused(three: RunningCluster) -> None:
    three.start().whole_root()
    other = three.backups()[0]
    other.kill()
    other.environment["PENSTOCK_CLUSTER_REPLICATE"] = "none"
    other.start()
    says(three, other, "peer link closed", "differs", "replicate")
    three.await_dropped(other)
    other.kill()
    other.environment.clear()
    other.start()
    three.whole_root()
