"""Sessions: begin and end, channels, handles, attach and detach, and faults on the right endpoint."""

import pytest

from penstock.formats.octets import Malformed
from penstock.wire.amqp10.errors import ConnectionFault, LinkFault, SessionFault
from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.performatives_generated import (
    Accepted,
    Attach,
    Begin,
    Close,
    Coordinator,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Source,
    Target,
    Transfer,
)
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.sending import SendingLink, SentDelivery
from penstock.wire.amqp10.states import ConnectionState, LinkState, Role, SessionState
from penstock.wire.amqp10.values import Composite
from tests.wire.amqp10.doubles import (
    KeepingReceiver,
    Pair,
    open_machine,
    receiver_machine,
    sender_machine,
    session_machine,
)


def sending_attach(name: str = "in", handle: int = 0) -> Attach:
    """Of a peer that sends to us."""
    attach = Attach(name, handle, False, source=Source("s"), target=Target("t"))
    attach.initial_delivery_count = 0
    return attach


def condition_of(said: Composite) -> str:
    assert isinstance(said, (Close, End, Detach))
    assert said.error is not None
    return said.error.condition


def test_a_begin_is_answered_with_our_windows() -> None:
    machine = open_machine(limits=Limits(incoming_window=7, outgoing_window=9, handle_max=3))
    machine.hear(4, Begin(None, 100, 20, 30, 50))
    assert machine.said() == [(0, Begin(4, 0, 7, 9, 3))]
    (session,) = machine.listener.sessions
    assert session.state is SessionState.MAPPED
    assert session.next_incoming_id == 100
    assert session.remote_incoming_window == 20
    assert session.remote_outgoing_window == 30
    assert session.remote_handle_max == 50


@pytest.mark.parametrize(
    ("channel", "said", "condition"),
    [
        (0, Begin(None, 0, 1, 1), "amqp:illegal-state"),  # has a session already
        (1, Begin(9, 0, 1, 1), "amqp:invalid-field"),  # answers nothing
        (1, Flow(0, 1, 1, 1), "amqp:illegal-state"),
        (1, End(), "amqp:illegal-state"),
        (64, Begin(None, 0, 1, 1), "amqp:connection:framing-error"),
    ],
)
def test_wrong_channels_close_the_connection(channel: int, said: Composite, condition: str) -> None:
    machine, _ = session_machine()
    machine.hear(channel, said)
    assert condition_of(machine.only_said()) == condition


def test_a_session_ends_when_the_peer_says_so() -> None:
    machine, session, link = receiver_machine()
    machine.hear(0, End(Error("amqp:not-allowed")))
    assert machine.said() == [(0, End())]
    assert session.state is SessionState.ENDED
    assert not link.is_attached
    assert machine.calls.all == [("session_ended", ("amqp:not-allowed", True))]
    machine.hear(0, Begin(None, 0, 1, 1))
    assert isinstance(machine.only_said(), Begin)


def test_a_session_that_we_end_discards_until_it_is_answered() -> None:
    machine, session, _ = receiver_machine()
    machine.connection.end_session(session, None)
    assert machine.said() == [(0, End())]
    machine.hear(0, Transfer(0, 0, b"t", 0, True), b"x" * 40)
    machine.hear(0, Transfer(5, 0, b"t", 0, True, True), b"x" * 40)
    machine.hear(0, sending_attach("other", 1))
    assert machine.calls.all == []
    machine.hear(0, End())
    assert machine.calls.all == [("session_ended", None)]
    assert machine.said() == []


def test_a_session_that_ends_before_it_was_answered_takes_both_answers() -> None:
    machine = open_machine(Role.CLIENT)
    session = machine.connection.begin()
    machine.connection.end_session(session, None)
    other = machine.connection.begin()
    assert other.channel != session.channel
    machine.hear(3, Begin(session.channel, 0, 1, 1))
    machine.hear(3, End())
    assert machine.calls.named("session_ended") == [(None,)]
    assert machine.connection.begin().channel == session.channel


