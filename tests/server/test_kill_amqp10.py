"""A server that is killed while AMQP 1.0 clients send, receive and commit.

Some are clients of our own wire, whose acknowledgements the server settles when they are safe; others
are of python-qpid-proton, where that is installed.
"""

from __future__ import annotations

import contextlib
import random
from functools import partial
from pathlib import Path

import pytest

from penstock.wire.amqp10.performatives_generated import Accepted
from tests.server.durable_broker import DurableBroker, drain_flagged, durable_broker
from tests.server.killing import PATIENCE_SECONDS, TEST_SECONDS, play_round
from tests.server.wire_client import Gone, WireClient

pytestmark = [
    pytest.mark.timeout(TEST_SECONDS),
    # Proton's Python binding leaves its own sockets to the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ROUNDS = 8
SEED = 13
CREDIT = 20
ROLL_BACK_CHANCE = 0.2
BATCH_MAX = 4


class Ledger:
    """What clients know. Bodies are `publisher:number`."""

    def __init__(self) -> None:
        self.sent: dict[str, int] = {}
        self.accepted: set[bytes] = set()
        self.delivered: set[bytes] = set()
        # Acknowledged, and the server has said that it is done; or we cannot know.
        self.settled: set[bytes] = set()
        self.doubtful: set[bytes] = set()
        # Moved to another queue in a transaction that was committed, or that may have been.
        self.moved: set[bytes] = set()
        self.perhaps_moved: set[bytes] = set()
        self.faults: list[str] = []

    def promises(self) -> int:
        return len(self.accepted) + len(self.settled) + len(self.moved)

    def next_body(self, publisher: str) -> bytes:
        self.sent[publisher] = self.sent.get(publisher, 0) + 1
        return f"{publisher}:{self.sent[publisher]}".encode()

    def got(self, body: bytes, is_redelivered: bool) -> None:
        if body in self.delivered and not is_redelivered:
            self.faults.append(f"{body!r} was delivered before and is not flagged")
        if body in self.settled or body in self.moved:
            self.faults.append(f"{body!r} was acknowledged and is back")
        self.delivered.add(body)


def client(broker: DurableBroker, container: str) -> WireClient:
    return WireClient(broker.port, container, PATIENCE_SECONDS)


def send(broker: DurableBroker, ledger: Ledger, queue: str) -> None:
    publisher = f"wire to {queue}"
    with contextlib.suppress(Gone), client(broker, publisher) as opened:
        link = opened.sender(f"/queues/{queue}")
        while True:
            body = ledger.next_body(publisher)
            outcome = opened.send(link, body)
            assert isinstance(outcome, Accepted)
            ledger.accepted.add(body)


def receive(broker: DurableBroker, ledger: Ledger, seed: float) -> None:
    """Acknowledges about half of what it gets, and waits for each to be settled."""
    dice = random.Random(seed)
    with contextlib.suppress(Gone), client(broker, "receiver") as opened:
        link = opened.receiver("/queues/worked", CREDIT)
        while True:
            delivery = opened.receive(link)
            ledger.got(delivery.body, delivery.is_redelivered)
            if dice.random() < 0.5:
                ledger.doubtful.add(delivery.body)
                opened.accept(link, delivery)
                ledger.settled.add(delivery.body)
            # What is held stays unsettled, and takes of the credit no more.
            link.offer(CREDIT)


def move(broker: DurableBroker, ledger: Ledger, seed: float) -> None:
    """From one queue to another, a few at a time in one transaction."""
    dice = random.Random(seed)
    with contextlib.suppress(Gone), client(broker, "mover") as opened:
        coordinator = opened.coordinator()
        target = opened.sender("/queues/moved")
        source = opened.receiver("/queues/carried", CREDIT)
        while True:
            txn_id = opened.declare(coordinator)
            batch: set[bytes] = set()
            fails = dice.random() < ROLL_BACK_CHANCE
            for _ in range(dice.randint(1, BATCH_MAX)):
                delivery = opened.receive(source)
                ledger.got(delivery.body, delivery.is_redelivered)
                opened.post(target, txn_id, delivery.body)
                opened.retire(txn_id, delivery)
                batch.add(delivery.body)
            if not fails:
                ledger.perhaps_moved |= batch
            assert opened.discharge(coordinator, txn_id, fails=fails) == "accepted"
            if not fails:
                ledger.moved |= batch
            # What was rolled back is ours still, and stays with us.
            source.offer(CREDIT)


def bodies_in(broker: DurableBroker, queue: str) -> list[bytes]:
    found = drain_flagged(broker.channel(), queue)
    bodies = [body for body, _ in found]
    assert len(set(bodies)) == len(bodies), f"nothing is in {queue} twice"
    assert all(redelivered for _, redelivered in found), "somebody may have seen it"
    return bodies


def test_killed_again_and_again_it_keeps_what_amqp10_clients_were_told(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    ledger = Ledger()
    with durable_broker(tmp_path / "data") as broker:
        broker.start()
        channel = broker.channel()
        for name in "worked", "carried", "moved":
            channel.queue_declare(name, durable=True)
        for _ in range(ROUNDS):
            clients = [
                partial(send, broker, ledger, "worked"),
                partial(send, broker, ledger, "carried"),
                partial(receive, broker, ledger, dice.random()),
                partial(move, broker, ledger, dice.random()),
            ]
            play_round(broker, clients, ledger.promises, dice)
            broker.start()
        assert ledger.accepted and ledger.settled and ledger.moved
        assert not ledger.faults
        worked = set(bodies_in(broker, "worked"))
        carried = set(bodies_in(broker, "carried"))
        moved = set(bodies_in(broker, "moved"))
    assert ledger.settled.isdisjoint(worked), "what left stays gone"
    to_worked = {body for body in ledger.accepted if body.startswith(b"wire to worked")}
    assert to_worked - ledger.doubtful <= worked, "nothing accepted is lost"
    assert carried.isdisjoint(moved), "a transaction moves"
    assert ledger.moved <= moved <= ledger.perhaps_moved, "committed is there, and nothing else"
    to_carried = ledger.accepted - to_worked
    assert to_carried <= carried | moved, "nothing accepted is lost"


def proton_send(broker: DurableBroker, ledger: Ledger) -> None:
    proton = pytest.importorskip("proton")
    utils = pytest.importorskip("proton.utils")
    with contextlib.suppress(proton.ProtonException, OSError):
        connection = utils.BlockingConnection(
            f"amqp://guest:guest@127.0.0.1:{broker.port}",
            timeout=PATIENCE_SECONDS,
            allowed_mechs="PLAIN",
        )
        sender = connection.create_sender("/queues/worked")
        while True:
            body = ledger.next_body("proton")
            # Returns when it is accepted, and raises for any other outcome.
            sender.send(proton.Message(body=body, durable=True, first_acquirer=True, inferred=True))
            ledger.accepted.add(body)


def proton_receive(broker: DurableBroker, ledger: Ledger, seed: float) -> None:
    """Acknowledges about half of what it gets. What it says is heard before what it sends then."""
    proton = pytest.importorskip("proton")
    utils = pytest.importorskip("proton.utils")
    dice = random.Random(seed)
    with contextlib.suppress(proton.ProtonException, OSError):
        connection = utils.BlockingConnection(
            f"amqp://guest:guest@127.0.0.1:{broker.port}",
            timeout=PATIENCE_SECONDS,
            allowed_mechs="PLAIN",
        )
        receiver = connection.create_receiver("/queues/worked", credit=CREDIT)
        marks = connection.create_sender("/queues/marks")
        batch: set[bytes] = set()
        while True:
            message = receiver.receive()
            body = bytes(message.body)
            ledger.got(body, not message.first_acquirer)
            if dice.random() < 0.5:
                ledger.doubtful.add(body)
                batch.add(body)
                receiver.accept()
            else:
                receiver.release(delivered=False)
            if len(batch) >= BATCH_MAX:
                marks.send(proton.Message(body=b"mark", durable=True, inferred=True))
                ledger.settled |= batch
                batch = set()


def test_killed_again_and_again_it_keeps_what_proton_was_told(tmp_path: Path) -> None:
    pytest.importorskip("proton", reason="python-qpid-proton is not installed")
    dice = random.Random(SEED)
    ledger = Ledger()
    with durable_broker(tmp_path / "data") as broker:
        broker.start()
        channel = broker.channel()
        for name in "worked", "marks":
            channel.queue_declare(name, durable=True)
        for _ in range(ROUNDS):
            clients = [
                partial(proton_send, broker, ledger),
                partial(proton_receive, broker, ledger, dice.random()),
            ]
            play_round(broker, clients, ledger.promises, dice)
            broker.start()
        assert ledger.accepted and ledger.settled
        assert not ledger.faults
        worked = set(bodies_in(broker, "worked"))
    assert ledger.settled.isdisjoint(worked), "what left stays gone"
    assert ledger.accepted - ledger.doubtful <= worked, "nothing accepted is lost"
