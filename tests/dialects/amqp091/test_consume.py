"""Deliveries: the module by itself against the general encoder, and messages that are like no other, which go
on as their publishers sent them, through a node.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Address, Message
from penstock.client.events import Delivered
from penstock.dialects.amqp091.consume import ChannelConsumer, Getter
from penstock.dialects.amqp091.deliveries import Deliveries
from penstock.dialects.amqp091.properties import properties_of, read_properties
from penstock.dialects.translator import Translator
from penstock.formats.amqp091_frames import FRAME_OVERHEAD, encode_content, encode_split_content
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties, decode_properties, encode_header
from penstock.wire.amqp091.methods_generated import BasicPublish
from tests.broker.queues.doubles import StubProperties, put
from tests.dialects.amqp091.doubles import (
    KeptCancels,
    OpenChannel,
    ToldQueue,
    frames_of,
    message_of,
)
from tests.seeds.doubles import NOW, House, Peer

# As the first client of a house opens them.
PUBLISHER_CHANNEL = 1


def named(number: int, **more: object) -> BasicProperties:
    return BasicProperties(
        content_type="text/plain",
        headers={"number": number, "text": "é" * number, **more},
        delivery_mode=1,
        message_id=f"id-{number}",
        timestamp=2**40 + number,
    )


class Consuming:
    """A house with two queues that one client consumes, on a channel of the number asked for."""

    def __init__(self, channel: int, *, no_ack: bool = True) -> None:
        self.house = House()
        self.publisher = self.house.client()
        self.consumer = self.house.client()
        for _ in range(channel - 1):
            self.consumer.conversation.open_channel()
        self.house.settle()
        for queue in ("one", "two"):
            self.publisher.call(m.QueueDeclare(queue=queue))
            self.publisher.call(m.QueueBind(queue=queue, exchange="amq.fanout", routing_key=""))
            self.consumer.call(
                m.BasicConsume(queue=queue, consumer_tag=f"tag of {queue}", no_ack=no_ack), channel
            )

    def delivered(self) -> list[Delivered]:
        self.house.settle()
        return [event for event in self.consumer.events if isinstance(event, Delivered)]


def publish(peer: Peer, properties: BasicProperties, body: bytes) -> None:
    peer.conversation.publish(PUBLISHER_CHANNEL, "amq.fanout", "a key", body, properties)


@pytest.mark.parametrize("channel", [1, 2])
def test_named_messages_arrive_unchanged_on_a_channel_of_the_same_number_and_on_another(
    channel: int,
) -> None:
    consuming = Consuming(channel)
    bodies = [b"x" * size for size in (1, 5, 0, 70_000, 2, 2)]
    for number, body in enumerate(bodies):
        publish(consuming.publisher, named(number), body)
    found = consuming.delivered()
    assert len(found) == 2 * len(bodies)
    tags = [event.delivery_tag for event in found]
    assert tags == list(range(1, len(found) + 1))
    for queue in ("one", "two"):
        of_queue = [event for event in found if event.consumer_tag == f"tag of {queue}"]
        assert [event.body for event in of_queue] == bodies
        for number, event in enumerate(of_queue):
            assert event.header == encode_header(len(event.body), named(number))
            assert decode_properties(event.header).message_id == f"id-{number}"
            assert (event.exchange, event.routing_key) == ("amq.fanout", "a key")
            assert not event.redelivered


def test_named_messages_between_others_arrive_in_order_and_unchanged() -> None:
    consuming = Consuming(1)
    plain = BasicProperties(delivery_mode=1)
    wanted = []
    for number in range(12):
        properties = named(number) if number % 3 == 0 else plain
        wanted.append(encode_header(3, properties))
        publish(consuming.publisher, properties, b"abc")
    found = consuming.delivered()
    of_one = [event for event in found if event.consumer_tag == "tag of one"]
    assert [event.header for event in of_one] == wanted
    assert {event.body for event in found} == {b"abc"}


def test_a_named_message_that_came_in_pieces_has_its_own_header_not_the_last_one() -> None:
    consuming = Consuming(1)
    method = BasicPublish(exchange="amq.fanout", routing_key="a key").encode()
    first, second = (
        encode_content(PUBLISHER_CHANNEL, method, encode_header(4, named(number)), b"body")
        for number in (1, 2)
    )
    connection = consuming.publisher.connection
    connection.received(first + second[:40], NOW)
    connection.received(second[40:], NOW)
    headers = [event.header for event in consuming.delivered()]
    assert sorted(headers) == sorted(2 * [encode_header(4, named(number)) for number in (1, 2)])


def test_a_named_message_that_comes_back_is_flagged_and_unchanged() -> None:
    consuming = Consuming(1, no_ack=False)
    publish(consuming.publisher, named(3), b"abc")
    assert len(consuming.delivered()) == 2
    consuming.consumer.conversation.tell(
        1, m.BasicNack(delivery_tag=0, multiple=True, requeue=True)
    )
    again = consuming.delivered()[2:]
    assert [(event.redelivered, event.body) for event in again] == [(True, b"abc")] * 2
    assert {event.header for event in again} == {encode_header(3, named(3))}


def test_the_blind_copies_of_a_named_message_are_not_delivered() -> None:
    consuming = Consuming(1)
    publish(consuming.publisher, named(1, BCC=["nowhere"]), b"abc")
    found = consuming.delivered()
    assert {event.header for event in found} == {encode_header(3, named(1))}


def test_one_acknowledgement_settles_runs_of_several_consumers() -> None:
    consuming = Consuming(1, no_ack=False)
    for number in range(5):
        publish(consuming.publisher, named(number), b"abc")
        consuming.house.settle()
    last = consuming.delivered()[-2].delivery_tag
    consuming.consumer.conversation.tell(1, m.BasicAck(delivery_tag=3, multiple=False))
    consuming.consumer.conversation.tell(1, m.BasicAck(delivery_tag=last, multiple=True))
    consuming.house.settle()
    queues = consuming.house.node.state.vhost("/").queues
    assert queues["one"].acknowledged_total + queues["two"].acknowledged_total == last
    assert queues["one"].unacked_count + queues["two"].unacked_count == 1


# The module by itself: one consumer, and the octets that it appends to its connection.

ADDRESSES = (Address("", "q", b""), Address("e", "a.longer.key", b""), Address("", "", b""))
FRAME_MAX = 4096
BODY_MAX = FRAME_MAX - FRAME_OVERHEAD


class Scene:
    """One consumer of one channel, and what it should have said. Held by one test."""

    def __init__(self, number: int = 1, *, no_ack: bool = False, tag: str = "tag") -> None:
        self.open = OpenChannel(FRAME_MAX)
        self.wire = self.open.channel.wire
        self.listener = KeptCancels()
        self.told = ToldQueue()
        # A queue with nothing to give is not touched.
        put(self.told.queue, b"ready")
        self.queue = self.told.queue
        self.deliveries = Deliveries(number, self.wire, Translator(), 5)
        self.consumer = ChannelConsumer(
            self.listener, self.deliveries, self.queue, tag, 0, False, no_ack
        )
        self.expected = b""
        self._tag = 0

    def entries(self, *messages: Message) -> list[QueueEntry]:
        """For the consumer to take; what it must say of them is noted."""
        found = []
        for message in messages:
            self._tag += 1
            address = message.address
            method = m.BasicDeliver(
                self.consumer.tag, self._tag, False, address.exchange, address.routing_key
            )
            header = properties_of(message).header
            arguments = (self.deliveries.number, method.encode(), header, message.body)
            if len(message.body) <= BODY_MAX:
                self.expected += encode_content(*arguments)
            else:
                self.expected += b"".join(encode_split_content(*arguments, FRAME_MAX))
            found.append(QueueEntry(message, self._tag))
        return found

    def check(self) -> None:
        """It said exactly what it had to."""
        assert self.open.said() == self.expected
        self.expected = b""


def single(number: int, body: bytes, address: Address, channel: int) -> Message:
    """A message that names itself, with the frames that its publisher sent on a channel."""
    header = encode_header(len(body), BasicProperties(message_id=f"id {number}"))
    properties = read_properties(header)
    frames = encode_content(channel, b"", header, body)
    # From the end of the method frame up to the body.
    properties.came_as(frames[7 : len(frames) - len(body) - 1], channel)
    return Message(address, properties, body, 7)


def test_a_run_of_like_messages_is_said_as_if_each_were_the_only_one() -> None:
    scene = Scene()
    shared = message_of(b"xyz", ADDRESSES[0], priority=3)
    like = [Message(shared.address, shared.properties, b"%03d" % n, 7) for n in range(600)]
    scene.consumer.take_many(scene.entries(*like[:300]))
    scene.check()
    scene.consumer.take_many(scene.entries(*like[300:]))
    scene.check()
    assert scene.deliveries.tag == 600
    assert scene.deliveries.unacknowledged.count == 600


@pytest.mark.parametrize("other", [Address("", "r", b""), ADDRESSES[1]], ids=["as long", "longer"])
@pytest.mark.parametrize("at_once", [True, False])
def test_messages_with_one_header_and_two_addresses_are_told_apart(
    other: Address, at_once: bool
) -> None:
    scene = Scene()
    properties = message_of(b"abc").properties
    pattern = [ADDRESSES[0]] * 3 + [other] * 3 + [ADDRESSES[0]] * 3
    entries = scene.entries(*[Message(address, properties, b"abc", 7) for address in pattern])
    if at_once:
        scene.consumer.take_many(entries)
    else:
        for entry in entries:
            scene.consumer.take(entry)
    scene.check()


def test_single_deliveries_are_said_across_the_octets_of_the_delivery_tag() -> None:
    scene = Scene(no_ack=True)
    shared = message_of(b"abc", ADDRESSES[1])
    for start in (0, 254, 65_534, 2**24 - 2, 2**40 - 2):
        scene.deliveries.tag = start
        scene._tag = start
        for entry in scene.entries(*[shared] * 3):
            scene.consumer.take(entry)
        scene.check()


@pytest.mark.parametrize("size", [0, 1, BODY_MAX - 1, BODY_MAX, BODY_MAX + 1, 3 * BODY_MAX])
@pytest.mark.parametrize("at_once", [True, False])
def test_bodies_are_cut_at_the_frame_max_of_the_connection(size: int, at_once: bool) -> None:
    scene = Scene()
    shared = message_of(b"x" * size)
    entries = scene.entries(shared, shared, shared)
    if at_once:
        scene.consumer.take_many(entries)
    else:
        for entry in entries:
            scene.consumer.take(entry)
    assert all(len(payload) <= BODY_MAX for _, _, payload in frames_of(scene.expected))
    scene.check()


def kinds_of_messages(number: int) -> list[Message]:
    """Shared headers and addresses, so that runs come about, beside messages of their own."""
    shared = [
        message_of(body, address, priority=priority)
        for address in ADDRESSES
        for body in (b"", b"ab", b"x" * (BODY_MAX + 1))
        for priority in (0, 1)
    ]
    singles = [
        single(index, body, address, channel)
        for index, address in enumerate(ADDRESSES)
        for body in (b"y", b"z" * BODY_MAX, b"z" * (BODY_MAX + 1))
        for channel in (number, number + 1)
    ]
    return shared + singles


@given(
    picks=st.lists(st.tuples(st.integers(0, 35), st.integers(1, 4), st.booleans()), max_size=25),
    number=st.sampled_from([1, 258]),
    begin=st.sampled_from([0, 250, 2**16 - 5]),
)
@settings(max_examples=40, deadline=None)
def test_any_order_of_messages_is_said_as_the_general_encoder_says_it(
    picks: list[tuple[int, int, bool]], number: int, begin: int
) -> None:
    scene = Scene(1, no_ack=True)
    messages = kinds_of_messages(1)
    scene.deliveries.tag = begin
    scene._tag = begin
    for index, count, at_once in picks:
        chosen = messages[index % len(messages)]
        entries = scene.entries(*[chosen] * count, messages[number % len(messages)])
        if at_once:
            scene.consumer.take_many(entries)
        else:
            for entry in entries:
                scene.consumer.take(entry)
    scene.check()


def test_what_a_publisher_sent_is_passed_on_only_on_a_channel_of_its_number() -> None:
    scene = Scene()
    same, other = (single(1, b"body", ADDRESSES[0], channel) for channel in (1, 2))
    same_properties = properties_of(same)
    scene.consumer.take_many(scene.entries(same, other, same))
    pieces = scene.open.outgoing.pieces
    assert sum(piece is same_properties.content_head for piece in pieces) == 2
    scene.check()


def test_a_message_of_another_dialect_is_translated_and_then_said() -> None:
    translated = message_of(b"translated")

    class Foreign(Translator):
        def for_amqp091(self, message: Message) -> Message:
            return translated if message is foreign else message

    foreign = Message(ADDRESSES[0], StubProperties(False, 0, -1), b"sections", 7)
    scene = Scene()
    scene.deliveries.translator = Foreign()
    scene.entries(translated)
    scene.consumer.take(QueueEntry(foreign, 1))
    scene.check()


@pytest.mark.parametrize("at_once", [True, False])
def test_what_comes_back_is_flagged_in_the_middle_of_a_run(at_once: bool) -> None:
    scene = Scene()
    shared = message_of()
    entries = [QueueEntry(shared, position) for position in range(3)]
    entries[1].is_redelivered = True
    if at_once:
        scene.consumer.take_many(entries)
    else:
        for entry in entries:
            scene.consumer.take(entry)
    methods = [payload for kind, _, payload in frames_of(scene.open.said()) if kind == 1]
    found = [m.decode_method(method) for method in methods]
    assert [deliver.redelivered for deliver in found if isinstance(deliver, m.BasicDeliver)] == [
        False,
        True,
        False,
    ]
    assert [deliver.delivery_tag for deliver in found if isinstance(deliver, m.BasicDeliver)] == [
        1,
        2,
        3,
    ]


@pytest.mark.parametrize(("counts", "count"), [(True, 2), (True, 0), (False, 2)])
def test_a_redelivery_says_how_often_where_its_queue_counts(counts: bool, count: int) -> None:
    scene = Scene()
    scene.queue.counts_deliveries = counts
    entry = QueueEntry(message_of(headers={"kept": 1}), 1)
    entry.is_redelivered = True
    entry.delivery_count = count
    scene.consumer.take(entry)
    (header,) = [payload for kind, _, payload in frames_of(scene.open.said()) if kind == 2]
    headers = decode_properties(header).headers
    assert headers is not None
    assert headers["kept"] == 1
    told = headers.get("x-delivery-count")
    assert getattr(told, "value", told) == (2 if counts and count else None)


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("no_ack", [True, False])
def test_credit_is_used_by_what_waits_for_an_acknowledgement(at_once: bool, no_ack: bool) -> None:
    scene = Scene(no_ack=no_ack)
    scene.consumer.credit = 10
    scene.deliveries.set_limit(20)
    entries = scene.entries(*[message_of()] * 3)
    if at_once:
        scene.consumer.take_many(entries)
    else:
        for entry in entries:
            scene.consumer.take(entry)
    used = 0 if no_ack else 3
    assert (scene.consumer.credit, scene.deliveries.credit) == (10 - used, 20 - used)
    assert scene.consumer.credit_count() == 10 - used
    waiting = scene.deliveries.unacknowledged
    assert (waiting.count, scene.deliveries.tag) == (used, 3)
    assert [waiting.holds(tag) for tag in (1, 3, 4)] == [not no_ack, not no_ack, False]
    scene.deliveries.set_limit(5)
    assert scene.consumer.credit_count() == 5 - used


def test_a_consumer_takes_while_it_its_channel_and_its_connection_have_room() -> None:
    scene = Scene()
    consumer = scene.consumer
    consumer.credit = 1
    assert consumer.can_take()
    consumer.credit = 0
    assert not consumer.can_take()
    consumer.credit = 1
    scene.open.outgoing.set_writable(False)
    assert not consumer.can_take()
    assert scene.open.outgoing.stalled
    scene.open.outgoing.set_writable(True)
    scene.deliveries.set_limit(1)
    assert consumer.can_take()
    consumer.take(scene.entries(message_of())[0])
    consumer.credit = 1
    assert not consumer.can_take(), "the channel's limit"
    assert not scene.told.is_touched()
    scene.deliveries.settled(1)
    assert scene.told.is_touched(), "the queue is asked again"
    scene.deliveries.settled(1)
    assert not scene.told.is_touched(), "and not when nobody waits for credit"
    assert consumer.can_take()


@pytest.mark.parametrize("count", [1, 4])
def test_settling_gives_credit_back_and_asks_the_queue_again(count: int) -> None:
    scene = Scene()
    scene.consumer.credit = 0
    scene.deliveries.credit = 0
    scene.consumer.settled(count)
    assert (scene.consumer.credit, scene.deliveries.credit) == (count, count)
    assert scene.told.is_touched()


def test_what_was_got_gives_credit_back_to_the_channel_alone() -> None:
    scene = Scene()
    getter = Getter(scene.listener, scene.deliveries, scene.queue, "", 0, False, False)
    getter.credit = 0
    scene.deliveries.credit = 0
    getter.settled(2)
    assert (getter.credit, scene.deliveries.credit) == (0, 2)
    assert scene.told.is_touched()


def test_a_consumer_without_local_messages_wants_those_of_others() -> None:
    scene = Scene()
    own, other = (QueueEntry(message_of(origin=origin), 1) for origin in (7, 8))
    assert scene.consumer.wants(own)
    scene.consumer.no_local_origin = 7
    assert not scene.consumer.wants(own)
    assert scene.consumer.wants(other)


def test_a_cancelled_consumer_tells_its_channel_and_knows_its_holder() -> None:
    scene = Scene(tag="gone")
    scene.consumer.cancelled()
    assert scene.listener.tags == ["gone"]
    assert scene.consumer.holder == 5
