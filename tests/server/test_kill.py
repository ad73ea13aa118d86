"""A server that is killed at random moments keeps every promise it made."""

import random
from functools import partial
from pathlib import Path

import pytest

from tests.server.durable_broker import PERSISTENT, DurableBroker, drain_flagged, durable_broker
from tests.server.killing import TEST_SECONDS, play_round, until_killed

pytestmark = pytest.mark.timeout(TEST_SECONDS)

ROUNDS = 20
SEED = 20
PUBLISHERS = 3


class Ledger:
    """What clients know. Bodies are `publisher:number`."""

    def __init__(self) -> None:
        self.sent: dict[int, int] = dict.fromkeys(range(PUBLISHERS), 0)
        self.confirmed: set[bytes] = set()
        self.delivered: set[bytes] = set()
        # Acknowledged, and the server has answered since.
        self.settled: set[bytes] = set()
        # Acknowledged, but who knows whether that arrived.
        self.doubtful: set[bytes] = set()
        # What a consumer noticed.
        self.faults: list[str] = []


def publish(broker: DurableBroker, ledger: Ledger, publisher: int) -> None:
    with until_killed(broker) as channel:
        channel.confirm_delivery()
        while True:
            ledger.sent[publisher] += 1
            body = b"%d:%d" % (publisher, ledger.sent[publisher])
            channel.basic_publish("amq.fanout", "", body, PERSISTENT)
            ledger.confirmed.add(body)


def consume(broker: DurableBroker, ledger: Ledger, seed: float) -> None:
    """Acknowledges about half of what it gets, in batches, and asks for an answer after each."""
    dice = random.Random(seed)
    with until_killed(broker) as channel:
        channel.basic_qos(prefetch_count=50)
        batch: set[bytes] = set()
        for method, _, body in channel.consume("worked", inactivity_timeout=1):
            if method is None:
                continue
            if body in ledger.delivered and not method.redelivered:
                ledger.faults.append(f"{body!r} was delivered before and is not flagged")
            if body in ledger.settled:
                ledger.faults.append(f"{body!r} was acknowledged and is back")
            ledger.delivered.add(body)
            if dice.random() < 0.5:
                ledger.doubtful.add(body)
                channel.basic_ack(method.delivery_tag)
                batch.add(body)
            if len(batch) >= 10:
                channel.queue_declare("worked", passive=True)
                ledger.settled |= batch
                batch = set()


def one_round(broker: DurableBroker, ledger: Ledger, dice: random.Random) -> None:
    clients = [partial(publish, broker, ledger, number) for number in range(PUBLISHERS)]
    clients.append(partial(consume, broker, ledger, dice.random()))
    play_round(broker, clients, lambda: len(ledger.confirmed) + len(ledger.settled), dice)


def check_queue(found: list[tuple[bytes, bool]], ledger: Ledger, needed: set[bytes]) -> None:
    bodies = [body for body, _ in found]
    assert len(set(bodies)) == len(bodies), "nothing twice"
    assert needed <= set(bodies), "nothing confirmed is lost"
    for publisher in range(PUBLISHERS):
        prefix = b"%d:" % publisher
        numbers = [int(body[len(prefix) :]) for body in bodies if body.startswith(prefix)]
        assert numbers == sorted(numbers), "order is kept"
        assert not numbers or numbers[-1] <= ledger.sent[publisher]
    assert all(redelivered for _, redelivered in found), "somebody may have seen it"


def test_killed_twenty_times_it_loses_nothing_and_brings_nothing_back(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    ledger = Ledger()
    with durable_broker(tmp_path / "data") as broker:
        broker.start()
        channel = broker.channel()
        for name in "worked", "kept":
            channel.queue_declare(name, durable=True)
            channel.queue_bind(name, "amq.fanout")
        for round_number in range(ROUNDS):
            one_round(broker, ledger, dice)
            if round_number % 5 == 4:
                broker.start()
                broker.kill()  # nothing happens, and it is killed again
            broker.start()
        assert len(ledger.confirmed) > ROUNDS
        assert ledger.settled
        assert not ledger.faults
        channel = broker.channel()
        worked = drain_flagged(channel, "worked")
        assert ledger.settled.isdisjoint(body for body, _ in worked), "what left stays gone"
        check_queue(worked, ledger, ledger.confirmed - ledger.doubtful)
        check_queue(drain_flagged(channel, "kept"), ledger, ledger.confirmed)
