"""The sending end of a link: credit used, frames written, dispositions heard."""

import pytest

from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.performatives_generated import (
    Accepted,
    Attach,
    Detach,
    Disposition,
    Flow,
    Modified,
    Received,
    Rejected,
    Released,
    Source,
    Target,
    TransactionalState,
    Transfer,
)
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.sending import SendingLink, SentDelivery, SettlementListener
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED
from penstock.wire.amqp10.values import Composite
from tests.wire.amqp10.doubles import (
    Pair,
    decode_frames,
    frame,
    sender_machine,
)

BODY = b"x" * 40


def credit(count: int, delivery_count: int = 0, window: int = 1000, drain: bool = False) -> Flow:
    """A flow of a receiver that has heard nothing of ours yet."""
    return Flow(0, window, 0, window, 0, delivery_count, count, None, drain)


def ends_link(said: Composite) -> str:
    assert isinstance(said, Detach)
    assert said.closed
    assert said.error is not None
    return said.error.condition


def test_without_credit_nothing_is_sent() -> None:
    machine, _, link = sender_machine()
    assert link.capacity() == 0
    with pytest.raises(AssertionError):
        link.send_settled(b"", b"x")
    machine.hear(0, credit(2))
    assert link.capacity() == 2
    link.send_settled(b"", b"x")
    link.send(SentDelivery(), b"he", b"ad")
    assert link.capacity() == 0
    sent = [(said, payload) for _, said, payload in decode_frames(machine.flush())]
    assert sent == [
        (Transfer(0, 0, b"\x00\x00\x00\x00", 0, True), b"x"),
        (Transfer(0, 1, b"\x00\x00\x00\x01", 0, False), b"head"),
    ]
    assert list(link.unsettled) == [1]


