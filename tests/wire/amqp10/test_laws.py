"""The laws of windows and credit, whatever the owner does and however bytes are cut.

- Never are more transfers under way than the receiver's session window allows, nor more deliveries
  than its link credit.
- Every message arrives, once and in its order, as long as the receiver takes, settles and gives
  credit: nothing waits for itself.
- Numbers wrap around without anybody noticing.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.performatives_generated import Attach, Begin, Flow, Source, Target
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.sending import SendingLink
from penstock.wire.amqp10.serial import MASK, advance, difference
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED, Session
from penstock.wire.amqp10.window import SessionWindow
from penstock.wire.outgoing import Outgoing
from tests.wire.amqp10.doubles import Pair
from tests.wire.doubles import KeptTransport


class Stream:
    """One link from client to server with all its knobs."""

    def __init__(self, seed: int, window: int, outgoing_window: int, start: int) -> None:
        limits = Limits(incoming_window=window, outgoing_window=outgoing_window, frame_max=600)
        self.pair = Pair(seed, limits, sasl=False)
        session = self.pair.connect()
        # As if the session and the link had been used for long.
        self.server_session = self.pair.server.listener.sessions[0]
        session.next_delivery_id = start
        for one, other in ((session, self.server_session), (self.server_session, session)):
            one.initial_outgoing_id = one.next_outgoing_id = start
            other.next_incoming_id = start
        attach = Attach(source=Source("s"), target=Target("t"), initial_delivery_count=start)
        listener = self.pair.client.listener.sender
        self.sender: SendingLink = self.pair.client.connection.attach_sender(
            session, "stream", listener, attach
        )
        self.listener = listener
        self.session = session
        self.pair.transfer()
        (link,) = self.pair.server.listener.links
        assert isinstance(link, ReceivingLink)
        self.receiver = link
        self.window = window
        self.outgoing_window = outgoing_window
        self.pair.server.listener.receiver.takes = False

    def check(self) -> None:
        """What holds between any two steps."""
        sender, receiver = self.sender, self.receiver
        sent = difference(self.session.next_outgoing_id, self.server_session.next_incoming_id)
        assert 0 <= sent <= self.window
        assert self.server_session.untaken <= self.window
        assert self.server_session.incoming_window <= self.window - self.server_session.untaken
        under_way = difference(sender.delivery_count, receiver.delivery_count)
        assert 0 <= under_way <= receiver.credit + receiver.overdraft
        assert self.session.outgoing_window >= 0
        assert len(sender.unsettled) <= self.outgoing_window

    def heard(self) -> list[object]:
        return [call[3] for call in self.pair.server.calls.named("delivery")]

    def refused(self) -> list[object]:
        calls = self.pair.client.calls, self.pair.server.calls
        names = ("link_ended", "session_ended", "connection_ended")
        return [call for told in calls for name in names for call in told.named(name)]


STEPS = st.lists(
    st.tuples(st.sampled_from(["send", "credit", "take", "settle", "exchange"]), st.integers(1, 6)),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 1000),
    window=st.integers(1, 8),
    outgoing_window=st.integers(1, 8),
    start=st.sampled_from([0, 5, MASK - 3, MASK, 0x7FFF_FFFE]),
    settled=st.booleans(),
    size=st.sampled_from([1, 100, 550, 1500, 5000]),
    steps=STEPS,
)
def test_windows_and_credit_hold_and_nothing_is_stuck(
    seed: int,
    window: int,
    outgoing_window: int,
    start: int,
    settled: bool,
    size: int,
    steps: list[tuple[str, int]],
) -> None:
    stream = Stream(seed, window, outgoing_window, start)
    stream.listener.settled = settled
    count = 0
    next_settled = start
    for step, number in steps:
        if step == "send":
            for _ in range(number):
                stream.listener.waiting.append(b"%d:" % count + b"x" * size)
                count += 1
            stream.listener.pump(stream.sender)
        elif step == "credit":
            stream.receiver.offer(number)
            stream.receiver.flow_if_needed()
        elif step == "take":
            stream.server_session.taken(min(number, stream.server_session.untaken))
            stream.server_session.flow_if_needed()
        elif step == "settle":
            next_settled = settle(stream, next_settled, number)
        else:
            stream.pair.exchange()
        stream.check()
    # From here on the receiver behaves, and everything arrives.
    for _ in range(200 + 20 * count):
        stream.server_session.taken(stream.server_session.untaken)
        next_settled = settle(stream, next_settled, 1000)
        stream.receiver.offer(3)
        stream.receiver.flow_if_needed()
        stream.pair.exchange()
        stream.check()
        if len(stream.heard()) == count and not stream.sender.is_waiting():
            break
    assert stream.heard() == [b"%d:" % number + b"x" * size for number in range(count)]
    assert stream.refused() == []
    stream.pair.transfer()
    settle(stream, next_settled, 1000)
    stream.pair.transfer()
    assert stream.sender.unsettled == {}
    assert stream.session.outgoing_window == outgoing_window


def settle(stream: Stream, first: int, count: int) -> int:
    """Settle some of what has been heard, as one range; where the next range begins."""
    unsettled = list(stream.receiver.unsettled)[:count]
    if not unsettled:
        return first
    stream.server_session.settle(unsettled[0], unsettled[-1], OUTCOME_ACCEPTED)
    return advance(unsettled[-1], 1)


def window_of(limit: int) -> SessionWindow:
    window = SessionWindow(0, Outgoing([], KeptTransport()), Limits(incoming_window=limit), 512)
    window.is_open = True
    return window


def test_the_window_is_opened_when_half_is_free_or_none_is_left() -> None:
    window = window_of(10)
    for _ in range(5):
        window.frame_received()
        window.untaken += 1
    window.flow_if_needed()
    assert (window.incoming_window, window.outgoing.pieces) == (5, [])
    window.taken(4)
    window.flow_if_needed()
    assert (window.incoming_window, window.outgoing.pieces) == (5, [])
    window.taken(1)
    window.flow_if_needed()
    assert window.incoming_window == 10
    assert len(window.outgoing.pieces) == 1
    for _ in range(10):
        window.frame_received()
        window.untaken += 1
    window.taken(1)
    window.flow_if_needed()
    assert window.incoming_window == 1
    assert len(window.outgoing.pieces) == 2


def test_more_cannot_be_taken_than_was_received() -> None:
    window = window_of(10)
    with pytest.raises(AssertionError):
        window.taken(1)


@pytest.mark.parametrize("start", [0, 1, MASK - 1, MASK])
@pytest.mark.parametrize("under_way", [0, 1, 3])
def test_the_peers_window_counts_from_what_it_has_seen(start: int, under_way: int) -> None:
    window = window_of(10)
    window.initial_outgoing_id = window.next_outgoing_id = start
    window.begun_by_peer(Begin(None, 7, 5, 9))
    assert window.remote_incoming_window == 5
    for _ in range(4):
        window.frame_sent()
    assert window.room() == 1
    seen = advance(start, 4 - under_way)
    window.flow_from_peer(Flow(seen, 5, 8, 3))
    assert window.remote_incoming_window == 5 - under_way
    assert (window.next_incoming_id, window.remote_outgoing_window) == (8, 3)
    # Sent before the peer heard our begin: it has seen nothing.
    window.flow_from_peer(Flow(None, 6, 8, 3))
    assert window.remote_incoming_window == 2


def test_a_begin_that_comes_late_counts_what_was_sent_before_it() -> None:
    window = window_of(10)
    window.frame_sent()
    window.frame_sent()
    window.begun_by_peer(Begin(0, 0, 5, 9))
    assert window.remote_incoming_window == 3


def test_a_full_window_is_remembered() -> None:
    window = window_of(10)
    assert window.room() == 0
    assert window.is_stalled


def test_a_session_knows_its_links_by_both_handles() -> None:
    session = Session(0, Outgoing([], KeptTransport()), Limits(), 512)
    assert session.free_handle() == 0
    assert session.by_remote_handle(0) is None
    assert session.all_links() == []
