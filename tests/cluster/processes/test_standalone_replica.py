"""A server that is not a member keeps a replica of a queue of a cluster, over restarts of both."""

import json
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.cluster.processes.servers import ClusterServer, RunningCluster, free_ports, penstock
from tests.cluster.processes.traffic import (
    declare,
    drain,
    publish,
    take_all,
    with_channel,
)

pytestmark = pytest.mark.timeout(900)


class ReplicaServer(ClusterServer):
    """On its own, with a port that stays the same."""

    def launch(self, *options: str) -> None:
        super().launch(f"--port={self.port}", *options)

    def command(self, *words: str) -> str:
        code, text = penstock(*words, "--server", self.http)
        assert code == 0, text
        return text

    def row(self) -> dict[str, object]:
        (row,) = json.loads(self.command("ha", "replicas", "--json"))
        assert isinstance(row, dict)
        return row


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[ReplicaServer]:
    server = ReplicaServer("beside", tmp_path / "beside", *free_ports(2))
    try:
        yield server
    finally:
        server.kill()


def test_a_replica_follows_a_cluster_whose_root_is_killed(
    three: RunningCluster, beside: ReplicaServer
) -> None:
    declare(three.start(), "jobs")
    publish(three, b"1", b"2", b"3", queue="jobs")
    beside.start()
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in three.servers)
    uri = f"amqp://guest:guest@{hosts}/"
    beside.command("ha", "replicate", "jobs", "--from", uri)
    await_equal(three, beside)
    killed = three.whole_root()
    killed.kill()
    publish(three, b"4", queue="jobs")
    await_equal(three, beside)
    beside.kill()
    publish(three, b"5", queue="jobs")
    killed.start()
    beside.start()
    await_equal(three, beside)
    # It had the others, so it has fetched no more than what is new.
    assert beside.row()["fetched_messages"] in {1, 2}
    assert beside.row()["source"] == f"queue 'jobs' at amqp://{hosts}/"
    # What leaves the source leaves the replica; then it is released, and used.
    with_channel(three, lambda channel: channel.basic_get("jobs", auto_ack=True) and None)
    await_equal(three, beside)
    assert "is released" in beside.command("ha", "stop", "jobs")
    found = taken_from(beside)
    assert all(is_redelivered for _, is_redelivered in found)
    assert [body for body, _ in found] == [body for body, _ in drain(three, "jobs")]


def await_equal(cluster: RunningCluster, beside: ReplicaServer) -> None:
    """A publish that was sent again, because the root changed, counts twice on both sides."""

    def find() -> bool | None:
        counts: list[int] = []

        def count(channel: BlockingChannel) -> None:
            counts.append(channel.queue_declare("jobs", passive=True).method.message_count)

        with_channel(cluster, count)
        return beside.row()["messages"] == counts[0] or None

    cluster.until("the replica has what the source has", find)


def taken_from(server: ReplicaServer) -> list[tuple[bytes, bool]]:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", server.port)) as connection:
        return take_all(connection.channel(), "jobs")
