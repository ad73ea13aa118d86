"""Transactions that are not discharged: what ends them, their limits, and requests that are wrong."""

from __future__ import annotations

import pytest

from penstock.broker.timers import Timers
from penstock.dialects.amqp10.transactions.transaction import (
    IDLE_MS_MAX,
    OCTETS_MAX,
    TRANSACTIONS_MAX,
    WORK_MAX,
    Transaction,
    Transactions,
    Work,
)
from penstock.wire.amqp10.performatives_generated import (
    Accepted,
    AmqpValue,
    Data,
    Declare,
    Discharge,
    Source,
    TransactionalState,
    Transfer,
)
from penstock.wire.amqp10.sending import SentDelivery
from tests.dialects.amqp10.doubles import (
    House,
    value_body,
)
from tests.dialects.amqp10.transactions.transaction_doubles import (
    Controller,
    Scene,
    bodies,
    post,
    retire,
    said,
)


@pytest.fixture
def scene() -> Scene:
    return Scene(House())


@pytest.mark.parametrize("closed", [True, False])
def test_a_link_to_the_coordinator_that_ends_rolls_back(scene: Scene, closed: bool) -> None:
    receiver = scene.receiver()
    scene.sender.send(b"in")
    txn = scene.controller.declare()
    post(scene.sender, txn, b"one")
    retire(receiver, txn, receiver.got[0])
    scene.peer.wire.detach(scene.session, scene.controller.link, None, closed)
    scene.house.settle()
    assert (scene.queue.published_total, scene.queue.unacked_count) == (1, 1)
    receiver.settle(receiver.got[0])
    assert scene.queue.unacked_count == 0
    post(scene.sender, txn, b"late")
    scene.house.settle()
    assert scene.peer.link_faults[-1][1] == "amqp:transaction:unknown-id"


@pytest.mark.parametrize("settled", [False, True])
def test_a_session_that_ends_rolls_back(scene: Scene, settled: bool) -> None:
    receiver = scene.receiver()
    scene.sender.send(b"in")
    txn = scene.controller.declare()
    post(scene.sender, txn, b"one")
    retire(receiver, txn, receiver.got[0], settled=settled)
    scene.peer.wire.end_session(scene.session, None)
    scene.house.settle()
    assert (scene.queue.unacked_count, bodies(scene.queue)) == (0, [b"in"])


@pytest.mark.parametrize("settled", [False, True])
def test_a_connection_that_is_lost_rolls_back(scene: Scene, settled: bool) -> None:
    other = scene.peer.begin()
    receiver = scene.peer.receiver(other, "/queues/q")
    scene.sender.send(b"in")
    txn = scene.controller.declare()
    post(scene.sender, txn, b"one")
    retire(receiver, txn, receiver.got[0], settled=settled)
    scene.peer.lose()
    assert (scene.queue.unacked_count, bodies(scene.queue)) == (0, [b"in"])


def test_a_link_that_outlives_its_connection_keeps_what_was_rolled_back(scene: Scene) -> None:
    source = Source("/queues/q", expiry_policy="never")
    receiver = scene.peer.receiver(scene.session, None, source=source)
    scene.sender.send(b"in")
    # Of a session that ends later.
    controller = Controller(scene.peer, scene.peer.begin(), "other")
    retire(receiver, controller.declare(), receiver.got[0])
    tag = receiver.got[0].tag
    scene.peer.lose()
    assert (scene.queue.unacked_count, scene.queue.message_count) == (1, 0)
    peer = scene.house.connect()
    again = peer.receiver(peer.begin(), None, source=source, unsettled={tag: None})
    assert [(delivery.tag, delivery.resumed) for delivery in again.got] == [(tag, True)]
    again.settle(again.got[0])
    assert scene.queue.unacked_count == 0


def test_a_transaction_that_is_forgotten_is_rolled_back(scene: Scene) -> None:
    receiver = scene.receiver(credit=1)
    scene.sender.send(b"in")
    txn = scene.controller.declare()
    scene.house.pass_time(IDLE_MS_MAX - 1)
    # Whatever happens in it begins the time anew.
    retire(receiver, txn, receiver.got[0], settled=True)
    scene.house.pass_time(IDLE_MS_MAX - 1)
    assert (scene.queue.unacked_count, scene.queue.message_count) == (1, 0)
    scene.house.pass_time(1)
    assert (scene.queue.unacked_count, scene.queue.message_count) == (0, 1)
    (tag,) = post(scene.sender, txn, b"late")
    scene.house.settle()
    state = scene.sender.listener.outcomes[tag]
    assert isinstance(state, TransactionalState)
    assert said(state.outcome) == "amqp:transaction:timeout"
    assert scene.controller.commit(txn) == "amqp:transaction:timeout"


