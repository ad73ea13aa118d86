"""The receiving end of a link: deliveries of one frame and of many, credit given, settlement."""

import pytest

from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.performatives_generated import (
    Accepted,
    Attach,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Rejected,
    Released,
    TransactionalState,
    Transfer,
)
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED
from penstock.wire.amqp10.values import Composite
from tests.wire.amqp10.doubles import (
    Calls,
    KeepingReceiver,
    receiver_machine,
)

BODY = b"x" * 40


@pytest.mark.parametrize("body", [BODY, b""], ids=["hot", "general"])
@pytest.mark.parametrize("settled", [True, False, None])
def test_a_delivery_of_one_frame(body: bytes, settled: bool | None) -> None:
    machine, session, link = receiver_machine(credit=3)
    machine.hear(0, Transfer(0, 7, b"tag", 0, settled), body)
    delivery = ("in", 7, b"tag", body, settled is True, None)
    assert machine.calls.named("delivery") == [delivery]
    assert link.unsettled == ({} if settled else {7: b"tag"})
    assert (link.credit, link.delivery_count, session.next_incoming_id) == (2, 1, 1)


# The same transfer in many spellings; the fast path takes some of them, and all mean the same.
SPELLINGS = [
    Transfer(0, 300, b"tag", 0, False),
    Transfer(0, 300, b"tag", None, False),
    Transfer(0, 300, b"tag", None, None),
    Transfer(0, 300, b"tag", 0, False, batchable=True),
    Transfer(0, 300, b"tag", 5, False),
    Transfer(0, 300, b"tag", 300, False),
]


@pytest.mark.parametrize("transfer", SPELLINGS, ids=repr)
def test_spellings_of_a_transfer(transfer: Transfer) -> None:
    machine, _, _ = receiver_machine()
    machine.hear(0, transfer, BODY)
    assert machine.calls.named("delivery") == [("in", 300, b"tag", BODY, False, None)]


@pytest.mark.parametrize(
    "fields",
    [
        "05 7000000000 700000012c a003746167 43 42",
        "05 5200 700000012c b000000003746167 43 42",
        "05 43 700000012c a003746167 5200 40",
        "05 43 700000012c a003746167 7000000000 5600",
        "06 43 700000012c a003746167 43 42 42",
        "0b 43 700000012c a003746167 43 42 40 40 40 42 40 41",
        "0b 43 700000012c a003746167 43 42 42 5000 40 42 42 42",
        "0c 43 700000012c a003746167 43 42 42 40 40 42 42 42 41",
    ],
)
def test_octets_of_a_transfer(fields: str) -> None:
    machine, _, _ = receiver_machine()
    content = bytes.fromhex(fields)
    body = b"\x00\x53\x14\xc0" + bytes((len(content),)) + content + BODY
    machine.receive((8 + len(body)).to_bytes(4, "big") + b"\x02\x00\x00\x00" + body)
    assert machine.calls.named("delivery") == [("in", 300, b"tag", BODY, False, None)]


@pytest.mark.parametrize(
    "fields",
    [
        "06 43 700000012c a003746167 43 42 43",  # more is no uint
        "05 43 700000012c a003746167 43 43",
        "05 43 700000012c a003746167 41 42",
        "07 43 700000012c a003746167 43 42 42 42",  # rcv-settle-mode is no boolean
        "05 43 700000012c a0ff746167 43 42",
        "06 43 700000012c a003746167 43 42",
        "04 43 700000012c a003746167 43 42",
        "05 43 40 a003746167 43",
    ],
)
def test_octets_that_are_no_transfer(fields: str) -> None:
    machine, _, _ = receiver_machine()
    content = bytes.fromhex(fields)
    body = b"\x00\x53\x14\xc0" + bytes((len(content),)) + content + BODY
    machine.receive((8 + len(body)).to_bytes(4, "big") + b"\x02\x00\x00\x00" + body)
    assert machine.calls.named("delivery") == []
    (answer,) = [said for _, said in machine.said()]
    assert isinstance(answer, Close)
    assert answer.error is not None
    assert answer.error.condition == "amqp:decode-error"