def test_channels_run_out() -> None:
    machine = open_machine(Role.CLIENT, Limits(channel_max=1))
    assert [machine.connection.begin().channel for _ in range(2)] == [0, 1]
    with pytest.raises(ConnectionFault):
        machine.connection.begin()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (SessionFault("amqp:not-allowed", "x"), "amqp:not-allowed"),
        (LinkFault("amqp:not-found", "x"), "amqp:not-found"),
    ],
)
def test_what_a_listener_raises_at_a_begin_ends_the_session(
    error: Exception, expected: str
) -> None:
    machine = open_machine()
    machine.calls.raises = error
    machine.hear(0, Begin(None, 0, 1, 1))
    (_, begin), (_, end) = machine.said()
    assert isinstance(begin, Begin)
    assert isinstance(end, End)
    assert condition_of(end) == expected
    assert machine.calls.named("session_ended") == [((expected, False),)]


def test_an_attach_is_answered_in_the_other_role() -> None:
    machine, session = session_machine()
    machine.hear(0, sending_attach())
    answer = machine.only_said()
    assert isinstance(answer, Attach)
    assert answer.role is True
    assert answer.initial_delivery_count is None
    assert answer.max_message_size == Limits().message_bytes_max
    machine.hear(0, Attach("out", 1, True, source=Source("s")))
    answer = machine.only_said()
    assert isinstance(answer, Attach)
    assert (answer.role, answer.handle, answer.initial_delivery_count) == (False, 1, 0)
    assert [type(link) for link in session.links.values()] == [ReceivingLink, SendingLink]


def test_a_coordinator_is_a_target() -> None:
    machine, _ = session_machine()
    attach = sending_attach()
    attach.target = Coordinator(["amqp:local-transactions"])
    machine.hear(0, attach)
    assert machine.listener.links[0].target == attach.target


@pytest.mark.parametrize(
    ("said", "kind", "condition"),
    [
        (sending_attach("b", 0), End, "amqp:session:handle-in-use"),
        (sending_attach("b", 256), Close, "amqp:connection:framing-error"),
        (Attach("b", 1, False), End, "amqp:invalid-field"),
        (Detach(9), End, "amqp:session:unattached-handle"),
        (Flow(0, 1, 1, 1, 9, 0, 1), End, "amqp:session:unattached-handle"),
        (Transfer(9, 0, b""), End, "amqp:session:unattached-handle"),
        (Disposition(True, 5, 4), End, "amqp:invalid-field"),
        (Flow(9, 1, 0, 1), End, "amqp:invalid-field"),
    ],
)
def test_mistakes_end_the_endpoint_they_are_made_on(
    said: Composite, kind: type[Composite], condition: str
) -> None:
    machine, _, _ = receiver_machine()
    machine.hear(0, said)
    answer = machine.only_said()
    assert isinstance(answer, kind)
    assert condition_of(answer) == condition


def test_a_transfer_to_a_sender_is_errant() -> None:
    machine, _, _ = sender_machine()
    machine.hear(0, Transfer(0, 0, b""))
    assert condition_of(machine.only_said()) == "amqp:session:errant-link"


def test_a_refused_attach_has_no_terminus_and_is_detached() -> None:
    machine, session = session_machine()
    machine.calls.raises = LinkFault("amqp:not-found", "no such node")
    machine.hear(0, sending_attach())
    (_, attach), (_, detach) = machine.said()
    assert isinstance(attach, Attach)
    assert attach.target is None
    assert attach.source == Source("s")
    assert isinstance(detach, Detach)
    assert detach.closed
    assert condition_of(detach) == "amqp:not-found"
    assert machine.calls.named("link_ended") == [("in", ("amqp:not-found", False), True)]
    machine.hear(0, Detach(0, True))
    assert session.links == {}
    assert machine.said() == []


