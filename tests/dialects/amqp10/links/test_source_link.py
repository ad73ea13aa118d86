"""Outgoing links: credit, outcomes, draining, browsing, streams, and what goes back to the queue."""

from __future__ import annotations

import pytest

from penstock.broker.message import NOBODY, Address, Message
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.topology import DeleteQueue
from penstock.dialects.amqp10.messages.properties import read_head
from penstock.dialects.amqp10.nodes.filters import described_selector
from penstock.storage.memory_disk import MemoryDisk
from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.performatives_generated import (
    APPLICATION_PROPERTIES,
    ApplicationProperties,
    Attach,
    Data,
    Flow,
    Header,
    Modified,
    Rejected,
    Released,
    Source,
    Target,
)
from penstock.wire.amqp10.values import Described, Symbol
from tests.dialects.amqp10.doubles import House, KeepingReceiver, Peer, Receiver


@pytest.fixture
def house() -> House:
    return House()


def fill(house: House, queue: MessageQueue, *bodies: bytes, head: bytes = b"") -> None:
    for body in bodies:
        address = Address("", queue.name, b"")
        message = Message(address, read_head(head), Data(body).encode(), NOBODY)
        queue.enqueue(message, house.now)
    house.settle()


def receiver(house: House, credit: int = 100, **terms: object) -> Receiver:
    peer = house.connect()
    return peer.receiver(peer.begin(), "/queues/q", credit=credit, **terms)  # type: ignore[arg-type]


def test_a_receiver_gets_no_more_than_its_credit(house: House) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1", b"2", b"3")
    got = receiver(house, credit=2)
    assert got.bodies == [b"1", b"2"]
    assert queue.message_count == 1
    assert queue.unacked_count == 2
    got.link.offer(5)
    got.link.flow_if_needed()
    house.settle()
    assert got.bodies == [b"1", b"2", b"3"]


def test_accepted_messages_are_forgotten(house: House) -> None:
    queue = house.declare("q")
    got = receiver(house)
    fill(house, queue, b"1", b"2", b"3")
    got.session.settle(got.got[0].id, got.got[2].id, None)
    house.settle()
    # No outcome but settled: the default, which is released.
    assert got.bodies == [b"1", b"2", b"3"] * 2
    for delivery in got.got[3:]:
        got.settle(delivery)
    assert (queue.message_count, queue.unacked_count) == (0, 0)
    assert queue.acknowledged_total == 3


def test_a_message_says_how_often_it_failed_and_whether_anybody_had_it(house: House) -> None:
    queue = house.declare("q")
    got = receiver(house)
    sent = Header(durable=True, priority=3, first_acquirer=True)
    fill(house, queue, b"x", head=sent.encode())
    header = got.got[0].header
    assert (header.first_acquirer, header.delivery_count) == (True, 0)
    assert (header.durable, header.priority) == (True, 3)
    got.settle(got.got[0], Released())
    header = got.got[1].header
    assert (header.first_acquirer, header.delivery_count) == (False, 0)
    got.settle(got.got[1], Modified(delivery_failed=True))
    header = got.got[2].header
    assert (header.first_acquirer, header.delivery_count) == (False, 1)
    got.settle(got.got[2], Modified())
    assert got.got[3].header.delivery_count == 1