def test_a_discharged_transaction_does_not_time_out(scene: Scene) -> None:
    txn = scene.controller.declare()
    post(scene.sender, txn, b"one")
    scene.controller.commit(txn)
    scene.house.pass_time(IDLE_MS_MAX)
    assert scene.queue.message_count == 1


# Limits.


def test_there_is_a_limit_to_transactions(scene: Scene) -> None:
    declared = [scene.controller.declare() for _ in range(TRANSACTIONS_MAX)]
    assert said(scene.controller.ask(Declare())) == "amqp:resource-limit-exceeded"
    scene.controller.rollback(declared[0])
    scene.controller.declare()


class Weight(Work):
    """Does nothing, and counts how often that was undone."""

    def __init__(self, octets: int) -> None:
        super().__init__(octets)
        self.undone = 0

    def undo(self, now: int) -> None:
        self.undone += 1


def failure(transaction: Transaction) -> str:
    error = transaction.error
    return "" if error is None else f"{error.condition} {error.description}"


def test_there_is_a_limit_to_what_a_transaction_does() -> None:
    transactions = Transactions(Timers())
    transaction = transactions.declare(1)
    works = [Weight(1) for _ in range(WORK_MAX + 1)]
    for work in works[:-1]:
        transaction.add(work, 1)
    assert failure(transaction) == ""
    transaction.add(works[-1], 1)
    assert failure(transaction).startswith(f"amqp:transaction:rollback more than {WORK_MAX}")
    assert {work.undone for work in works} == {1}
    assert transactions.octets == 0


def test_there_is_a_limit_to_the_octets_of_all_transactions() -> None:
    transactions = Transactions(Timers())
    first, second = transactions.declare(1), transactions.declare(1)
    first.add(Weight(OCTETS_MAX - 1), 1)
    second.add(Weight(1), 1)
    assert failure(second) == ""
    second.add(Weight(1), 1)
    assert failure(first) == ""
    assert failure(second).startswith(f"amqp:transaction:rollback more than {OCTETS_MAX}")
    assert transactions.octets == OCTETS_MAX - 1
    first.rollback(1)
    assert transactions.octets == 0


# Requests that are wrong.


def test_distributed_transactions_are_refused(scene: Scene) -> None:
    assert said(scene.controller.ask(Declare(b"global"))) == "amqp:not-implemented"


def test_a_client_that_does_not_know_rejected_is_detached(scene: Scene) -> None:
    controller = Controller(scene.peer, scene.session, "picky", ["amqp:accepted:list"])
    controller.ask(Discharge(b"nobody"))
    assert scene.peer.link_faults == [("picky", "amqp:transaction:unknown-id", True)]


@pytest.mark.parametrize(
    ("payload", "condition"),
    [
        (value_body("declare"), "amqp:not-allowed"),
        (AmqpValue(None).encode() + b"\x00", "amqp:decode-error"),
        (b"\x00\x53\x77" + Accepted().encode(), "amqp:not-allowed"),
        (b"\x00\x53\x77\x00\x53\x32\x45", "amqp:decode-error"),
    ],
)
def test_other_messages_end_the_link(scene: Scene, payload: bytes, condition: str) -> None:
    scene.controller.link.send(SentDelivery(), b"", payload)
    scene.house.settle()
    assert scene.peer.link_faults == [("coordinator", condition, True)]


def test_a_settled_request_ends_the_link(scene: Scene) -> None:
    scene.controller.link.send_settled(b"", b"\x00\x53\x77" + Declare().encode())
    scene.house.settle()
    assert scene.peer.link_faults == [("coordinator", "amqp:not-allowed", True)]


def test_a_discharge_in_the_middle_of_a_delivery_rolls_back_and_ends_the_link(
    scene: Scene,
) -> None:
    txn = scene.controller.declare()
    post(scene.sender, txn, b"one")
    scene.house.settle()
    half = Transfer(
        handle=scene.sender.link.handle,
        delivery_id=scene.session.next_delivery(),
        delivery_tag=b"half",
        more=True,
        state=TransactionalState(txn),
    )
    scene.sender.link._write(half, Data(b"x").encode())
    scene.controller.ask(Discharge(txn))
    assert scene.peer.link_faults == [("coordinator", "amqp:transaction:rollback", True)]
    assert scene.queue.message_count == 0


def test_a_malformed_message_keeps_its_transaction_from_being_committed(scene: Scene) -> None:
    txn = scene.controller.declare()
    post(scene.sender, txn, b"one")
    transfer = Transfer(delivery_tag=b"t", settled=True, state=TransactionalState(txn))
    scene.sender.link.send_as(transfer, b"\x00\x53")
    scene.house.settle()
    assert scene.controller.commit(txn) == "amqp:transaction:rollback"
    assert scene.queue.message_count == 0