def test_an_attach_may_be_answered_later() -> None:
    machine, session = session_machine()
    machine.listener.answers = False
    machine.hear(0, Attach("out", 0, True, source=Source("s")))
    machine.hear(0, Flow(0, 100, 0, 100, 0, None, 5))
    (link,) = machine.listener.links
    assert isinstance(link, SendingLink)
    assert link.credit == 5
    assert link.capacity() == 0
    assert machine.said() == []
    link.listener = machine.listener.sender
    machine.connection.attach(session, link, Attach(source=Source("s")))
    assert link.capacity() == 5
    link.send(SentDelivery(), b"", b"x")
    assert [said.wire_name() for _, said in machine.said()] == ["attach", "transfer"]


def test_an_attach_that_is_taken_back_before_it_is_answered_gets_both_answers() -> None:
    machine, session = session_machine()
    machine.listener.answers = False
    machine.hear(0, sending_attach())
    machine.hear(0, Detach(0, True))
    assert [said.wire_name() for _, said in machine.said()] == ["attach", "detach"]
    assert machine.calls.named("link_ended") == [("in", None, True)]
    (link,) = machine.listener.links
    machine.connection.attach(session, link, Attach())
    machine.connection.refuse(session, link, LinkFault("amqp:not-found"))
    assert machine.said() == []


def test_a_sender_may_not_send_before_it_is_answered() -> None:
    machine, _ = session_machine()
    machine.listener.answers = False
    machine.hear(0, sending_attach())
    machine.hear(0, Transfer(0, 0, b"", 0, True))
    assert condition_of(machine.only_said()) == "amqp:session:unattached-handle"


@pytest.mark.parametrize("closed", [True, False])
def test_a_detach_of_the_peer_is_answered_alike(closed: bool) -> None:
    machine, session, link = receiver_machine()
    machine.hear(0, Transfer(0, 0, b"tag", 0, False), b"x" * 40)
    machine.hear(0, Detach(0, closed, Error("amqp:link:detach-forced")))
    assert machine.said() == [(0, Detach(0, closed))]
    told = ("in", ("amqp:link:detach-forced", True), closed)
    assert machine.calls.named("link_ended") == [told]
    # What a suspended link had unsettled is there for the owner.
    assert link.unsettled == {0: b"tag"}
    assert session.links == {}
    machine.hear(0, sending_attach())
    assert isinstance(machine.only_said(), Attach)


def test_our_orderly_detach_is_over_when_it_is_answered() -> None:
    machine, session, link = receiver_machine()
    machine.connection.detach(session, link, None, False)
    assert machine.said() == [(0, Detach(0, False))]
    machine.hear(0, Transfer(0, 0, b"tag", 0, False), b"x" * 40)
    machine.hear(0, Flow(0, 1, 0, 1, 0, 0, 1))
    assert machine.calls.all == []
    machine.hear(0, Detach(0))
    assert machine.calls.all == [("link_ended", "in", None, False)]
    assert link.state is LinkState.ENDED
    machine.connection.detach(session, link, None, True)
    assert machine.said() == []


def test_discarded_transfers_do_not_close_the_window_for_good() -> None:
    machine, session, link = receiver_machine(Limits(incoming_window=4))
    machine.connection.detach(session, link, LinkFault("amqp:not-found"), True)
    machine.flush()
    for number in range(20):
        machine.hear(0, Transfer(0, number, b"", 0, True), b"x" * 40)
    assert session.state is SessionState.MAPPED
    assert {type(said) for _, said in machine.said()} == {Flow}