def test_a_delivery_of_many_frames_is_put_together() -> None:
    machine, session, link = receiver_machine(credit=2)
    state = TransactionalState(b"txn")
    machine.hear(0, Transfer(0, 1, b"t", 0, None, True), b"a")
    machine.hear(0, Transfer(0, 1, more=True, state=state), b"b" * 40)
    machine.hear(0, Transfer(0, settled=True), b"c")
    assert machine.calls.named("delivery") == [
        ("in", 1, b"t", b"a" + b"b" * 40 + b"c", True, state)
    ]
    assert (link.credit, link.delivery_count, session.next_incoming_id) == (1, 1, 3)
    assert machine.connection.buffered() == 0
    assert link.unsettled == {}


def test_a_delivery_larger_than_the_window_still_arrives() -> None:
    machine, session, link = receiver_machine(Limits(incoming_window=3))
    for number in range(20):
        machine.hear(0, Transfer(0, 0, b"t", 0, False, number < 19), b"a" * 40)
    ((_, _, _, payload, _, _),) = machine.calls.named("delivery")
    assert payload == b"a" * 800
    flows = [said for _, said in machine.said()]
    assert flows
    assert all(isinstance(flow, Flow) and flow.handle is None for flow in flows)
    assert session.incoming_window > 0
    assert link.expects_whole


@pytest.mark.parametrize("frames", [0, 1, 3])
def test_an_aborted_delivery_is_forgotten_but_counted(frames: int) -> None:
    machine, _, link = receiver_machine(credit=2)
    for _ in range(frames):
        machine.hear(0, Transfer(0, 1, b"t", 0, None, True), BODY)
    machine.hear(0, Transfer(0, 1, b"t", aborted=True))
    assert machine.calls.named("delivery") == []
    assert machine.connection.buffered() == 0
    assert (link.credit, link.delivery_count, link.unsettled) == (1, 1, {})
    machine.hear(0, Transfer(0, 2, b"u", 0, True), BODY)
    assert len(machine.calls.named("delivery")) == 1


def ends_link(said: Composite) -> str:
    assert isinstance(said, Detach)
    assert said.closed
    assert said.error is not None
    return said.error.condition


@pytest.mark.parametrize("body", [BODY, b""], ids=["hot", "general"])
def test_a_transfer_without_credit_ends_the_link(body: bytes) -> None:
    machine, session, _ = receiver_machine(credit=1)
    machine.hear(0, Transfer(0, 0, b"t", 0, True), body)
    machine.hear(0, Transfer(0, 1, b"t", 0, True), body)
    assert ends_link(machine.only_said()) == "amqp:link:transfer-limit-exceeded"
    assert len(machine.calls.named("delivery")) == 1
    assert session.is_open


@pytest.mark.parametrize("body", [BODY, b""], ids=["hot", "general"])
def test_a_transfer_beyond_the_window_ends_the_session(body: bytes) -> None:
    machine, session, _ = receiver_machine(Limits(incoming_window=2))
    machine.listener.receiver.takes = False
    for number in range(3):
        machine.hear(0, Transfer(0, number, b"t", 0, True), body)
    answer = machine.only_said()
    assert isinstance(answer, End)
    assert answer.error is not None
    assert answer.error.condition == "amqp:session:window-violation"
    assert len(machine.calls.named("delivery")) == 2
    assert not session.is_open


@pytest.mark.parametrize("sizes", [[51], [40, 11], [20, 20, 20]])
def test_a_message_that_is_too_large_ends_the_link(sizes: list[int]) -> None:
    machine, _, _ = receiver_machine(Limits(message_bytes_max=50))
    for index, size in enumerate(sizes):
        machine.hear(0, Transfer(0, 0, b"t", 0, False, index < len(sizes) - 1), b"x" * size)
    assert ends_link(machine.only_said()) == "amqp:link:message-size-exceeded"
    assert machine.calls.named("delivery") == []
    assert machine.connection.buffered() == 0


