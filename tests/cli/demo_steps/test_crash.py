"""The act in which the broker dies, and that its account tells the truth."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.demo_steps.broker import DemoBroker
from penstock.cli.demo_steps.crash import QUEUES, Crash, CrashOutcome, Moment, set_up
from penstock.client import blocking
from penstock.client.calls import consume
from penstock.client.errors import ClientError

MESSAGES = 4000
# What is missing is missing for good: nothing is waited for but the consumers' last batches.
DRAIN_SECONDS = 3.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DemoBroker]:
    with DemoBroker(tmp_path / "data") as process:
        process.start()
        yield process


def play(broker: DemoBroker, folder: Path) -> tuple[CrashOutcome, list[Moment]]:
    moments: list[Moment] = []
    crash = Crash(broker, folder / "clients", 7, MESSAGES, 40, DRAIN_SECONDS)
    return crash.play(moments.append), moments


def test_everything_confirmed_is_received_from_each_sink_although_the_broker_died(
    broker: DemoBroker, tmp_path: Path
) -> None:
    before = broker.pid, broker.address
    outcome, moments = play(broker, tmp_path)
    assert broker.pid != before[0]
    assert broker.address == before[1]
    assert outcome.published == outcome.confirmed == MESSAGES
    assert MESSAGES / 2 <= outcome.confirmed_at_kill < MESSAGES
    account = outcome.account
    assert (account.lost, account.duplicates_unflagged) == (0, 0)
    assert account.received == MESSAGES * 3
    assert outcome.received == account.received + account.duplicates_flagged
    assert 0 < outcome.restart_seconds <= outcome.recovery_seconds
    assert "the broker is killed" in [moment.phase for moment in moments]


def test_messages_that_somebody_took_away_are_missed(broker: DemoBroker, tmp_path: Path) -> None:
    """A thief shares one queue with its consumer until the broker is killed."""
    set_up(broker.amqp_uri)
    stolen: set[bytes] = set()
    connection = blocking.connect(broker.amqp_uri, name="thief")
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
    outcome, _ = play(broker, tmp_path)
    thief.join()
    assert stolen
    assert 0 < outcome.account.lost <= len(stolen)
    assert {queue for queue, _, _ in outcome.account.examples_lost} == {QUEUES[0]}
