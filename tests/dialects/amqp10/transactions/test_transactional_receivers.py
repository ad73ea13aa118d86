"""Outcomes of receivers in transactions, and messages that are acquired in them."""

from __future__ import annotations

import pytest

from penstock.broker.topology import DeleteQueue
from penstock.wire.amqp10.performatives_generated import (
    Discharge,
    Flow,
    Modified,
    Rejected,
    Released,
    Source,
    TransactionalState,
)
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED
from tests.dialects.amqp10.doubles import (
    House,
    KeepingReceiver,
)
from tests.dialects.amqp10.transactions.transaction_doubles import (
    Scene,
    bodies,
    post,
    retire,
)


@pytest.fixture
def scene() -> Scene:
    return Scene(House())


@pytest.mark.parametrize("settled", [False, True])
def test_an_outcome_takes_effect_with_the_commit(scene: Scene, settled: bool) -> None:
    receiver = scene.receiver()
    scene.sender.send(b"one")
    txn = scene.controller.declare()
    retire(receiver, txn, receiver.got[0], settled=settled)
    assert scene.queue.unacked_count == 1
    assert scene.controller.commit(txn) == "accepted"
    assert scene.queue.unacked_count == 0
    assert scene.queue.acknowledged_total == 1
    # We settle what the receiver has not.
    assert len(receiver.listener.settled_tags) == (0 if settled else 1)


def test_after_a_rollback_the_receiver_still_has_the_delivery(scene: Scene) -> None:
    receiver = scene.receiver()
    scene.sender.send(b"one")
    txn = scene.controller.declare()
    retire(receiver, txn, receiver.got[0])
    assert scene.controller.rollback(txn) == "accepted"
    assert (scene.queue.unacked_count, scene.queue.message_count) == (1, 0)
    txn = scene.controller.declare()
    retire(receiver, txn, receiver.got[0], Rejected())
    assert scene.controller.commit(txn) == "accepted"
    assert (scene.queue.unacked_count, scene.queue.message_count) == (0, 0)


def test_after_a_rollback_what_the_receiver_has_settled_comes_again_as_failed(
    scene: Scene,
) -> None:
    receiver = scene.receiver(credit=1)
    scene.sender.send(b"one")
    txn = scene.controller.declare()
    retire(receiver, txn, receiver.got[0], settled=True)
    assert scene.controller.rollback(txn) == "accepted"
    assert (scene.queue.unacked_count, scene.queue.message_count) == (0, 1)
    assert scene.queue.browse(1)[0].delivery_count == 1


def test_after_a_rollback_a_settled_delivery_has_the_default_outcome(scene: Scene) -> None:
    source = Source("/queues/q", default_outcome=Modified(undeliverable_here=True))
    receiver = scene.receiver(source=source)
    scene.sender.send(b"one")
    txn = scene.controller.declare()
    retire(receiver, txn, receiver.got[0], settled=True)
    scene.controller.rollback(txn)
    assert (scene.queue.unacked_count, scene.queue.message_count) == (0, 0)


@pytest.mark.parametrize("commits", [True, False])
def test_a_delivery_that_is_settled_later_keeps_its_outcome_in_the_transaction(
    scene: Scene, commits: bool
) -> None:
    receiver = scene.receiver(credit=1)
    scene.sender.send(b"one")
    txn = scene.controller.declare()
    retire(receiver, txn, receiver.got[0])
    receiver.settle(receiver.got[0], None)
    assert scene.queue.unacked_count == 1
    assert scene.controller.ask(Discharge(txn, not commits)) is not None
    assert (scene.queue.unacked_count, scene.queue.message_count) == (0, 0 if commits else 1)


def test_an_outcome_may_be_changed_before_the_commit(scene: Scene) -> None:
    receiver = scene.receiver(credit=1)
    scene.sender.send(b"one")
    txn = scene.controller.declare()
    retire(receiver, txn, receiver.got[0])
    retire(receiver, txn, receiver.got[0], Released())
    assert scene.controller.commit(txn) == "accepted"
    assert (scene.queue.acknowledged_total, scene.queue.message_count) == (0, 1)


def test_an_outcome_outside_of_the_transaction_takes_the_delivery_out_of_it(scene: Scene) -> None:
    receiver = scene.receiver(credit=3)
    scene.sender.send(b"one", b"two", b"three")
    txn = scene.controller.declare()
    for delivery in receiver.got:
        retire(receiver, txn, delivery)
    receiver.settle(receiver.got[0])
    receiver.settle(receiver.got[1], Released())
    assert (scene.queue.unacked_count, scene.queue.message_count) == (1, 1)
    assert scene.controller.commit(txn) == "accepted"
    assert (scene.queue.unacked_count, scene.queue.acknowledged_total) == (0, 2)