def test_unfinished_deliveries_of_all_links_together_are_bounded() -> None:
    machine, _, link = receiver_machine(Limits(assembly_bytes_max=100))
    attach = Attach("two", 1, False, initial_delivery_count=0)
    machine.hear(0, attach)
    (_, two) = machine.listener.links
    assert isinstance(two, ReceivingLink)
    two.offer(5)
    two.flow_if_needed()
    machine.flush()
    machine.hear(0, Transfer(0, 0, b"t", 0, False, True), b"x" * 60)
    machine.hear(0, Transfer(1, 1, b"t", 0, False, True), b"x" * 60)
    answer = machine.only_said()
    assert isinstance(answer, Close)
    assert answer.error is not None
    assert answer.error.condition == "amqp:resource-limit-exceeded"
    assert machine.connection.buffered() == 0
    assert link.assembly == b""


@pytest.mark.parametrize(
    "transfers",
    [
        [Transfer(0)],
        [Transfer(0, 1)],
        [Transfer(0, None, b"t")],
        [Transfer(0, 1, b"t", rcv_settle_mode=1)],
        [Transfer(0, 1, b"t", 0, False), Transfer(0, 1, b"u", 0, False)],
        [Transfer(0, 1, b"t", 0, False, True), Transfer(0, 2, b"u", 0, False)],
    ],
)
def test_transfers_that_make_no_sense_end_the_link(transfers: list[Transfer]) -> None:
    machine, _, _ = receiver_machine()
    for transfer in transfers:
        machine.hear(0, transfer, BODY)
    assert ends_link(machine.only_said()) in {"amqp:invalid-field", "amqp:not-allowed"}


def test_settling_is_said_by_range() -> None:
    machine, session, link = receiver_machine()
    for number in range(5):
        machine.hear(0, Transfer(0, number, b"t", 0, False), BODY)
    session.settle(0, 2, OUTCOME_ACCEPTED)
    session.settle(3, 3, Rejected())
    assert machine.said() == [
        (0, Disposition(True, 0, 2, True, Accepted())),
        (0, Disposition(True, 3, None, True, Rejected())),
    ]
    assert list(link.unsettled) == [4]
    session.settle(0, 0xFFFF_FFF0, Released())
    assert link.unsettled == {}


def test_with_rcv_settle_mode_second_the_sender_settles_first() -> None:
    machine, session, link = receiver_machine()
    for number in range(3):
        machine.hear(0, Transfer(0, number, b"t%d" % number, 0, False), BODY)
    machine.flush()
    session.say_state(0, 2, Accepted())
    assert machine.said() == [(0, Disposition(True, 0, 2, False, Accepted()))]
    assert len(link.unsettled) == 3
    machine.hear(0, Disposition(False, 0, 1, True, Accepted()))
    assert machine.calls.named("sender_settled") == [
        ("in", 0, b"t0", Accepted()),
        ("in", 1, b"t1", Accepted()),
    ]
    assert list(link.unsettled) == [2]
    # Not settled yet, or not known: nothing to do.
    machine.hear(0, Disposition(False, 2, 2, False, Accepted()))
    machine.hear(0, Disposition(False, 50, 5_000_000, True))
    assert list(link.unsettled) == [2]


class ModeKeeper(KeepingReceiver):
    """Keeps the rcv-settle-mode of each delivery while it is told."""

    def __init__(self) -> None:
        super().__init__(Calls())
        self.modes: list[int | None] = []

    def delivery_received(
        self,
        link: ReceivingLink,
        delivery_id: int,
        tag: bytes,
        payload: bytes,
        settled: bool,
        message_format: int,
        state: Composite | None,
    ) -> None:
        self.modes.append(link.delivery_settle_mode)