@pytest.mark.parametrize(
    "outcome", [Rejected(), Modified(undeliverable_here=True, delivery_failed=True)]
)
def test_rejected_and_undeliverable_messages_are_dead_lettered(
    house: House, outcome: Rejected | Modified
) -> None:
    dead = house.declare("dead")
    queue = house.declare("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    got = receiver(house)
    fill(house, queue, b"x")
    got.settle(got.got[0], outcome)
    assert (queue.message_count, queue.unacked_count) == (0, 0)
    assert dead.message_count == 1


def test_annotations_of_modified_are_put_on_the_message(house: House) -> None:
    queue = house.declare("q")
    got = receiver(house)
    fill(house, queue, b"x", head=ApplicationProperties({"kept": "yes"}).encode())
    changes: dict[object, object] = {Symbol("x-opt-tried"): "by me", Symbol("other"): 1}
    got.settle(got.got[0], Modified(message_annotations=changes))
    assert got.got[1].annotations["x-opt-tried"] == "by me"
    assert "other" not in got.got[1].annotations
    assert got.got[1].sections.decode(APPLICATION_PROPERTIES) == ApplicationProperties(
        {"kept": "yes"}
    )


def test_a_settled_link_takes_messages_for_good(house: House) -> None:
    queue = house.declare("q")
    got = receiver(house, snd_settle_mode=1)
    fill(house, queue, b"1", b"2")
    assert got.bodies == [b"1", b"2"]
    assert all(delivery.settled for delivery in got.got)
    assert (queue.message_count, queue.unacked_count) == (0, 0)


def test_a_receiver_that_settles_second_hears_that_we_have_settled(house: House) -> None:
    queue = house.declare("q")
    got = receiver(house, rcv_settle_mode=1)
    fill(house, queue, b"1", b"2")
    got.session.say_state(got.got[0].id, got.got[1].id, Rejected())
    house.settle()
    assert got.listener.settled_tags == [got.got[0].tag, got.got[1].tag]
    assert queue.unacked_count == 0


def test_a_drain_sends_what_there_is_and_gives_the_rest_back(house: House) -> None:
    queue = house.declare("q")
    got = receiver(house, credit=0)
    fill(house, queue, b"1", b"2")
    got.link.credit = 10
    got.link.drain()
    house.settle()
    assert got.bodies == [b"1", b"2"]
    assert got.listener.drained_count == 1
    assert got.link.credit == 0
    fill(house, queue, b"3")
    assert got.bodies == [b"1", b"2"]


def test_an_empty_queue_is_drained_at_once(house: House) -> None:
    house.declare("q")
    got = receiver(house, credit=5)
    got.link.drain()
    house.settle()
    assert got.listener.drained_count == 1
    assert got.link.credit == 0


def test_a_drain_tells_how_much_is_available(house: House) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1", b"2", b"3")
    got = receiver(house, credit=1)
    got.link.send_flow(True)
    house.settle()
    assert got.link.available == 2


def test_a_message_of_many_frames_waits_for_the_window_and_keeps_the_order(house: House) -> None:
    queue = house.declare("q")
    peer = house.connect()
    session = peer.begin()
    session.window_max = 4
    session.incoming_window = 4
    large = bytes(range(256)) * 4096
    fill(house, queue, b"1", large, b"2", b"3", b"4", b"5")
    got = peer.receiver(session, "/queues/q")
    for _ in range(20):
        session.flow_if_needed()
        got.link.send_flow(False)
        house.settle()
    assert got.bodies == [b"1", large, b"2", b"3", b"4", b"5"]
    assert queue.unacked_count == 6


def test_what_waits_for_the_window_goes_back_with_the_link_and_counts_as_never_sent(
    house: House,
) -> None:
    queue = house.declare("q")
    fill(house, queue, bytes(300_000), *[b"small"] * 30)
    peer = _stuck_receiver(house, 2)
    given = queue.unacked_count
    assert given > 1
    assert len(house.node.unsettled()) == given
    peer.lose()
    assert (queue.message_count, queue.unacked_count) == (31, 0)
    counts = [entry.delivery_count for entry in queue.browse(100)]
    assert counts == [1] + [0] * 30


def test_what_waits_on_a_settled_link_is_gone_with_it(house: House) -> None:
    queue = house.declare("q")
    fill(house, queue, bytes(300_000), *[b"small"] * 30)
    peer = _stuck_receiver(house, 1)
    left = queue.message_count
    assert left < 30
    assert house.node.unsettled() == []
    peer.lose()
    assert (queue.message_count, queue.unacked_count) == (left, 0)


def _stuck_receiver(house: House, snd_settle_mode: int) -> Peer:
    """A receiver whose window is full with half of the first message."""
    peer = house.connect()
    session = peer.begin()
    # Room for two frames of the large one, and nobody who would make more.
    session.window_max = session.incoming_window = 2
    session.send_flow(Flow())
    link = peer.wire.attach_receiver(
        session,
        "receiver",
        KeepingReceiver(),
        Attach(source=Source("/queues/q"), target=Target(), snd_settle_mode=snd_settle_mode),
    )
    link.offer(10)
    link.flow_if_needed()
    peer.connection.received(peer.said(), house.now)
    house.node.flush(house.now)
    return peer


@pytest.mark.parametrize("how", ["close", "detach", "end", "lose"])
def test_unsettled_messages_go_back_when_the_link_ends(house: House, how: str) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1", b"2")
    peer = house.connect()
    session = peer.begin()
    source = Source("/queues/q", expiry_policy="link-detach")
    got = peer.receiver(session, "/queues/q", source=source)
    assert queue.unacked_count == 2
    if how == "close":
        got.detach(closed=True)
    elif how == "detach":
        got.detach(closed=False)
    elif how == "end":
        peer.wire.end_session(session, None)
        house.settle()
    else:
        peer.lose()
    assert (queue.message_count, queue.unacked_count) == (2, 0)
    assert [entry.delivery_count for entry in queue.browse(10)] == [1, 1]
    assert queue.consumer_count == 0
    assert house.node.amqp10.links.suspended_count() == 0


def test_a_default_outcome_says_what_happens_to_what_nobody_settled(house: House) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1")
    source = Source("/queues/q", default_outcome=Released())
    got = receiver(house, source=source)
    got.peer.lose()
    assert [entry.delivery_count for entry in queue.browse(10)] == [0]


def test_a_queue_that_is_deleted_detaches_its_receivers(house: House) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1")
    got = receiver(house)
    house.node.apply_to_vhost("/", DeleteQueue("q"), house.now)
    house.settle()
    assert got.peer.link_faults == [("receiver", "amqp:resource-deleted", True)]


def test_a_source_that_does_not_exist_refuses_the_link(house: House) -> None:
    got = receiver(house)
    assert got.peer.link_faults == [("receiver", "amqp:not-found", True)]
    assert got.peer.attached[got.link].source is None


def test_a_selector_leaves_what_it_does_not_select_to_others(house: House) -> None:
    queue = house.declare("q")
    fill(house, queue, b"red", head=ApplicationProperties({"color": "red"}).encode())
    fill(house, queue, b"blue", head=ApplicationProperties({"color": "blue"}).encode())
    source = Source("/queues/q", filter_={"sel": described_selector("color = 'blue'")})
    got = receiver(house, source=source)
    assert got.bodies == [b"blue"]
    answered = got.peer.attached[got.link].source
    assert answered is not None
    assert answered.filter_ is not None
    assert list(answered.filter_) == ["sel"]
    got.link.drain()
    house.settle()
    assert got.listener.drained_count == 1
    other = got.peer.receiver(got.session, "/queues/q", "other")
    assert other.bodies == [b"red"]


def test_priorities_of_receivers_are_asked_for_in_the_properties(house: House) -> None:
    queue = house.declare("q")
    peer = house.connect()
    session = peer.begin()
    low = peer.receiver(session, "/queues/q", "low")
    high = peer.receiver(session, "/queues/q", "high", properties={"rabbitmq:priority": 5})
    fill(house, queue, b"1", b"2")
    assert low.bodies == []
    assert high.bodies == [b"1", b"2"]


def test_a_message_larger_than_the_receiver_takes_is_left_for_others(house: House) -> None:
    queue = house.declare("q")
    peer = house.connect()
    session = peer.begin()
    peer.wire.limits = Limits(message_bytes_max=1000)
    got = peer.receiver(session, "/queues/q", "small")
    fill(house, queue, b"x" * 2000, b"y")
    assert got.bodies == [b"y"]
    assert queue.message_count == 1


def test_a_browser_sees_messages_and_leaves_them(house: House) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1", b"2")
    source = Source("/queues/q", distribution_mode="copy")
    got = receiver(house, source=source)
    assert got.bodies == [b"1", b"2"]
    assert (queue.message_count, queue.unacked_count, queue.consumer_count) == (2, 0, 0)
    for delivery in list(got.got):
        got.settle(delivery, Rejected())
    fill(house, queue, b"3")
    assert got.bodies == [b"1", b"2", b"3"]
    got.link.drain()
    house.settle()
    assert got.listener.drained_count == 1
    got.detach()
    assert queue.message_count == 3
    assert queue.observers == []


def test_a_browser_of_a_priority_queue_sees_every_message_once(house: House) -> None:
    queue = house.declare("q", x_max_priority=5)
    for priority in (1, 5, 3):
        fill(house, queue, b"%d" % priority, head=Header(priority=priority).encode())
    got = receiver(house, credit=2, source=Source("/queues/q", distribution_mode="copy"))
    got.link.offer(10)
    got.link.flow_if_needed()
    house.settle()
    assert got.bodies == [b"5", b"3", b"1"]


def test_a_browser_hears_that_its_queue_is_gone(house: House) -> None:
    house.declare("q")
    got = receiver(house, source=Source("/queues/q", distribution_mode="copy"))
    house.node.apply_to_vhost("/", DeleteQueue("q"), house.now)
    house.node.sweep(house.now, 0)
    house.settle()
    assert got.peer.link_faults == [("receiver", "amqp:resource-deleted", True)]


def stream_house() -> House:
    house = House(MemoryDisk())
    house.declare("q", x_queue_type="stream")
    return house


def stream_source(offset: object) -> Source:
    spec = Described(Symbol("rabbitmq:stream-offset-spec"), offset)
    return Source("/queues/q", filter_={"offset": spec})


@pytest.mark.parametrize("snd_settle_mode", [0, 1])
def test_a_stream_is_read_from_an_offset_on_and_says_it(snd_settle_mode: int) -> None:
    house = stream_house()
    stream = house.queue("q")
    fill(house, stream, b"0", b"1", b"2")
    got = receiver(house, source=stream_source(1), snd_settle_mode=snd_settle_mode, credit=1)
    assert got.bodies == [b"1"]
    assert got.got[0].annotations["x-stream-offset"] == 1
    got.link.offer(10)
    got.link.flow_if_needed()
    house.settle()
    assert [delivery.annotations["x-stream-offset"] for delivery in got.got] == [1, 2]
    assert stream.unacked_count == (2 if snd_settle_mode == 0 else 0)
    for delivery in got.got:
        got.settle(delivery)
    assert stream.unacked_count == 0
    assert stream.message_count == 3


def test_a_stream_is_drained_at_its_end() -> None:
    house = stream_house()
    fill(house, house.queue("q"), b"0")
    got = receiver(house, source=stream_source("first"), credit=5)
    got.link.drain()
    house.settle()
    assert got.bodies == [b"0"]
    assert got.listener.drained_count == 1


def test_large_messages_of_a_stream_wait_for_the_window() -> None:
    house = stream_house()
    large = bytes(256) * 4096
    fill(house, house.queue("q"), large, b"1", large, b"2")
    peer = house.connect()
    session = peer.begin()
    session.window_max = session.incoming_window = 4
    got = peer.receiver(session, "/queues/q", source=stream_source("first"))
    for _ in range(20):
        session.flow_if_needed()
        got.link.send_flow(False)
        house.settle()
    assert got.bodies == [large, b"1", large, b"2"]


def test_what_waits_behind_a_message_that_just_fits_the_window_goes_on_when_it_opens(
    house: House,
) -> None:
    queue = house.declare("q")
    large = bytes(600)
    small = [b"%d" % number for number in range(7)]
    fill(house, queue, large, *small)
    peer = house.connect(limits=Limits(frame_max=512, incoming_window=8))
    session = peer.begin()
    got = peer.receiver(session, "/queues/q")
    # The large one took two frames of eight.
    assert got.bodies == [large, *small[:6]]
    # The session's window alone: the link has credit enough.
    session.flow_if_needed()
    house.settle()
    assert got.bodies == [large, *small]


def test_a_drain_is_answered_when_the_last_delivery_had_to_wait_for_the_window(
    house: House,
) -> None:
    queue = house.declare("q")
    large = bytes(2000)
    fill(house, queue, large, b"1")
    peer = house.connect(limits=Limits(frame_max=512, incoming_window=2))
    session = peer.begin()
    # Nothing is taken by the wire itself: a window that opens only when the test says so.
    session.window_max = 0
    got = peer.receiver(session, "/queues/q", credit=1)
    got.link.drain()
    house.settle()
    assert got.listener.drained_count == 0
    for _ in range(3):
        session.window_max = 2
        session.flow_if_needed()
        session.window_max = 0
        house.settle()
    assert got.bodies == [large]
    assert got.listener.drained_count == 1


def test_out_with_receivers_is_told_to_the_store(house: House) -> None:
    queue = house.declare("q")
    fill(house, queue, b"1", b"2")
    got: Receiver = receiver(house)
    assert len(house.node.unsettled()) == 2
    got.settle(got.got[0])
    assert [entry.position for _, entry in house.node.unsettled()] == [2]
    peer: Peer = got.peer
    peer.lose()
    assert house.node.unsettled() == []
