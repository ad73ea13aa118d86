"""Messages that are like no other go on as their publishers sent them, and arrive like all others."""

import pytest

from penstock.client.events import Delivered
from penstock.formats.amqp091_frames import encode_content
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties, decode_properties, encode_header
from penstock.wire.amqp091.methods_generated import BasicPublish
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
