"""Seed 002, "AMQP Session and Message Transfer Notes" and "Link Recovery", by sentences.

Each test quotes a sentence and its line. The seed's questions are quoted too, and answered by the test.
Where we do otherwise, the test's name and docstring say what, and docs/design/amqp10.md says why.
"""

from __future__ import annotations

import pytest

from penstock.broker.message import NOBODY, Address, Message
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.amqp10.messages.properties import read_head
from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.performatives_generated import (
    Accepted,
    Attach,
    Begin,
    Data,
    Detach,
    Disposition,
    End,
    Source,
    Target,
)
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.states import ConnectionState, SessionState
from penstock.wire.amqp10.values import Composite
from tests.dialects.amqp10.doubles import House
from tests.seeds.session_doubles import (
    BODY,
    condition_of,
    credit,
    flow_of,
    keeping_receiver,
    transfer,
    transfers,
)
from tests.wire.amqp10.doubles import (
    open_machine,
    receiver_machine,
    sender_machine,
)

LINK_TIMEOUT_SECONDS = 60


@pytest.fixture
def house() -> House:
    return House()


def fill(house: House, queue: MessageQueue, *bodies: bytes) -> None:
    for body in bodies:
        address = Address("", queue.name, b"")
        queue.enqueue(Message(address, read_head(b""), Data(body).encode(), NOBODY), house.now)
    house.settle()


def state_of(session: Session) -> SessionState:
    # A call, so that a type checker does not take one state for the next.
    return session.state


# The state machine.


def test_sessions_and_links_begin_and_end_by_the_frames_of_their_state_machine() -> None:
    """Line 8: "Each frame is processed via the state machine; beginning/ending session,
    attaching/detaching links, etc."
    """
    machine = open_machine()
    machine.hear(0, Begin(None, 0, 10, 10))
    (session,) = machine.listener.sessions
    assert state_of(session) is SessionState.MAPPED
    machine.hear(0, Attach("out", 0, True, source=Source("s"), target=Target("t")))
    (link,) = machine.listener.links
    seen = [link.is_attached]
    machine.hear(0, Detach(0, True))
    seen.append(link.is_attached)
    assert seen == [True, False]
    machine.hear(0, End())
    assert state_of(session) is SessionState.ENDED
    said = [type(frame) for _, frame in machine.said()]
    assert said == [Begin, Attach, Detach, End]
    # The machine has no edge for it any more.
    machine.hear(0, End())
    assert condition_of(machine.only_said()) == "amqp:illegal-state"
    assert machine.state() is ConnectionState.CLOSE_SENT


def test_transfer_frames_come_through_the_state_machine_too() -> None:
    """Line 9: "Also receiving transfer frames." On a session that was never begun they close the
    connection.
    """
    machine, _, link = receiver_machine()
    machine.hear(0, transfer(0, settled=True), BODY)
    assert [payload for _, _, _, payload, *_ in machine.calls.named("delivery")] == [BODY]
    assert link.delivery_count == 1
    machine.hear(5, transfer(1, settled=True), BODY)
    assert condition_of(machine.only_said()) == "amqp:illegal-state"


# Sessions and links: what bounds which.


def test_one_window_counts_the_transfers_of_all_links_of_a_session() -> None:
    """Line 25: "Session flow control is window based, effectively controls the number of unsettled
    messages transfers held in a buffer (across all links attached a session)."
    """
    machine, session, first = keeping_receiver(3)
    attach = Attach("second", 1, False, source=Source("s"), target=Target("t"))
    attach.initial_delivery_count = 0
    machine.hear(0, attach)
    second = machine.listener.links[1]
    assert isinstance(second, ReceivingLink)
    second.offer(100)
    second.flow_if_needed()
    machine.flush()
    for number, handle in enumerate([0, 1, 1]):
        machine.hear(0, transfer(number, handle), BODY)
    assert (session.untaken, session.incoming_window) == (3, 0)
    assert (first.credit, second.credit) == (99, 98)
    # Both links have credit; the session has no room for either.
    machine.hear(0, transfer(3, 0), BODY)
    assert condition_of(machine.only_said()) == "amqp:session:window-violation"