@pytest.mark.parametrize("handle", [0, 1, 300])
def test_the_kept_parts_of_a_transfer_follow_ids_and_sizes(handle: int) -> None:
    machine, session, link = sender_machine()
    link.said(Attach("out", handle, False, initial_delivery_count=0xFFFF_FFF0))
    session.next_delivery_id = 0xFFFF_FE80
    link.credit = session.remote_incoming_window = 1000
    for number in range(600):
        link.send_settled(b"", b"y" * (1 + number // 100))
    for number, (_, said, payload) in enumerate(decode_frames(machine.flush())):
        tag = ((0xFFFF_FFF0 + number) & 0xFFFF_FFFF).to_bytes(4, "big")
        delivery_id = (0xFFFF_FE80 + number) & 0xFFFF_FFFF
        assert said == Transfer(handle, delivery_id, tag, 0, True)
        assert payload == b"y" * (1 + number // 100)
    assert link.delivery_count == (0xFFFF_FFF0 + 600) & 0xFFFF_FFFF


def test_a_large_message_goes_out_in_frames_that_the_peer_takes() -> None:
    machine, session, link = sender_machine()
    session.frame_max = 512
    machine.hear(0, credit(5))
    link.send(SentDelivery(), b"h" * 3, b"b" * 2000)
    link.send_settled(b"", b"c" * 600)
    sent = decode_frames(machine.flush())
    assert b"".join(payload for _, _, payload in sent[:-2]) == b"hhh" + b"b" * 2000
    transfers = [said for _, said, _ in sent]
    assert [getattr(said, "more") for said in transfers] == [True] * 4 + [False, True, False]  # noqa: B009
    # The first of a delivery must name a format.
    formats = [getattr(said, "message_format") for said in transfers]  # noqa: B009
    assert formats == [0, None, None, None, None, 0, None]
    assert session.next_outgoing_id == len(sent)
    assert all(len(said.encode()) + len(payload) + 8 <= 512 for _, said, payload in sent)


def test_a_large_message_waits_for_the_window_frame_by_frame() -> None:
    machine, session, link = sender_machine(window=2)
    session.frame_max = 512
    machine.hear(0, credit(5, window=2))
    link.send(SentDelivery(), b"", b"b" * 2000)
    assert len(decode_frames(machine.flush())) == 2
    assert link.is_waiting()
    assert link.capacity() == 0
    machine.hear(0, Flow(2, 2, 0, 10))
    assert len(decode_frames(machine.flush())) == 2
    machine.hear(0, Flow(4, 2, 0, 10))
    ((_, said, _),) = decode_frames(machine.flush())
    assert said == Transfer(0, 0, more=False)
    assert not link.is_waiting()
    assert machine.calls.named("credit")[-1] == ("out", 4)


@pytest.mark.parametrize("window", [0, 2])
def test_a_message_that_is_half_sent_can_be_aborted(window: int) -> None:
    machine, session, link = sender_machine(window=2)
    outgoing_window = session.outgoing_window
    session.frame_max = 512
    machine.hear(0, credit(5, window=2))
    link.send(SentDelivery(), b"", b"b" * 2000)
    machine.flush()
    if window:
        machine.hear(0, Flow(2, 0, 0, 10))
        session.remote_incoming_window = 1
    link.abort()
    if not window:
        assert machine.flush() == b""
        machine.hear(0, Flow(2, 1, 0, 10))
    ((_, said, payload),) = decode_frames(machine.flush())
    assert said == Transfer(0, 0, aborted=True)
    assert payload == b""
    assert link.unsettled == {}
    assert session.outgoing_window == outgoing_window
    link.abort()
    assert machine.flush() == b""


def test_credit_counts_from_what_the_receiver_has_seen() -> None:
    machine, _, link = sender_machine()
    machine.hear(0, credit(10))
    for _ in range(4):
        link.send_settled(b"", b"x")
    machine.hear(0, Flow(1, 1000, 0, 1000, 0, 1, 10))
    assert link.credit == 7
    machine.hear(0, Flow(1, 1000, 0, 1000, 0, None, 10))
    assert link.credit == 6
    machine.hear(0, Flow(1, 1000, 0, 1000, 0, 1, 1))
    assert link.credit == -2
    assert link.capacity() == 0
    machine.flush()
    machine.hear(0, Flow(1, 1000, 0, 1000, 0, 9, 1))
    assert ends_link(machine.only_said()) == "amqp:invalid-field"


def test_drain_uses_up_the_credit() -> None:
    machine, _, link = sender_machine()
    machine.listener.sender.waiting = [b"a", b"b"]
    machine.hear(0, credit(10, drain=True))
    names = machine.said()
    assert [said.wire_name() for _, said in names] == ["transfer", "transfer", "flow"]
    flow = names[-1][1]
    assert isinstance(flow, Flow)
    assert (flow.delivery_count, flow.link_credit, flow.available) == (10, 0, 0)
    assert flow.drain
    assert (link.credit, link.delivery_count) == (0, 10)
    link.drained()
    assert machine.said() == []


def test_an_echo_tells_what_is_available() -> None:
    machine, _, _ = sender_machine()
    machine.listener.sender.waiting = [b"a", b"b", b"c"]
    asked = credit(1)
    asked.echo = True
    machine.hear(0, asked)
    flow = machine.said()[-1][1]
    assert isinstance(flow, Flow)
    assert (flow.available, flow.link_credit, flow.delivery_count) == (2, 0, 1)


OUTCOMES: list[Composite | None] = [
    Accepted(),
    Rejected(),
    Released(),
    Modified(delivery_failed=True),
    TransactionalState(b"t", Accepted()),
    Received(0, 5),
    None,
]


@pytest.mark.parametrize("state", OUTCOMES, ids=repr)
@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("base", [0, 100, 0xFFFF_FFFE])
def test_dispositions_reach_the_deliveries_of_their_range(
    state: Composite | None, settled: bool, base: int
) -> None:
    machine, session, link = sender_machine()
    session.next_delivery_id = base
    machine.hear(0, credit(10))
    for _ in range(5):
        link.send(SentDelivery(), b"", BODY)
    ids = [(base + number) & 0xFFFF_FFFF for number in range(5)]
    window = session.outgoing_window
    machine.hear(0, Disposition(True, ids[1], ids[3], settled, state))
    updated = [(call[1], call[3], call[4]) for call in machine.calls.named("updated")]
    assert updated == [(number, state, settled) for number in ids[1:4]]
    assert list(link.unsettled) == ([ids[0], ids[4]] if settled else ids)
    assert session.outgoing_window == window + (3 if settled else 0)
    # A single one, one that is gone, and a range as large as can be.
    machine.hear(0, Disposition(True, ids[0], None, True, state))
    machine.hear(0, Disposition(True, ids[0], ids[0], True, state))
    machine.hear(0, Disposition(True, ids[0], (base + 0x7FFF_FFFF) & 0xFFFF_FFFF, True, state))
    assert link.unsettled == {}
    assert session.outgoing_window == Limits().outgoing_window


@pytest.mark.parametrize("batchable", ["", "41", "42"])
@pytest.mark.parametrize(("first", "last"), [("43", "40"), ("43", "43"), ("5200", "5201")])
def test_octets_of_an_acceptance(first: str, last: str, batchable: str) -> None:
    machine, _, link = sender_machine()
    machine.hear(0, credit(10))
    for _ in range(2):
        link.send(SentDelivery(), b"", BODY)
    fields = bytes.fromhex("41" + first + last + "41" + "00532445" + batchable)
    count = 6 if batchable else 5
    content = bytes((len(fields) + 1, count)) + fields
    body = b"\x00\x53\x15\xc0" + content
    machine.receive((8 + len(body)).to_bytes(4, "big") + b"\x02\x00\x00\x00" + body)
    assert len(machine.calls.named("updated")) == (2 if last == "5201" else 1)
    assert machine.state().value == "opened"


def test_we_settle_what_the_receiver_only_decided() -> None:
    machine, session, link = sender_machine()
    machine.hear(0, credit(10))
    for _ in range(3):
        link.send(SentDelivery(), b"", BODY)
    machine.flush()
    machine.hear(0, Disposition(True, 0, 1, False, Accepted()))
    session.settle_sent(0, 1, Accepted())
    assert machine.said() == [(0, Disposition(False, 0, 1, True, Accepted()))]
    assert list(link.unsettled) == [2]


def test_our_own_window_bounds_what_is_unsettled() -> None:
    machine, _, link = sender_machine(Limits(outgoing_window=3))
    machine.listener.sender.waiting = [b"m%d" % number for number in range(10)]
    machine.hear(0, credit(100))
    assert list(link.unsettled) == [0, 1, 2]
    machine.hear(0, Disposition(True, 0, 1, True, Accepted()))
    assert list(link.unsettled) == [2, 3, 4]


def test_a_tag_of_the_owners_choice() -> None:
    machine, _, link = sender_machine()
    machine.hear(0, credit(10))
    sent = SentDelivery()
    sent.tag = b"mine"
    link.send(sent, b"", b"x")
    ((_, said, _),) = decode_frames(machine.flush())
    assert said == Transfer(0, 0, b"mine", 0, settled=False)
    assert sent.delivery_tag() == b"mine"
    assert link.unsettled == {0: sent}


class ManyAtOnce(SettlementListener):
    """Keeps what it hears of several deliveries at once."""

    def __init__(self) -> None:
        self.accepted: list[list[int]] = []

    def credit_changed(self, link: SendingLink) -> None: ...

    def deliveries_accepted(self, link: SendingLink, accepted: list[SentDelivery]) -> None:
        self.accepted.append([sent.delivery_id for sent in accepted])


def test_deliveries_that_one_disposition_accepts_are_told_together() -> None:
    machine, session, link = sender_machine()
    listener = ManyAtOnce()
    link.listener = listener
    machine.hear(0, credit(5))
    for _ in range(5):
        link.send(SentDelivery(), b"", b"x")
    window = session.outgoing_window
    machine.hear(0, Disposition(True, 1, 3, True, Accepted()))
    machine.hear(0, Disposition(True, 0, 9, True, Accepted(), True))
    machine.hear(0, Disposition(True, 0, 9, True, Accepted()))
    assert listener.accepted == [[1, 2, 3], [0, 4]]
    assert link.unsettled == {}
    assert session.outgoing_window == window + 5


def test_a_delivery_is_sent_again_with_its_tag() -> None:
    machine, _, link = sender_machine()
    machine.hear(0, credit(2))
    sent = SentDelivery()
    sent.tag = b"old"
    link.send_again(sent, Transfer(delivery_tag=b"old", settled=False, resume=True), b"x")
    assert link.unsettled == {0: sent}
    ((_, said, payload),) = decode_frames(machine.flush())
    assert said == Transfer(0, 0, b"old", 0, settled=False, resume=True)
    assert payload == b"x"


def test_a_message_of_many_frames_may_leave_no_window_for_the_next() -> None:
    machine, _, link = sender_machine()
    machine.hear(0, credit(5, window=2))
    assert link.can_send()
    link.send_settled(b"", b"x" * 2 * 131_072)
    assert not link.can_send()
    machine.hear(0, Flow(2, 5, 0, 5, 0, 0, 5))
    assert link.can_send()


def test_several_links_share_delivery_ids_and_dispositions() -> None:
    machine, _, link = sender_machine()
    machine.hear(0, Attach("two", 1, True, source=Source("s"), target=Target("t")))
    other = machine.listener.links[1]
    assert isinstance(other, SendingLink)
    machine.hear(0, credit(10))
    second = credit(10)
    second.handle = 1
    machine.hear(0, second)
    for number in range(6):
        (link if number % 2 else other).send(SentDelivery(), b"", BODY)
    assert (list(link.unsettled), list(other.unsettled)) == ([1, 3, 5], [0, 2, 4])
    machine.hear(0, Disposition(True, 1, 4, True, Accepted()))
    assert (list(link.unsettled), list(other.unsettled)) == ([5], [0])
    machine.receive(frame(0, Disposition(True, 0, 5, True, Accepted())))
    assert (link.unsettled, other.unsettled) == ({}, {})


def test_two_machines_send_to_each_other() -> None:
    pair = Pair()
    session = pair.connect()
    sender = pair.client.connection.attach_sender(
        session, "a", pair.client.listener.sender, Attach(source=Source("s"), target=Target("t"))
    )
    pair.transfer()
    (link,) = pair.server.listener.links
    assert isinstance(link, ReceivingLink)
    link.offer(10)
    link.flow_if_needed()
    pair.transfer()
    sender.send(SentDelivery(), b"", b"hello")
    pair.transfer()
    pair.server.listener.sessions[0].settle(0, 0, OUTCOME_ACCEPTED)
    pair.transfer()
    assert pair.client.calls.named("updated") == [("a", 0, b"\0\0\0\0", Accepted(), True)]