def test_handles_run_out() -> None:
    machine = open_machine()
    machine.hear(0, Begin(None, 0, 10, 10, 0))
    machine.flush()
    machine.hear(0, sending_attach("a", 0))
    machine.flush()
    machine.hear(0, sending_attach("b", 1))
    assert condition_of(machine.only_said()) == "amqp:resource-limit-exceeded"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (LinkFault("amqp:not-found"), Detach),
        (SessionFault("amqp:not-found"), End),
        (ConnectionFault("amqp:not-found"), Close),
        (Malformed("x"), Close),
    ],
)
@pytest.mark.parametrize("more", [True, False])
def test_what_a_listener_raises_at_a_delivery_ends_that_endpoint(
    error: Exception, kind: type[Composite], more: bool
) -> None:
    machine, _, _ = receiver_machine()
    machine.calls.raises = error
    machine.hear(0, Transfer(0, 0, b"t", 0, False, more), b"x" * 40)
    if more:
        machine.hear(0, Transfer(0), b"y" * 40)
    answer = machine.only_said()
    assert isinstance(answer, kind)
    assert condition_of(answer) in {"amqp:not-found", "amqp:decode-error"}


def test_links_pair_by_name_and_role() -> None:
    pair = Pair()
    session = pair.connect()
    client = pair.client
    receiver = KeepingReceiver(client.calls)
    link = client.connection.attach_receiver(session, "same", receiver, Attach())
    other = client.connection.attach_sender(session, "same", client.listener.sender, Attach())
    pair.transfer()
    assert link.is_attached
    assert other.is_attached
    assert pair.server.calls.named("attach") == [("same", False, None), ("same", True, None)]


def test_the_unsettled_map_and_the_resume_flag_cross() -> None:
    pair = Pair()
    session = pair.connect()
    client = pair.client.connection
    attach = Attach(
        source=Source("s"), target=Target("t"), unsettled={b"a": None, b"b": Accepted()}
    )
    attach.initial_delivery_count = 0xFFFF_FFFE
    sender = client.attach_sender(session, "resumed", pair.client.listener.sender, attach)
    pair.transfer()
    unsettled = {b"a": None, b"b": Accepted()}
    assert pair.server.calls.named("attach") == [("resumed", True, unsettled)]
    (link,) = pair.server.listener.links
    assert isinstance(link, ReceivingLink)
    assert link.delivery_count == 0xFFFF_FFFE
    link.offer(5)
    link.flow_if_needed()
    pair.transfer()
    assert sender.credit == 5
    resumed = Transfer(delivery_tag=b"a", settled=False, state=Accepted(), resume=True)
    sender.send_as(resumed, b"")
    sent = SentDelivery()
    sender.send(sent, b"", b"x")
    sender.send(SentDelivery(), b"", b"y")
    pair.transfer()
    assert pair.server.calls.named("resumed") == [("resumed", 0, b"a", b"", False, Accepted())]
    tags = [call[2] for call in pair.server.calls.named("delivery")]
    assert tags == [b"\xff\xff\xff\xff", b"\x00\x00\x00\x00"]
    assert sent.delivery_tag() == b"\xff\xff\xff\xff"
    assert link.delivery_count == sender.delivery_count == 1


def test_nothing_is_said_on_a_session_that_has_ended() -> None:
    machine, session, link = receiver_machine()
    machine.connection.end_session(session, SessionFault("amqp:internal-error"))
    machine.flush()
    session.settle(0, 0, Accepted())
    session.say_state(0, 0, Accepted())
    session.settle_sent(0, 0, Accepted())
    session.flow_if_needed()
    link.offer(1000)
    link.flow_if_needed()
    machine.connection.detach(session, link, None, True)
    machine.connection.end_session(session, None)
    assert machine.flush() == b""


def test_everything_ends_with_the_connection() -> None:
    machine, session, link = receiver_machine()
    machine.hear(0, Transfer(0, 0, b"t", 0, False, True), b"x" * 40)
    assert machine.connection.buffered() == 40
    machine.hear(0, Close())
    assert machine.connection.buffered() == 0
    assert not session.is_open
    assert not link.is_attached
    assert machine.calls.all == [("connection_ended", None)]
    assert machine.state() is ConnectionState.ENDED
