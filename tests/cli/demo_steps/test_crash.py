"""The act in which the root dies, and that its account tells the truth."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.demo_steps.cluster import DemoCluster
from penstock.cli.demo_steps.crash import QUEUES, Crash, CrashOutcome, Moment, set_up
from penstock.client import blocking
from penstock.client.calls import consume
from penstock.client.errors import ClientError

MESSAGES = 4000
# What is missing is missing for good: nothing is waited for but the consumers' last batches.
DRAIN_SECONDS = 3.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DemoCluster]:
    with DemoCluster(tmp_path / "servers") as servers:
        servers.start()
        yield servers


def play(cluster: DemoCluster, folder: Path) -> tuple[CrashOutcome, list[Moment]]:
    moments: list[Moment] = []
    crash = Crash(cluster, folder / "clients", 7, MESSAGES, 40, DRAIN_SECONDS)
    return crash.play(moments.append), moments


def test_everything_confirmed_is_received_from_each_sink_although_the_root_died(
    cluster: DemoCluster, tmp_path: Path
) -> None:
    pids = {name: server.pid for name, server in cluster.servers.items()}
    outcome, moments = play(cluster, tmp_path)
    killed, root = outcome.roots
    assert killed != root
    # The killed one runs again.
    assert [name for name in pids if cluster.servers[name].pid != pids[name]] == [killed]
    assert outcome.published == outcome.confirmed == MESSAGES
    assert MESSAGES / 2 <= outcome.confirmed_at_kill < MESSAGES
    account = outcome.account
    assert (account.lost, account.duplicates_unflagged) == (0, 0)
    assert account.received == MESSAGES * 3
    assert outcome.received == account.received + account.duplicates_flagged
    assert 0 < outcome.failover_seconds <= outcome.recovery_seconds
    assert "the root is killed" in [moment.phase for moment in moments]


def test_messages_that_somebody_took_away_are_missed(cluster: DemoCluster, tmp_path: Path) -> None:
    """A thief shares one queue with its consumer until the root is killed."""
    set_up(cluster.amqp_uri)
    stolen: set[bytes] = set()
    connection = blocking.connect(cluster.amqp_uri, name="thief")
    channel = connection.channel()
    channel.call(consume(QUEUES[0], no_ack=True))

    def steal() -> None:
        try:
            for message in channel.messages():
                # Publisher and sequence.
                stolen.add(message.body[4:14])
        except ClientError:
            connection.close()

    thief = threading.Thread(target=steal, daemon=True)
    thief.start()
    outcome, _ = play(cluster, tmp_path)
    thief.join()
    assert stolen
    assert 0 < outcome.account.lost <= len(stolen)
    assert {queue for queue, _, _ in outcome.account.examples_lost} == {QUEUES[0]}