def test_a_transfer_may_have_a_settle_mode_of_its_own() -> None:
    machine, _, link = receiver_machine(credit=3)
    link.rcv_settle_mode = 1
    listener = ModeKeeper()
    link.listener = listener
    machine.hear(0, Transfer(0, 0, b"a", 0, False), BODY)
    machine.hear(0, Transfer(0, 1, b"b", 0, False, rcv_settle_mode=0), BODY)
    machine.hear(0, Transfer(0, 2, b"c", 0, False), BODY)
    assert listener.modes == [None, 0, None]


def test_credit_is_given_again_when_half_is_used() -> None:
    machine, _, link = receiver_machine(credit=4)
    machine.hear(0, Transfer(0, 0, b"t", 0, True), BODY)
    link.flow_if_needed()
    assert machine.said() == []
    machine.hear(0, Transfer(0, 1, b"t", 0, True), BODY)
    link.flow_if_needed()
    flow = machine.only_said()
    assert isinstance(flow, Flow)
    assert (flow.handle, flow.link_credit, flow.delivery_count) == (0, 4, 2)
    assert flow.next_incoming_id == 2
    link.flow_if_needed()
    assert machine.said() == []


def test_credit_can_be_taken_back() -> None:
    machine, _, link = receiver_machine(credit=10)
    link.offer(0)
    link.flow_if_needed()
    flow = machine.only_said()
    assert isinstance(flow, Flow)
    assert flow.link_credit == 0
    assert link.credit == 0
    # The sender may not have known: what it was allowed once is borne, and no more.
    for number in range(10):
        machine.hear(0, Transfer(0, number, b"t", 0, True), BODY)
    assert len(machine.calls.named("delivery")) == 10
    assert machine.said() == []
    machine.hear(0, Transfer(0, 10, b"t", 0, True), BODY)
    assert ends_link(machine.only_said()) == "amqp:link:transfer-limit-exceeded"


def test_credit_that_was_taken_back_is_not_given_twice() -> None:
    machine, _, link = receiver_machine(credit=10)
    for wanted in (4, 12, 7):
        link.offer(wanted)
        link.flow_if_needed()
    assert (link.credit, link.overdraft) == (7, 5)
    machine.flush()
    for number in range(12):
        machine.hear(0, Transfer(0, number, b"t", 0, True), BODY)
    assert machine.said() == []
    assert (link.credit, link.overdraft) == (-5, 5)
    link.flow_if_needed()
    flow = machine.only_said()
    assert isinstance(flow, Flow)
    assert (flow.delivery_count, flow.link_credit) == (12, 7)
    assert (link.credit, link.overdraft) == (7, 0)


def test_draining_ends_with_the_senders_answer() -> None:
    machine, _, link = receiver_machine(credit=10)
    link.drain()
    flow = machine.only_said()
    assert isinstance(flow, Flow)
    assert (flow.drain, flow.link_credit) == (True, 10)
    machine.hear(0, Transfer(0, 0, b"t", 0, True), BODY)
    link.offer(20)
    link.flow_if_needed()
    # More credit now would be drained away as well.
    assert machine.said() == []
    machine.hear(0, Flow(0, 10, 1, 10, 0, 10, 0, 3, True))
    assert machine.calls.named("drained") == [("in",)]
    assert (link.credit, link.delivery_count, link.available) == (0, 10, 3)
    link.flow_if_needed()
    flow = machine.only_said()
    assert isinstance(flow, Flow)
    assert flow.link_credit == 20


@pytest.mark.parametrize("count", [0xFFFF_FFFF, 11])
def test_a_sender_that_counts_wrongly_loses_its_link(count: int) -> None:
    machine, _, _ = receiver_machine(credit=10)
    machine.hear(0, Flow(0, 10, 0, 10, 0, count, 0))
    assert ends_link(machine.only_said()) == "amqp:invalid-field"


@pytest.mark.parametrize("handle", [None, 0])
def test_an_echo_is_answered_once(handle: int | None) -> None:
    machine, _, _ = receiver_machine(credit=10)
    machine.hear(0, Flow(0, 10, 0, 10, handle, echo=True))
    flow = machine.only_said()
    assert isinstance(flow, Flow)
    assert flow.handle == handle
    assert not flow.echo
