"""A delivery is settled once: what comes after the end of its link changes nothing.

The server ends a link while its receiver's word is under way, so the receiver settles what is no
longer its own. The journal's books must agree with the queues after that.
"""

from __future__ import annotations

import pytest

from penstock.broker.entry import NO_HOLDER
from penstock.broker.message import NOBODY, Address, Message
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.topology import DeleteQueue
from penstock.dialects.amqp10.messages.properties import read_head
from penstock.storage.memory_disk import MemoryDisk
from penstock.wire.amqp10.performatives_generated import (
    Accepted,
    Data,
    Header,
    Modified,
    Rejected,
    Released,
    Source,
    TransactionalState,
)
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED
from penstock.wire.amqp10.values import Composite
from tests.dialects.amqp10.doubles import House, Receiver
from tests.dialects.amqp10.transactions.transaction_doubles import Scene, retire

OUTCOMES: list[Composite | None] = [
    Accepted(),
    Rejected(),
    Released(),
    Modified(delivery_failed=True),
    Modified(undeliverable_here=True),
    None,
]


@pytest.fixture
def house() -> House:
    return House(MemoryDisk())


def fill(house: House, queue: MessageQueue, *bodies: bytes) -> None:
    """With persistent messages."""
    for body in bodies:
        head = read_head(Header(durable=True).encode())
        message = Message(Address("", queue.name, b""), head, Data(body).encode(), NOBODY)
        queue.enqueue(message, house.now)
    house.settle()


def receiver(house: House, source: Source | None = None, container: str = "client") -> Receiver:
    peer = house.connect(container)
    return peer.receiver(peer.begin(), "/queues/q", source=source)


def count_in_journal(house: House) -> int:
    """Messages that the journal has for queues."""
    assert house.node.stored is not None
    store = house.node.stored.store
    return sum(store.lives.of(segment).live_count for segment in store.journal.segments())


def books(house: House, queue: MessageQueue) -> tuple[int, int, int]:
    """Ready, unacknowledged, and in the journal."""
    return queue.message_count, queue.unacked_count, count_in_journal(house)


def delete_queue(house: House, held: Receiver) -> None:
    house.node.apply_to_vhost("/", DeleteQueue("q"), house.now)


def flow_wrongly(house: House, held: Receiver) -> None:
    """Claim to have seen more deliveries than there were; the server detaches the link."""
    held.link.delivery_count += 7
    held.link.send_flow(False)


def settle_late(house: House, held: Receiver, outcome: Composite | None) -> None:
    """Everything that it has, in one disposition."""
    held.session.settle(held.got[0].id, held.got[-1].id, outcome)
    house.settle()


@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
def test_a_receiver_settles_what_a_deleted_queue_took_from_it(
    house: House, outcome: Composite | None
) -> None:
    queue = house.declare("q")
    held = receiver(house)
    fill(house, queue, b"1", b"2", b"3")
    delete_queue(house, held)
    settle_late(house, held, outcome)
    assert books(house, queue) == (0, 0, 0)
    assert held.peer.link_faults == [("receiver", "amqp:resource-deleted", True)]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
def test_a_receiver_settles_what_another_one_has_by_now(
    house: House, outcome: Composite | None
) -> None:
    queue = house.declare("q")
    held = receiver(house)
    fill(house, queue, b"1", b"2", b"3")
    other = receiver(house, container="another")
    flow_wrongly(house, held)
    settle_late(house, held, outcome)
    assert held.peer.link_faults == [("receiver", "amqp:invalid-field", True)]
    assert other.bodies == [b"1", b"2", b"3"]
    assert books(house, queue) == (0, 3, 3)
    settle_late(house, other, OUTCOME_ACCEPTED)
    assert books(house, queue) == (0, 0, 0)


@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
def test_a_receiver_settles_what_is_ready_again(house: House, outcome: Composite | None) -> None:
    queue = house.declare("q")
    held = receiver(house)
    fill(house, queue, b"1", b"2", b"3")
    flow_wrongly(house, held)
    settle_late(house, held, outcome)
    assert books(house, queue) == (3, 0, 3)
    assert {entry.holder for entry in queue.browse(3)} == {NO_HOLDER}


@pytest.mark.parametrize("outcome", OUTCOMES, ids=repr)
def test_a_receiver_settles_what_a_stolen_link_took_along(
    house: House, outcome: Composite | None
) -> None:
    queue = house.declare("q")
    source = Source("/queues/q", timeout=60, expiry_policy="connection-close")
    held = receiver(house, source=source)
    fill(house, queue, b"1", b"2", b"3")
    # Its receiver hears of the theft too late.
    house.peers.remove(held.peer)
    second = house.connect()
    thief = second.receiver(second.begin(), None, source=source)
    house.peers.append(held.peer)
    settle_late(house, held, outcome)
    assert held.peer.link_faults == [("receiver", "amqp:link:stolen", True)]
    assert thief.bodies == [b"1", b"2", b"3"]
    assert books(house, queue) == (0, 3, 3)
    settle_late(house, thief, OUTCOME_ACCEPTED)
    assert books(house, queue) == (0, 0, 0)