@pytest.mark.parametrize(
    ("pattern", "steps"), [("async", [6]), ("sync", [1, 1, 1, 1]), ("some", [2, 3])]
)
def test_credit_decides_how_many_messages_a_link_gets(
    house: House, pattern: str, steps: list[int]
) -> None:
    """Line 27: "Link flow control is credit-based, used to implement various messaging patterns
    (async, sync, drain, etc.)." All at once, one by one, and anything between.
    """
    fill(house, house.declare("q"), *[b"%d" % number for number in range(10)])
    peer = house.connect()
    got = peer.receiver(peer.begin(), "/queues/q", credit=0)
    assert got.bodies == []
    wanted = 0
    for step in steps:
        got.link.credit = step
        got.link.send_flow(False)
        house.settle()
        wanted += step
        assert len(got.bodies) == wanted, pattern


def test_a_drained_link_gets_what_there_is_and_its_credit_is_used_up(house: House) -> None:
    """Line 27 again, the pattern "drain": get what is there, and know that this was all."""
    queue = house.declare("q")
    peer = house.connect()
    got = peer.receiver(peer.begin(), "/queues/q", credit=0)
    fill(house, queue, b"1", b"2")
    got.link.credit = 5
    got.link.drain()
    house.settle()
    assert (got.bodies, got.link.credit, got.listener.drained_count) == ([b"1", b"2"], 0, 1)
    fill(house, queue, b"3")
    assert got.bodies == [b"1", b"2"]


def test_a_peer_that_never_settles_gets_so_many_deliveries_and_no_more() -> None:
    """Line 32: "But at the end of the day Session flow control is about ensuring that the
    infrastructure is not overburdended with unsettled deliveries."
    """
    machine, session, link = sender_machine(Limits(outgoing_window=4))
    machine.listener.sender.waiting = [BODY] * 10
    machine.hear(0, credit(1_000_000, 1_000_000))
    assert transfers(machine) == 4
    assert len(link.unsettled) == 4
    machine.hear(0, flow_of(4, 1_000_000))
    assert transfers(machine) == 0, "more room at the peer does not settle anything"
    machine.hear(0, Disposition(True, 0, 2, True, Accepted()))
    assert transfers(machine) == 3
    assert (len(link.unsettled), session.outgoing_window) == (4, 0)


# Link recovery.


def test_links_are_suspended_and_resumed_which_the_seed_left_out(house: House) -> None:
    """Line 63: "**I think that for version 1 we won't support suspending and resuming links.**" We
    do: a receiver whose connection was lost comes back and finds its deliveries, not copies of them.
    """
    queue = house.declare("q")
    fill(house, queue, b"1", b"2")
    source = Source("/queues/q", timeout=LINK_TIMEOUT_SECONDS, expiry_policy="connection-close")
    peer = house.connect()
    first = peer.receiver(peer.begin(), None, source=source)
    tags = [delivery.tag for delivery in first.got]
    peer.lose()
    assert (queue.message_count, queue.unacked_count) == (0, 2)
    peer = house.connect()
    known: dict[bytes, Composite | None] = dict.fromkeys(tags)
    again = peer.receiver(peer.begin(), None, source=source, unsettled=known)
    assert [delivery.tag for delivery in again.got] == tags
    assert all(delivery.resumed for delivery in again.got)
    for delivery in again.got:
        again.settle(delivery)
    assert (queue.message_count, queue.unacked_count) == (0, 0)


def test_what_a_suspended_link_had_goes_back_when_nobody_resumes_it(house: House) -> None:
    """Line 63 again: what is suspended is not kept for ever."""
    queue = house.declare("q")
    fill(house, queue, b"1")
    source = Source("/queues/q", timeout=LINK_TIMEOUT_SECONDS, expiry_policy="connection-close")
    peer = house.connect()
    peer.receiver(peer.begin(), None, source=source)
    peer.lose()
    house.pass_time(LINK_TIMEOUT_SECONDS * 1000 - 1)
    assert (queue.message_count, queue.unacked_count) == (0, 1)
    house.pass_time(1)
    assert (queue.message_count, queue.unacked_count) == (1, 0)


# What the seed saw another broker say.


def test_the_open_of_an_amqp_1_0_server_names_its_product_and_version(house: House) -> None:
    """Line 88: "I can send product specific properties:" as in the open that the seed shows."""
    peer = house.connect()
    assert peer.opened is not None
    assert peer.opened.properties is not None
    told = {str(name): value for name, value in peer.opened.properties.items()}
    assert (told["product"], told["version"]) == ("Penstock", "1.2.3")