def test_two_transactions_that_decide_about_one_delivery_fail_both(scene: Scene) -> None:
    receiver = scene.receiver(credit=1)
    scene.sender.send(b"one")
    first, second = scene.controller.declare(), scene.controller.declare()
    retire(receiver, first, receiver.got[0])
    retire(receiver, second, receiver.got[0], settled=True)
    assert scene.queue.message_count == 1
    assert scene.controller.commit(first) == "amqp:transaction:rollback"
    assert scene.controller.commit(second) == "amqp:transaction:rollback"


def test_a_range_of_deliveries_is_settled_with_one_disposition(scene: Scene) -> None:
    receiver = scene.receiver()
    scene.sender.send(*[b"%d" % number for number in range(50)])
    txn = scene.controller.declare()
    state = TransactionalState(txn, OUTCOME_ACCEPTED)
    receiver.session.say_state(receiver.got[0].id, receiver.got[-1].id, state)
    scene.house.settle()
    scene.controller.put(Discharge(txn))
    scene.peer.connection.received(scene.peer.said(), scene.house.now)
    scene.house.node.flush(scene.house.now)
    assert scene.peer.transport.written.count(b"\x00\x53\x15") == 2
    scene.house.settle()
    assert len(receiver.listener.settled_tags) == 50
    assert scene.queue.unacked_count == 0


def test_a_receiver_that_detaches_leaves_its_outcomes_in_the_transaction(scene: Scene) -> None:
    receiver = scene.receiver()
    scene.sender.send(b"one", b"two")
    committed, rolled_back = scene.controller.declare(), scene.controller.declare()
    retire(receiver, committed, receiver.got[0])
    retire(receiver, rolled_back, receiver.got[1])
    receiver.detach()
    assert (scene.queue.unacked_count, scene.queue.message_count) == (2, 0)
    found = scene.house.node.unsettled()
    assert sorted(entry.position for _, entry in found) == [1, 2]
    assert scene.controller.commit(committed) == "accepted"
    assert scene.controller.rollback(rolled_back) == "accepted"
    assert (scene.queue.unacked_count, bodies(scene.queue)) == (0, [b"two"])


def test_every_delivery_in_a_transaction_is_known_to_be_unsettled_once(scene: Scene) -> None:
    receiver = scene.receiver()
    scene.sender.send(b"one", b"two", b"three")
    txn = scene.controller.declare()
    retire(receiver, txn, receiver.got[0])
    retire(receiver, txn, receiver.got[1], settled=True)
    found = scene.house.node.unsettled()
    assert sorted(entry.position for _, entry in found) == [1, 2, 3]


def test_a_queue_that_was_deleted_with_its_deliveries_fails_the_commit(scene: Scene) -> None:
    scene.house.declare("other")
    other = scene.peer.sender(scene.session, "/queues/other", "other")
    receiver = scene.receiver()
    scene.sender.send(b"one")
    txn = scene.controller.declare()
    retire(receiver, txn, receiver.got[0])
    post(other, txn, b"x")
    scene.house.settle()
    scene.house.node.apply_to_vhost("/", DeleteQueue("q"), scene.house.now)
    assert scene.controller.commit(txn) == "amqp:transaction:rollback"
    assert scene.house.queue("other").message_count == 0


def test_moving_a_message_happens_as_a_whole(scene: Scene) -> None:
    other = scene.house.declare("other")
    mover = scene.peer.sender(scene.session, "/queues/other", "mover")
    receiver = scene.receiver()
    scene.sender.send(b"one")
    txn = scene.controller.declare()
    post(mover, txn, b"one")
    retire(receiver, txn, receiver.got[0])
    assert (scene.queue.unacked_count, other.message_count) == (1, 0)
    assert scene.controller.commit(txn) == "accepted"
    assert (scene.queue.unacked_count, other.message_count) == (0, 1)


# Messages that are acquired in a transaction.


class StateKeeper(KeepingReceiver):
    """Also says in which transactions the transfers came."""

    def states(self) -> list[bytes | None]:
        """The transactions that the transfers name."""
        return [
            delivery.state.txn_id if isinstance(delivery.state, TransactionalState) else None
            for delivery in self.got
        ]


