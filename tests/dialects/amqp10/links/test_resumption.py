"""Suspension, resumption and stealing of receivers' links (specification 2.6.13)."""

from __future__ import annotations

import pytest

from penstock.broker.message import NOBODY, Address, Message
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.topology import DeleteQueue
from penstock.dialects.amqp10.links import suspended_links
from penstock.dialects.amqp10.messages.properties import read_head
from penstock.storage.memory_disk import MemoryDisk
from penstock.wire.amqp10.performatives_generated import (
    Accepted,
    Data,
    Header,
    Rejected,
    Released,
    Source,
)
from penstock.wire.amqp10.values import Composite, Described, Symbol
from tests.dialects.amqp10.doubles import House, Receiver

TIMEOUT_SECONDS = 60


@pytest.fixture
def house() -> House:
    return House()


def fill(house: House, queue: MessageQueue, *bodies: bytes) -> None:
    for body in bodies:
        address = Address("", queue.name, b"")
        message = Message(address, read_head(b""), Data(body).encode(), NOBODY)
        queue.enqueue(message, house.now)
    house.settle()


def lasting(address: str = "/queues/q") -> Source:
    return Source(address, timeout=TIMEOUT_SECONDS, expiry_policy="connection-close")


def receive(house: House, credit: int = 100, **terms: object) -> Receiver:
    peer = house.connect()
    terms.setdefault("source", lasting())
    return peer.receiver(peer.begin(), None, credit=credit, **terms)  # type: ignore[arg-type]


def states(receiver: Receiver, state: Composite | None = None) -> dict[bytes, Composite | None]:
    return dict.fromkeys([delivery.tag for delivery in receiver.got], state)


def test_a_receiver_that_comes_back_gets_what_it_had_as_the_same_deliveries(house: House) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1", b"2", b"3")
    first = receive(house)
    first.settle(first.got[0])
    known = states(first)
    del known[first.got[0].tag]
    first.peer.lose()
    assert (queue.message_count, queue.unacked_count, queue.consumer_count) == (0, 2, 0)
    assert len(house.node.unsettled()) == 2
    again = receive(house, unsettled=known)
    assert again.bodies == [b"2", b"3"]
    assert [delivery.tag for delivery in again.got] == list(known)
    assert all(delivery.resumed for delivery in again.got)
    assert again.peer.attached[again.link].unsettled == known
    # Not every client heeds another: see `SendingLink.first_tag`.
    assert again.peer.attached[again.link].initial_delivery_count == 0
    for delivery in again.got:
        again.settle(delivery)
    assert (queue.message_count, queue.unacked_count) == (0, 0)
    fill(house, queue, b"4")
    assert again.got[-1].body == b"4"
    assert again.got[-1].tag not in known


