"""A server that is killed while clients of AMQP 0-9-1 commit: a transaction is whole or nothing."""

import random
from functools import partial
from pathlib import Path

import pytest

from tests.server.durable_broker import PERSISTENT, DurableBroker, drain_flagged, durable_broker
from tests.server.killing import TEST_SECONDS, play_round, until_killed

pytestmark = pytest.mark.timeout(TEST_SECONDS)

ROUNDS = 8
SEED = 11
PUBLISHERS = 2
# Messages of one transaction; each goes to two queues.
SIZE = 3
ROLL_BACK_CHANCE = 0.2


class Ledger:
    """What clients know. Bodies are `publisher:transaction:number`."""

    def __init__(self) -> None:
        self.begun: dict[int, int] = dict.fromkeys(range(PUBLISHERS), 0)
        self.committed: set[bytes] = set()
        self.rolled_back: set[bytes] = set()
        # Acknowledged in a transaction that was committed, or whose commit was asked for.
        self.settled: set[bytes] = set()
        self.doubtful: set[bytes] = set()
        self.delivered: set[bytes] = set()
        self.faults: list[str] = []

    def promises(self) -> int:
        return len(self.committed) + len(self.settled)


def publish(broker: DurableBroker, ledger: Ledger, publisher: int, seed: float) -> None:
    dice = random.Random(seed)
    with until_killed(broker) as channel:
        channel.tx_select()
        while True:
            ledger.begun[publisher] += 1
            name = b"%d:%d" % (publisher, ledger.begun[publisher])
            for number in range(SIZE):
                channel.basic_publish("amq.fanout", "", b"%s:%d" % (name, number), PERSISTENT)
            if dice.random() < ROLL_BACK_CHANCE:
                ledger.rolled_back.add(name)
                channel.tx_rollback()
            else:
                channel.tx_commit()
                ledger.committed.add(name)


def consume(broker: DurableBroker, ledger: Ledger, seed: float) -> None:
    """Acknowledges in transactions; rolls some back and acknowledges the same again."""
    dice = random.Random(seed)
    with until_killed(broker) as channel:
        channel.basic_qos(prefetch_count=20)
        channel.tx_select()
        batch: dict[int, bytes] = {}
        for method, _, body in channel.consume("worked", inactivity_timeout=1):
            if method is None:
                continue
            if body in ledger.delivered and not method.redelivered:
                ledger.faults.append(f"{body!r} was delivered before and is not flagged")
            if body in ledger.settled:
                ledger.faults.append(f"{body!r} was acknowledged for good and is back")
            ledger.delivered.add(body)
            batch[method.delivery_tag] = body
            if len(batch) < dice.randint(1, 10):
                continue
            for tag in batch:
                channel.basic_ack(tag)
            if dice.random() < ROLL_BACK_CHANCE:
                channel.tx_rollback()
                continue
            ledger.doubtful |= set(batch.values())
            channel.tx_commit()
            ledger.settled |= set(batch.values())
            batch = {}


def check_whole(bodies: list[bytes], ledger: Ledger) -> None:
    """Of a queue that nobody consumes from."""
    assert len(set(bodies)) == len(bodies), "nothing twice"
    found: dict[bytes, list[int]] = {}
    for body in bodies:
        name, _, number = body.rpartition(b":")
        found.setdefault(name, []).append(int(number))
    for name, numbers in found.items():
        assert numbers == list(range(SIZE)), f"transaction {name!r} is torn"
    assert ledger.committed <= set(found), "nothing committed is lost"
    assert ledger.rolled_back.isdisjoint(found), "what was rolled back never happened"


def test_killed_again_and_again_it_keeps_transactions_whole(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    ledger = Ledger()
    with durable_broker(tmp_path / "data") as broker:
        broker.start()
        channel = broker.channel()
        for name in "worked", "kept":
            channel.queue_declare(name, durable=True)
            channel.queue_bind(name, "amq.fanout")
        for _ in range(ROUNDS):
            clients = [
                partial(publish, broker, ledger, number, dice.random())
                for number in range(PUBLISHERS)
            ]
            clients.append(partial(consume, broker, ledger, dice.random()))
            play_round(broker, clients, ledger.promises, dice)
            broker.start()
        assert ledger.committed and ledger.rolled_back and ledger.settled
        assert not ledger.faults
        channel = broker.channel()
        check_whole([body for body, _ in drain_flagged(channel, "kept")], ledger)
        worked = drain_flagged(channel, "worked")
        bodies = {body for body, _ in worked}
        assert len(bodies) == len(worked), "nothing twice"
        assert ledger.settled.isdisjoint(bodies), "what left stays gone"
        needed = {b"%s:%d" % (name, number) for name in ledger.committed for number in range(SIZE)}
        assert needed - ledger.doubtful <= bodies, "nothing committed is lost"
        assert all(redelivered for _, redelivered in worked), "somebody may have seen it"
