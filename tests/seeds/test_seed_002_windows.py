"""Seed 002, "AMQP Session Flow", by sentences: the four windows of a session.

Each test quotes a sentence and its line. The seed's questions are quoted too, and answered by the test.
Where we do otherwise, the test's name and docstring say what, and docs/design/amqp10.md says why.
"""

from __future__ import annotations

import pytest

from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.performatives_generated import (
    Accepted,
    Begin,
    Disposition,
    Flow,
    Transfer,
)
from penstock.wire.amqp10.sending import SendingLink, SentDelivery
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.states import ConnectionState
from tests.dialects.amqp10.doubles import House
from tests.seeds.session_doubles import (
    BODY,
    condition_of,
    credit,
    flow_of,
    flows,
    keeping_receiver,
    transfer,
    transfers,
)
from tests.wire.amqp10.doubles import (
    Machine,
    open_machine,
    sender_machine,
    session_machine,
)


@pytest.fixture
def house() -> House:
    return House()


# The incoming window.


def test_the_incoming_window_is_told_and_bounds_what_may_come() -> None:
    """Line 36: "The session has an "incoming-window" which is the number of transfers the session
    can received."
    """
    machine = open_machine(limits=Limits(incoming_window=5))
    machine.hear(0, Begin(None, 0, 10, 10))
    begin = machine.only_said()
    assert isinstance(begin, Begin)
    assert begin.incoming_window == 5
    machine, session, _ = keeping_receiver(5)
    for number in range(5):
        machine.hear(0, transfer(number), BODY)
    assert session.untaken == 5
    assert session.is_open


@pytest.mark.parametrize("body", [BODY, b""], ids=["hot", "general"])
def test_every_received_transfer_is_one_less(
    body: bytes,
) -> None:
    """Line 37: "This is decremented on each received transfer"."""
    machine, session, _ = keeping_receiver(9)
    seen = []
    for number in range(4):
        machine.hear(0, transfer(number), body)
        seen.append(session.incoming_window)
    assert seen == [8, 7, 6, 5]
    assert session.next_incoming_id == 4


def test_the_incoming_window_opens_when_the_owner_has_taken_half_of_it() -> None:
    """Line 37: "But when is it incremented or reset?" When what came is no longer in our hands, and
    enough of it that a flow is worth its frame.
    """
    machine, session, _ = keeping_receiver(4)
    for number in range(3):
        machine.hear(0, transfer(number), BODY)
    session.taken(1)
    session.flow_if_needed()
    assert session.incoming_window == 1, "one of four is not worth a frame"
    session.taken(1)
    session.flow_if_needed()
    assert session.incoming_window == 3
    assert [flow.incoming_window for flow in flows(machine)] == [3]


def test_the_window_opens_with_taking_and_neither_needs_nor_waits_for_settling(
    house: House,
) -> None:
    """Line 38: "When we settle it?" No: settled says what became of a delivery, taken that it no
    longer lies in the session. A transaction enlists more than a window without settling any.
    """
    machine, session, link = keeping_receiver(2)
    for number in range(2):
        machine.hear(0, transfer(number), BODY)
    session.settle(0, 0, Accepted())
    session.flow_if_needed()
    assert (list(link.unsettled), session.incoming_window) == ([1], 0)
    session.taken(1)
    session.flow_if_needed()
    assert (list(link.unsettled), session.incoming_window) == ([1], 1)
    # And the node: every message is enqueued, so the window never stays closed.
    queue = house.declare("q")
    peer = house.connect()
    producer = peer.sender(peer.begin(), "/queues/q")
    count = 3 * Limits().incoming_window
    sent = 0
    while sent < count:
        capacity = producer.link.capacity()
        assert capacity > 0, "stuck"
        producer.send(*[b"m"] * min(capacity, count - sent), settled=True)
        sent += min(capacity, count - sent)
    assert queue.message_count == count


def test_a_delivery_of_more_transfers_than_the_window_never_waits_for_itself() -> None:
    """Lines 38 and 59: "What about multi-transfer deliveries?" Each transfer counts; those that do
    not complete their delivery are taken at once.
    """
    machine, session, _ = keeping_receiver(2)
    for number in range(9):
        machine.hear(0, Transfer(0, 0, b"t", 0, False, number < 8), BODY)
    ((_, _, _, payload, _, _),) = machine.calls.named("delivery")
    assert payload == BODY * 9
    assert session.untaken == 1, "only the transfer that completed it"
    assert session.next_incoming_id == 9, "every transfer has a number"
    assert all(flow.handle is None for flow in flows(machine))