class Acquiring:
    """A receiver that gives credit in transactions."""

    def __init__(self, scene: Scene, snd_settle_mode: int = 2) -> None:
        self.receiver = scene.peer.receiver(
            scene.session, "/queues/q", "taker", 0, snd_settle_mode=snd_settle_mode
        )
        self.listener = StateKeeper()
        self.receiver.link.listener = self.receiver.listener = self.listener
        self.house = scene.house

    def acquire(self, credit: int, txn_id: bytes | None) -> None:
        link = self.receiver.link
        link.wanted = link.credit = credit
        flow = Flow(
            handle=link.handle,
            delivery_count=link.delivery_count,
            link_credit=credit,
            properties={"txn-id": txn_id},
        )
        self.receiver.session.send_flow(flow)
        self.house.settle()


def test_messages_acquired_in_a_transaction_stay_with_the_receiver_after_the_commit(
    scene: Scene,
) -> None:
    scene.sender.send(b"one", b"two", b"three")
    taker = Acquiring(scene)
    txn = scene.controller.declare()
    taker.acquire(2, txn)
    assert taker.listener.states() == [txn, txn]
    retire(taker.receiver, txn, taker.listener.got[0])
    assert scene.controller.commit(txn) == "accepted"
    assert (scene.queue.acknowledged_total, scene.queue.unacked_count) == (1, 1)
    # The link does not know the transaction any more.
    taker.receiver.link.offer(1)
    taker.receiver.link.flow_if_needed()
    scene.house.settle()
    assert taker.listener.states() == [txn, txn, None]
    taker.receiver.settle(taker.listener.got[1])
    taker.receiver.settle(taker.listener.got[2])
    assert scene.queue.acknowledged_total == 3


def test_messages_acquired_in_a_transaction_come_back_with_a_rollback(scene: Scene) -> None:
    scene.sender.send(b"one", b"two", b"three")
    taker = Acquiring(scene)
    txn = scene.controller.declare()
    taker.acquire(3, txn)
    retire(taker.receiver, txn, taker.listener.got[0])
    retire(taker.receiver, txn, taker.listener.got[1], settled=True)
    assert scene.controller.rollback(txn) == "accepted"
    assert (scene.queue.unacked_count, bodies(scene.queue)) == (0, [b"one", b"two", b"three"])
    # Those that it has not settled are settled for it.
    assert len(taker.listener.settled_tags) == 2
    taker.receiver.detach()
    assert scene.queue.message_count == 3


@pytest.mark.parametrize("how", ["link", "session", "connection"])
def test_messages_acquired_in_a_transaction_come_back_once_with_whatever_ends(
    scene: Scene, how: str
) -> None:
    scene.sender.send(b"one", b"two")
    taker = Acquiring(scene)
    taker.acquire(2, scene.controller.declare())
    if how == "link":
        scene.peer.wire.detach(scene.session, scene.controller.link, None, True)
    elif how == "session":
        scene.peer.wire.end_session(scene.session, None)
    else:
        scene.peer.lose()
    scene.house.settle()
    assert (scene.queue.unacked_count, bodies(scene.queue)) == (0, [b"one", b"two"])


def test_a_receiver_stops_to_acquire_in_a_transaction_when_it_says_so(scene: Scene) -> None:
    scene.sender.send(b"one", b"two")
    taker = Acquiring(scene)
    txn = scene.controller.declare()
    taker.acquire(1, txn)
    taker.acquire(1, None)
    assert taker.listener.states() == [txn, None]
    assert scene.controller.rollback(txn) == "accepted"
    assert (scene.queue.unacked_count, bodies(scene.queue)) == (1, [b"one"])


def test_acquiring_in_an_unknown_transaction_ends_the_link(scene: Scene) -> None:
    scene.sender.send(b"one")
    Acquiring(scene).acquire(1, b"nobody")
    assert scene.peer.link_faults == [("taker", "amqp:transaction:unknown-id", True)]
    assert (scene.queue.unacked_count, scene.queue.message_count) == (0, 1)


def test_a_link_that_is_sent_settled_messages_does_not_acquire_in_transactions(
    scene: Scene,
) -> None:
    scene.sender.send(b"one")
    Acquiring(scene, snd_settle_mode=1).acquire(1, scene.controller.declare())
    assert scene.peer.link_faults == [("taker", "amqp:not-implemented", True)]
    assert scene.queue.message_count == 1


def test_a_delivery_acquired_in_one_transaction_and_settled_in_another_comes_back_once(
    scene: Scene,
) -> None:
    scene.sender.send(b"one")
    first, second = scene.controller.declare(), scene.controller.declare()
    taker = Acquiring(scene)
    taker.acquire(1, first)
    retire(taker.receiver, second, taker.listener.got[0], settled=True)
    assert (scene.queue.message_count, scene.queue.unacked_count) == (1, 0)
    assert scene.queue.browse(1)[0].delivery_count == 1
    assert scene.controller.commit(first) == "amqp:transaction:rollback"
    assert scene.controller.commit(second) == "amqp:transaction:rollback"