def test_a_resumed_link_settles_what_it_had_when_its_queue_is_gone(house: House) -> None:
    queue = house.declare("q")
    source = Source("/queues/q", timeout=60, expiry_policy="connection-close")
    held = receiver(house, source=source)
    fill(house, queue, b"1", b"2", b"3")
    held.peer.lose()
    assert books(house, queue) == (0, 3, 3)
    delete_queue(house, held)
    house.settle()
    assert books(house, queue) == (0, 3, 3)
    states: dict[bytes, Composite | None] = {held.got[0].tag: OUTCOME_ACCEPTED}
    peer = house.connect()
    peer.receiver(peer.begin(), None, source=source, unsettled=states)
    assert peer.link_faults == [("receiver", "amqp:not-found", True)]
    assert books(house, queue) == (0, 0, 0)
    house.pass_time(120_000)
    assert books(house, queue) == (0, 0, 0)


def test_a_suspended_link_expires_after_its_queue(house: House) -> None:
    queue = house.declare("q")
    source = Source("/queues/q", timeout=60, expiry_policy="connection-close")
    held = receiver(house, source=source)
    fill(house, queue, b"1", b"2")
    held.peer.lose()
    delete_queue(house, held)
    house.pass_time(120_000)
    assert books(house, queue) == (0, 0, 0)


def end_with_transaction(scene: Scene, held: Receiver, txn: bytes, commits: bool) -> str:
    """The server ends the link, then what the receiver said meanwhile comes, then the discharge."""
    flow_wrongly(scene.house, held)
    settle_late(scene.house, held, OUTCOME_ACCEPTED)
    return scene.controller.commit(txn) if commits else scene.controller.rollback(txn)


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("commits", [False, True])
def test_a_transaction_has_what_its_link_had_and_nobody_else(
    house: House, commits: bool, settled: bool
) -> None:
    scene = Scene(house)
    held = scene.receiver()
    fill(house, scene.queue, b"1", b"2")
    txn = scene.controller.declare()
    retire(held, txn, held.got[0], settled=settled)
    assert end_with_transaction(scene, held, txn, commits) == "accepted"
    expected = (1, 0, 1) if commits else (2, 0, 2)
    assert books(house, scene.queue) == expected


@pytest.mark.parametrize("commits", [False, True])
def test_a_transaction_with_deliveries_of_a_deleted_queue(house: House, commits: bool) -> None:
    scene = Scene(house)
    held = scene.receiver()
    fill(house, scene.queue, b"1", b"2")
    txn = scene.controller.declare()
    retire(held, txn, held.got[0])
    delete_queue(house, held)
    settle_late(house, held, OUTCOME_ACCEPTED)
    said = scene.controller.commit(txn) if commits else scene.controller.rollback(txn)
    assert said == ("amqp:transaction:rollback" if commits else "accepted")
    assert books(house, scene.queue) == (0, 0, 0)


def test_a_disposition_and_the_end_of_its_session_settle_once(house: House) -> None:
    queue = house.declare("q")
    held = receiver(house)
    fill(house, queue, b"1", b"2", b"3")
    held.session.settle(held.got[0].id, held.got[0].id, OUTCOME_ACCEPTED)
    held.peer.wire.end_session(held.session, None)
    house.settle()
    assert books(house, queue) == (2, 0, 2)


@pytest.mark.parametrize("browses", [False, True])
def test_a_link_that_ends_leaves_its_session_the_room_it_took(house: House, browses: bool) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1", b"2", b"3")
    peer = house.connect()
    session = peer.begin()
    source = Source("/queues/q", distribution_mode="copy" if browses else "move")
    before = window_of(house, peer.receiver(session, "/queues/q", credit=0))
    for _ in range(4):
        held = peer.receiver(session, None, name="another", source=source)
        assert len(held.got) == 3
        held.detach()
    assert window_of(house, peer.receiver(session, "/queues/q", "last", 0)) == before


def window_of(house: House, held: Receiver) -> int:
    """How many more deliveries the server may have unsettled in the session, as it says."""
    held.link.send_flow(True)
    house.settle()
    return held.session.remote_outgoing_window


def test_what_is_said_in_a_transaction_after_the_end_of_the_link_is_ignored(house: House) -> None:
    scene = Scene(house)
    held = scene.receiver()
    fill(house, scene.queue, b"1")
    txn = scene.controller.declare()
    flow_wrongly(house, held)
    held.session.settle(held.got[0].id, held.got[0].id, TransactionalState(txn, Accepted()))
    house.settle()
    assert scene.controller.commit(txn) == "accepted"
    assert books(house, scene.queue) == (1, 0, 1)