def test_a_sent_delivery_of_many_transfers_waits_in_the_middle() -> None:
    """Lines 38 and 59 again: "What about multi-transfer deliveries?" On the way out each transfer
    needs room at the peer, and the delivery counts once in our own window.
    """
    machine, session, link = sender_machine(Limits(outgoing_window=50), window=2)
    session.frame_max = 512
    machine.hear(0, credit(5, 2))
    link.send(SentDelivery(), b"", bytes(2000))
    assert (transfers(machine), session.remote_incoming_window) == (2, 0)
    assert link.is_waiting()
    machine.hear(0, flow_of(2, 10))
    assert not link.is_waiting()
    assert transfers(machine) == 3
    assert (session.next_outgoing_id, session.outgoing_window) == (5, 49)


def test_a_transfer_beyond_an_incoming_window_of_zero_is_not_handled() -> None:
    """Line 39: "In theory, when it reaches zero, we shouldn't handle any more transfers." In
    practice too: it ends the session.
    """
    machine, session, _ = keeping_receiver(2)
    for number in range(3):
        machine.hear(0, transfer(number), BODY)
    assert len(machine.calls.named("delivery")) == 2
    assert condition_of(machine.only_said()) == "amqp:session:window-violation"
    assert not session.is_open


def test_a_window_that_is_set_again_is_told_in_a_flow() -> None:
    """Line 39: "When set or reset, we should send a flow"."""
    machine, session, _ = keeping_receiver(3)
    for number in range(3):
        machine.hear(0, transfer(number), BODY)
    assert (session.incoming_window, flows(machine)) == (0, [])
    session.taken(3)
    session.flow_if_needed()
    (flow,) = flows(machine)
    assert (flow.next_incoming_id, flow.incoming_window) == (3, 3)
    assert session.incoming_window == 3


# The remote incoming window.


def test_the_remote_incoming_window_is_what_the_peer_says_it_can_handle() -> None:
    """Line 42: "The session maintains a "remote-incoming-window" which is the number of transfers
    the session expects the *remote* session to be able to handle."
    """
    machine, session = session_machine(window=17)
    assert (session.remote_incoming_window, session.room()) == (17, 17)
    machine.hear(0, flow_of(0, 30))
    assert (session.remote_incoming_window, session.room()) == (30, 30)


def sending(window: int, count: int) -> tuple[Machine, Session, SendingLink]:
    """A server with credit enough and messages to send, and a peer with such a window."""
    machine, session, link = sender_machine(window=window)
    machine.listener.sender.waiting = [BODY] * count
    machine.hear(0, credit(1000, window))
    return machine, session, link


def test_every_sent_transfer_is_one_less() -> None:
    """Line 43: "This is decremented on sent transfer"."""
    machine, session, link = sender_machine(window=10)
    machine.hear(0, credit(1000, 10))
    seen = []
    for _ in range(3):
        link.send_settled(b"", BODY)
        seen.append(session.remote_incoming_window)
    assert seen == [9, 8, 7]


def test_transfers_stop_when_the_remote_incoming_window_is_used_up() -> None:
    """Line 44: "When it reaches zero, we must stop transfers"."""
    machine, session, link = sending(3, 10)
    assert transfers(machine) == 3
    assert (session.remote_incoming_window, link.credit) == (0, 997)
    assert not link.can_send()
    with pytest.raises(AssertionError, match="without room in the window"):
        link.send_settled(b"", BODY)


def test_a_flow_of_the_peer_lets_transfers_go_on() -> None:
    """Line 44: "It's recalculated when we receive a flow"."""
    machine, session, _ = sending(3, 10)
    assert transfers(machine) == 3
    machine.hear(0, flow_of(3, 2))
    assert transfers(machine) == 2
    assert session.remote_incoming_window == 0
    machine.hear(0, flow_of(5, 100))
    assert transfers(machine) == 5
    assert session.remote_incoming_window == 95