def test_what_the_receiver_had_decided_is_done_and_not_sent_again(house: House) -> None:
    dead = house.declare("dead")
    queue = house.declare("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    fill(house, queue, b"1", b"2", b"3")
    first = receive(house)
    tags = [delivery.tag for delivery in first.got]
    first.peer.lose()
    known = {tags[0]: Accepted(), tags[1]: Rejected(), tags[2]: Released()}
    again = receive(house, unsettled=dict(known))
    assert queue.unacked_count == 1
    assert dead.message_count == 1
    # Settlements are said, and what was released comes anew.
    said = {delivery.tag: delivery.state for delivery in again.got if delivery.resumed}
    assert said == known
    assert all(delivery.settled for delivery in again.got if delivery.resumed)
    assert [delivery.body for delivery in again.got if not delivery.resumed] == [b"3"]
    assert queue.acknowledged_total == 1


def test_an_outcome_from_the_map_is_said_to_be_settled_when_that_is_safe() -> None:
    disk = MemoryDisk(at_once=False)
    house = House(disk)
    queue = house.declare("q")
    head = Header(durable=True).encode()
    address = Address("", queue.name, b"")
    queue.enqueue(Message(address, read_head(head), Data(b"1").encode(), NOBODY), house.now)
    answer_flushes(house, disk)
    first = receive(house)
    answer_flushes(house, disk)
    first.peer.lose()
    answer_flushes(house, disk)
    again = receive(house, unsettled={first.got[0].tag: Accepted()})
    assert again.got == []
    answer_flushes(house, disk)
    assert [delivery.settled for delivery in again.got] == [True]


def answer_flushes(house: House, disk: MemoryDisk) -> None:
    """Until everything that was written is safe."""
    house.settle()
    while not house.node.is_all_durable():
        disk.answer_flushes(house.now)
        house.settle()


def test_what_the_receiver_does_not_know_is_sent_again_with_its_tag(house: House) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1", b"2")
    first = receive(house)
    tags = [delivery.tag for delivery in first.got]
    first.peer.lose()
    fill(house, queue, b"3")
    again = receive(house)
    assert again.bodies == [b"1", b"2", b"3"]
    assert [delivery.tag for delivery in again.got][:2] == tags
    assert not any(delivery.resumed for delivery in again.got)
    assert again.got[0].header.first_acquirer is False
    assert queue.unacked_count == 3


def test_what_only_the_receiver_has_is_not_in_our_map(house: House) -> None:
    house.declare("q")
    again = receive(house, unsettled={b"old": None})
    assert again.peer.attached[again.link].unsettled is None
    assert again.got == []


def test_a_link_that_begins_anew_does_not_give_tags_that_its_receiver_still_has(
    house: House,
) -> None:
    """The node was restarted, or the link has expired: nothing of it is known any more."""
    queue = house.declare("q")
    fill(house, queue, b"1")
    tags = [b"\x00\x00\x00\x00", b"\x00\x00\x00\x07", b"another's own"]
    first = receive(house, unsettled=dict.fromkeys(tags))
    assert first.got[0].tag not in tags
    first.peer.lose()
    # It has heard nothing of that attachment and says again what it has decided before.
    again = receive(house, unsettled={tag: Accepted() for tag in tags})
    assert queue.unacked_count == 1
    assert again.bodies == [b"1"]
    assert not again.got[0].resumed


def test_a_link_that_begins_anew_with_an_incomplete_map_gives_nothing_before_the_rest_is_named(
    house: House,
) -> None:
    """Otherwise it could give tags that its receiver still has and did not name."""
    queue = house.declare("q")
    fill(house, queue, b"1")
    tags = [b"\x00\x00\x00\x00", b"\x00\x00\x00\x01"]
    part = receive(house, unsettled={tags[0]: None}, incomplete=True)
    assert part.bodies == []
    part.detach(closed=False)
    whole = receive(house, unsettled=dict.fromkeys(tags))
    assert whole.bodies == [b"1"]
    assert whole.got[0].tag not in tags
    whole.peer.lose()
    again = receive(house, unsettled={tag: Accepted() for tag in tags})
    assert queue.unacked_count == 1
    assert again.bodies == [b"1"]
    assert not again.got[0].resumed


def test_an_incomplete_map_resumes_what_it_names_and_nothing_else(house: House) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1", b"2")
    first = receive(house)
    tags = [delivery.tag for delivery in first.got]
    first.peer.lose()
    fill(house, queue, b"3")
    part = receive(house, unsettled={tags[1]: None}, incomplete=True)
    assert part.bodies == [b"2"]
    part.settle(part.got[0])
    part.detach(closed=False)
    rest = receive(house, unsettled={tags[0]: None})
    assert rest.bodies == [b"1", b"3"]
    assert rest.got[0].resumed


def test_resumed_deliveries_wait_for_credit_and_go_first(house: House) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1", b"2")
    first = receive(house)
    known = states(first)
    first.peer.lose()
    fill(house, queue, b"3")
    again = receive(house, credit=0, unsettled=known)
    assert again.got == []
    again.link.offer(1)
    again.link.flow_if_needed()
    house.settle()
    assert again.bodies == [b"1"]
    again.peer.lose()
    last = receive(house, unsettled=known)
    assert last.bodies == [b"1", b"2", b"3"]


def test_a_suspended_receiver_expires_and_its_messages_go_back(house: House) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1")
    receive(house).peer.lose()
    house.pass_time(TIMEOUT_SECONDS * 1000 - 1)
    assert queue.unacked_count == 1
    house.pass_time(1)
    assert (queue.message_count, queue.unacked_count) == (1, 0)
    assert house.node.amqp10.links.suspended_count() == 0


# The second for which a link is suspended that is looked at, and one after every time-out.
SOON, LATE = 5, 15


@pytest.mark.parametrize(
    ("policy", "timeout", "how", "lives"),
    [
        ("link-detach", 0, "detach", 0),
        ("link-detach", 9, "detach", SOON),
        ("session-end", 0, "detach", LATE),
        ("session-end", 0, "end", 0),
        ("session-end", 9, "end", SOON),
        ("session-end", 0, "detach and end", 0),
        ("connection-close", 0, "end", LATE),
        ("connection-close", 0, "lose", 0),
        ("connection-close", 0, "end and lose", 0),
        ("connection-close", 9, "end and lose", SOON),
        ("never", 0, "lose", LATE),
        ("never", 0, "close", 0),
        ("session-end", 9, "close", 0),
    ],
)
def test_expiry_policies(house: House, policy: str, timeout: int, how: str, lives: int) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1")
    source = Source("/queues/q", timeout=timeout, expiry_policy=policy)
    first = receive(house, source=source)
    for event in how.split(" and "):
        if event in {"detach", "close"}:
            first.detach(closed=event == "close")
        elif event == "end":
            first.peer.wire.end_session(first.session, None)
            house.settle()
        else:
            first.peer.lose()
    house.pass_time(SOON * 1000)
    assert (queue.unacked_count == 1) is (lives >= SOON)
    house.pass_time((LATE - SOON) * 1000)
    assert (queue.unacked_count == 1) is (lives >= LATE)


def test_a_link_resumes_on_the_session_that_it_was_detached_on(house: House) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1")
    peer = house.connect()
    session = peer.begin()
    first = peer.receiver(session, "/queues/q")
    known = states(first)
    first.detach(closed=False)
    again = peer.receiver(session, "/queues/q", unsettled=known)
    assert again.got[0].resumed
    assert queue.unacked_count == 1


def test_an_attach_for_something_else_gives_back_what_was_kept(house: House) -> None:
    queue = house.declare("q")
    house.declare("r")
    fill(house, queue, b"1")
    receive(house).peer.lose()
    receive(house, source=lasting("/queues/r"))
    assert (queue.message_count, queue.unacked_count) == (1, 0)


def test_a_queue_that_is_gone_cannot_be_resumed(house: House) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1")
    receive(house).peer.lose()
    house.node.apply_to_vhost("/", DeleteQueue("q"), house.now)
    again = receive(house)
    assert again.peer.link_faults == [("receiver", "amqp:not-found", True)]
    house.pass_time(TIMEOUT_SECONDS * 1000)


def test_another_container_does_not_find_the_link(house: House) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1")
    first = receive(house)
    known = states(first)
    first.peer.lose()
    other = house.connect("another")
    got = other.receiver(other.begin(), None, source=lasting(), unsettled=known)
    assert got.got == []
    assert queue.unacked_count == 1


def test_an_attach_from_the_same_container_steals_the_link(house: House) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1", b"2")
    first = receive(house, source=Source("/queues/q"))
    known = states(first)
    again = receive(house, source=Source("/queues/q"), unsettled=known)
    assert first.peer.link_faults == [("receiver", "amqp:link:stolen", True)]
    assert again.bodies == [b"1", b"2"]
    assert all(delivery.resumed for delivery in again.got)
    assert queue.consumer_count == 1
    first.peer.lose()
    assert queue.unacked_count == 2


def test_a_stream_goes_on_where_its_reader_was() -> None:
    house = House(MemoryDisk())
    stream = house.declare("q", x_queue_type="stream")
    fill(house, stream, b"0", b"1", b"2")
    spec = Described(Symbol("rabbitmq:stream-offset-spec"), "first")
    source = Source(
        "/queues/q",
        timeout=TIMEOUT_SECONDS,
        expiry_policy="connection-close",
        filter_={"offset": spec},
    )
    first = receive(house, credit=2, source=source)
    assert first.bodies == [b"0", b"1"]
    first.settle(first.got[0])
    known = {first.got[1].tag: None}
    first.peer.lose()
    again = receive(house, source=source, unsettled=dict(known))
    assert again.bodies == [b"1", b"2"]
    assert [delivery.annotations["x-stream-offset"] for delivery in again.got] == [1, 2]
    assert [delivery.resumed for delivery in again.got] == [True, False]
    for delivery in again.got:
        again.settle(delivery)
    assert stream.unacked_count == 0


def test_a_receiver_hears_that_retention_has_removed_what_it_had() -> None:
    """Otherwise it would have the delivery unsettled for ever."""
    house = House(MemoryDisk())
    stream = house.declare(
        "q", x_queue_type="stream", x_max_length_bytes=1, x_stream_max_segment_size_bytes=100
    )
    fill(house, stream, b"0", b"1")
    spec = Described(Symbol("rabbitmq:stream-offset-spec"), "first")
    source = Source(
        "/queues/q",
        timeout=TIMEOUT_SECONDS,
        expiry_policy="connection-close",
        filter_={"offset": spec},
    )
    first = receive(house, credit=2, source=source)
    assert first.bodies == [b"0", b"1"]
    known = {first.got[0].tag: None}
    first.peer.lose()
    fill(house, stream, *[b"x" * 90] * 5)
    assert stream.message_count <= 5
    again = receive(house, source=source, unsettled=dict(known), credit=2)
    told = again.got[0]
    assert (told.tag, told.resumed, told.settled) == (first.got[0].tag, True, True)
    assert isinstance(told.state, Released)
    # What it did not mention is not mentioned either.
    assert first.got[1].tag not in [delivery.tag for delivery in again.got]
    assert stream.unacked_count == 1


def test_suspended_links_are_bounded(house: House) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1")
    registry = house.node.amqp10.links
    receive(house).peer.lose()
    (first,) = registry._suspended.values()
    for number in range(suspended_links.SUSPENDED_MAX):
        assert registry._suspended
        registry._suspended[("", "", "", str(number), False)] = first
    # The next one is one too many: the first goes.
    peer = house.connect("another")
    peer.receiver(peer.begin(), None, source=lasting())
    peer.lose()
    assert queue.message_count == 1