def test_flows_tell_the_window_and_the_transfer_that_was_last_seen() -> None:
    """Line 45: "The flow contains the remote's incoming-window, and it's last observed transfer-id
    (our outgoing-transfer-id)." To be exact, the one after it. A peer that has seen what was never
    sent is wrong.
    """
    machine, session, _ = keeping_receiver(2)
    machine.hear(0, transfer(0), BODY)
    session.send_flow(Flow())
    (flow,) = flows(machine)
    assert (flow.next_incoming_id, flow.incoming_window) == (1, 1)
    machine, session, _ = sending(3, 3)
    assert (transfers(machine), session.next_outgoing_id) == (3, 3)
    machine.hear(0, flow_of(4, 100))
    assert condition_of(machine.only_said()) == "amqp:invalid-field"


@pytest.mark.parametrize("seen", [0, 1, 3])
def test_transfers_that_are_under_way_are_subtracted_from_the_peers_window(seen: int) -> None:
    """Line 46: "The algorithm substracts from the the remote's incoming window any outstanding
    transfers on our end."
    """
    machine, session, _ = sending(3, 3)
    machine.hear(0, flow_of(seen, 3))
    assert session.remote_incoming_window == 3 - (3 - seen)
    assert machine.state() is ConnectionState.OPENED


# The outgoing windows.


def test_our_outgoing_window_is_a_number_of_its_own_and_told_to_the_peer() -> None:
    """Line 49: "In theory the session also tracks a seperate "outgoing-window""."""
    machine = open_machine(limits=Limits(outgoing_window=6))
    machine.hear(0, Begin(None, 0, 1000, 1000))
    begin = machine.only_said()
    assert isinstance(begin, Begin)
    assert begin.outgoing_window == 6
    machine, session, link = sender_machine(Limits(outgoing_window=6))
    machine.hear(0, credit(100))
    link.send(SentDelivery(), b"", BODY)
    link.send_settled(b"", BODY)
    machine.flush()
    session.send_flow(Flow())
    (flow,) = flows(machine)
    assert flow.outgoing_window == 5, "what is sent settled leaves nothing outstanding"


@pytest.mark.parametrize(("own", "remote"), [(2, 8), (8, 2)])
def test_our_window_and_theirs_bound_transfers_independently(own: int, remote: int) -> None:
    """Line 49: "While it seems that many implementations simply synchronize this with
    "remote-incoming-window", it seems possible to have an indepedent state which controls how many
    transfers we can send independent of what they can receive."
    """
    machine, session, _ = sender_machine(Limits(outgoing_window=own), window=remote)
    machine.listener.sender.waiting = [BODY] * 20
    machine.hear(0, credit(1000, remote))
    assert transfers(machine) == min(own, remote)
    assert session.outgoing_window == own - 2
    assert session.remote_incoming_window == remote - 2


def test_our_window_may_be_larger_than_theirs_and_the_smaller_one_holds() -> None:
    """Line 52: "Obviously in practice, this must necessarily be less than or equal to the
    "remote-incoming-window"." Ours need not be: nothing goes out that either of them forbids.
    """
    machine, session, _ = sending(3, 10)
    assert session.outgoing_window > session.remote_incoming_window
    assert session.room() == 0
    assert transfers(machine) == 3


@pytest.mark.parametrize("body", [BODY, b""], ids=["hot", "general"])
def test_the_remote_outgoing_window_shrinks_with_transfers_and_nothing_depends_on_it(
    body: bytes,
) -> None:
    """Line 56: ""When this window shrinks, it is an indication of outstanding transfers." We keep
    it, and take transfers also when it says that there could be none.
    """
    machine, session, _ = keeping_receiver(10)
    machine.hear(0, Flow(0, 10, 0, 2))
    seen = []
    for number in range(3):
        machine.hear(0, transfer(number), body)
        seen.append(session.remote_outgoing_window)
    assert seen == [1, 0, -1]
    assert len(machine.calls.named("delivery")) == 3
    assert session.is_open
    machine.hear(0, Flow(0, 10, 3, 2))
    assert session.remote_outgoing_window == 2


def test_settling_lets_our_window_grow_again() -> None:
    """Line 57: "Settling outstanding transfers can cause the window to grow."" The peer hears of it
    with the next flow.
    """
    machine, session, link = sender_machine(Limits(outgoing_window=5))
    machine.hear(0, credit(100))
    for _ in range(3):
        link.send(SentDelivery(), b"", BODY)
    assert session.outgoing_window == 2
    machine.hear(0, Disposition(True, 0, 1, True, Accepted()))
    assert session.outgoing_window == 4
    machine.flush()
    session.send_flow(Flow())
    (flow,) = flows(machine)
    assert flow.outgoing_window == 4
