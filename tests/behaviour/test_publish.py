"""Publishing: what is refused, what is returned, properties and bodies that come through."""

from __future__ import annotations

import pika.frame
import pytest
from pika import BasicProperties, spec
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.expectations import (
    channel_refused,
    expect_channel_close,
    expect_connection_close,
    fetch,
    fetch_bodies,
    message_count,
)
from tests.behaviour.raw import BODY, HEADER, RawConnection, frame, header_payload
from tests.behaviour.target import BrokerUnderTest


@pytest.fixture
def channel(broker: BrokerUnderTest) -> BlockingChannel:
    return broker.channel()


def test_an_unknown_exchange_closes_the_channel_some_time_later(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    missing = broker.name("missing")
    channel.basic_publish(missing, "key", b"")  # nothing to wait for
    with channel_refused(404, f"NOT_FOUND - no exchange '{missing}' in vhost '{broker.vhost}'"):
        channel.basic_qos()


def test_what_follows_a_refused_publish_is_lost_with_the_channel(broker: BrokerUnderTest) -> None:
    connection, keeper = broker.raw_open(), broker.channel()
    queue = broker.queue(keeper)
    connection.publish(1, broker.name("missing"), "key", b"")
    connection.publish(1, "", queue, b"lost")
    expect_channel_close(connection, 404, "NOT_FOUND - no exchange ")
    assert message_count(keeper, queue) == 0


def returned(connection: RawConnection) -> tuple[spec.Basic.Return, BasicProperties, bytes]:
    method = connection.expect(spec.Basic.Return, 1)
    assert isinstance(method, spec.Basic.Return)
    header = connection.read_frame()
    body = connection.read_frame().fragment if header.body_size else b""
    return method, header.properties, body


def test_a_mandatory_message_without_a_queue_is_returned(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    properties = BasicProperties(message_id="m", headers={"a": 1})
    connection.publish(1, "amq.direct", "nowhere", b"back", properties, mandatory=True)
    method, got, body = returned(connection)
    assert (method.reply_code, method.reply_text) == (312, "NO_ROUTE")
    assert (method.exchange, method.routing_key, body) == ("amq.direct", "nowhere", b"back")
    assert (got.message_id, got.headers) == ("m", {"a": 1})


def test_a_return_comes_before_its_confirm(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.call(1, spec.Confirm.Select(), spec.Confirm.SelectOk)
    connection.publish(1, "", broker.name("missing"), b"back", mandatory=True)
    returned(connection)
    confirm = connection.expect(spec.Basic.Ack, 1)
    assert isinstance(confirm, spec.Basic.Ack)
    assert confirm.delivery_tag == 1


def test_without_mandatory_an_unroutable_message_is_dropped(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.publish(1, "", broker.name("missing"), b"gone")
    connection.call(1, spec.Basic.Qos(), spec.Basic.QosOk)


@pytest.mark.parametrize("mandatory", [False, True])
def test_immediate_is_not_implemented(broker: BrokerUnderTest, mandatory: bool) -> None:
    connection = broker.raw_open()
    # Neither the exchange nor the permission is looked at first.
    connection.publish(1, broker.name("missing"), "k", b"", immediate=True, mandatory=mandatory)
    close = expect_connection_close(connection, 540, "NOT_IMPLEMENTED - immediate=true")
    assert (close.class_id, close.method_id) == (60, 40)


@pytest.mark.parametrize(
    ("expiration", "reason"),
    [
        ("abc", "no_integer"),
        ("", "no_integer"),
        (" 5", "no_integer"),
        ("-1", "{value_negative,-1}"),
        ("1.5", '{leftover_string,".5"}'),
        ("99999999999999", "{value_too_large,99999999999999}"),
    ],
)
def test_an_expiration_must_be_milliseconds(
    broker: BrokerUnderTest, channel: BlockingChannel, expiration: str, reason: str
) -> None:
    queue = broker.queue(channel)
    channel.basic_publish("", queue, b"", BasicProperties(expiration=expiration))
    with channel_refused(406, f"PRECONDITION_FAILED - invalid expiration '{expiration}': {reason}"):
        channel.basic_qos()


@pytest.mark.parametrize("expiration", ["10000", "05000", "4294967296"])
def test_an_expiration_is_passed_on_as_written(
    broker: BrokerUnderTest, channel: BlockingChannel, expiration: str
) -> None:
    queue = broker.queue(channel)
    channel.basic_publish("", queue, b"", BasicProperties(expiration=expiration))
    assert fetch(channel, queue).properties.expiration == expiration


def test_a_user_id_must_be_the_users_own(broker: BrokerUnderTest, channel: BlockingChannel) -> None:
    queue = broker.queue(channel)
    channel.basic_publish("", queue, b"", BasicProperties(user_id=broker.user))
    assert fetch(channel, queue).properties.user_id == broker.user
    channel.basic_publish("", queue, b"", BasicProperties(user_id="somebody"))
    with channel_refused(
        406,
        "PRECONDITION_FAILED - user_id property set to 'somebody' "
        f"but authenticated user was '{broker.user}'",
    ):
        channel.basic_qos()


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        (
            BasicProperties(headers={"CC": "x"}),
            'invalid message: {unacceptable_type_in_header,"CC",longstr}',
        ),
        (
            BasicProperties(headers={"BCC": "x"}),
            'invalid message: {unacceptable_type_in_header,"BCC",longstr}',
        ),
        (BasicProperties(delivery_mode=3), "invalid message: {delivery_mode_unknown,3}"),
    ],
    ids=["CC", "BCC", "delivery mode"],
)
def test_properties_that_make_no_sense_are_refused(
    broker: BrokerUnderTest, channel: BlockingChannel, properties: BasicProperties, reason: str
) -> None:
    channel.basic_publish("", broker.queue(channel), b"", properties)
    with channel_refused(406, f"PRECONDITION_FAILED - {reason}"):
        channel.basic_qos()


def test_every_property_comes_through(broker: BrokerUnderTest, channel: BlockingChannel) -> None:
    queue = broker.queue(channel)
    sent = BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={
            "string": "s",
            "number": 5,
            "large": 2**40,
            "negative": -7,
            "yes": True,
            "nothing": None,
            "list": ["a", 1, {"deep": [False]}],
            "table": {"inner": "x"},
        },
        delivery_mode=2,
        priority=4,
        correlation_id="correlation",
        reply_to="somewhere",
        expiration="60000",
        message_id="message",
        timestamp=1_700_000_000,
        type="kind",
        user_id=broker.user,
        app_id="application",
        cluster_id="cluster",
    )
    channel.basic_publish("", queue, b"body", sent)
    assert fetch(channel, queue).properties == sent


@pytest.mark.parametrize("size", [0, 1, 131064, 131065, 1_000_000])
def test_bodies_of_every_size_come_through(
    broker: BrokerUnderTest, channel: BlockingChannel, size: int
) -> None:
    queue = broker.queue(channel)
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    channel.basic_publish("", queue, body)
    assert fetch(channel, queue).body == body


def test_a_body_is_split_for_a_consumer_with_smaller_frames(broker: BrokerUnderTest) -> None:
    connection, queue = broker.raw_open(frame_max=4096), broker.name()
    declare = spec.Queue.Declare(queue=queue, exclusive=True)
    connection.call(1, declare, spec.Queue.DeclareOk)
    broker.channel().basic_publish("", queue, b"x" * 10_000)
    take = spec.Basic.Consume(queue=queue, no_ack=True)
    connection.call(1, take, spec.Basic.ConsumeOk)
    connection.expect(spec.Basic.Deliver, 1)
    assert connection.read_frame().body_size == 10_000
    sizes = [len(connection.read_frame().fragment) for _ in range(3)]
    assert sizes == [4088, 4088, 1824]


def test_empty_body_frames_change_nothing(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    connection, queue = broker.raw_open(), broker.queue(channel)
    publish = pika.frame.Method(1, spec.Basic.Publish(exchange="", routing_key=queue)).marshal()
    connection.send(publish, frame(HEADER, 1, header_payload(3)), frame(BODY, 1, b""))
    connection.send(frame(BODY, 1, b"ab"), frame(BODY, 1, b""), frame(BODY, 1, b"c"))
    assert fetch(channel, queue).body == b"abc"


def test_messages_stay_in_publishing_order(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel)
    bodies = [str(number).encode() for number in range(100)]
    for body in bodies:
        channel.basic_publish("", queue, body)
    assert fetch_bodies(channel, queue, 100) == bodies


def test_a_higher_priority_comes_first_and_order_is_kept_within(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel, {"x-max-priority": 5})
    for priority, body in (
        (None, b"none"),
        (1, b"one"),
        (5, b"five"),
        (1, b"one more"),
        (0, b"zero"),
    ):
        channel.basic_publish("", queue, body, BasicProperties(priority=priority))
    expected = [b"five", b"one", b"one more", b"none", b"zero"]
    assert fetch_bodies(channel, queue, 5) == expected


def test_a_priority_above_the_maximum_counts_as_the_maximum(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel, {"x-max-priority": 5})
    for priority in (1, 9, 5):
        properties = BasicProperties(priority=priority)
        channel.basic_publish("", queue, str(priority).encode(), properties)
    messages = [fetch(channel, queue) for _ in range(3)]
    assert [message.body for message in messages] == [b"9", b"5", b"1"]
    assert messages[0].properties.priority == 9


def test_a_queue_without_priorities_ignores_them(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel)
    for priority in (1, 9, 5):
        properties = BasicProperties(priority=priority)
        channel.basic_publish("", queue, str(priority).encode(), properties)
    assert fetch_bodies(channel, queue, 3) == [b"1", b"9", b"5"]


# A content type of one octet, 0xa1, which is not UTF-8.
NOT_UTF_8 = header_payload(1, flags=0x8000) + b"\x01\xa1"


def publish_not_utf_8(connection: RawConnection, queue: str) -> None:
    method = pika.frame.Method(1, spec.Basic.Publish(exchange="", routing_key=queue)).marshal()
    connection.send(method, frame(HEADER, 1, NOT_UTF_8), frame(BODY, 1, b"x"))


@pytest.mark.differs(
    "RabbitMQ passes on the octets of properties",
    twin="test_a_property_that_is_not_utf_8_ends_the_connection",
)
def test_a_property_that_is_not_utf_8_is_passed_on(broker: BrokerUnderTest) -> None:
    connection, keeper = broker.raw_open(), broker.channel()
    queue = broker.queue(keeper)
    connection.call(1, spec.Confirm.Select(), spec.Confirm.SelectOk)
    publish_not_utf_8(connection, queue)
    connection.expect(spec.Basic.Ack, 1)


@pytest.mark.penstock_only("RabbitMQ passes on the octets of properties")
def test_a_property_that_is_not_utf_8_ends_the_connection(broker: BrokerUnderTest) -> None:
    connection, keeper = broker.raw_open(), broker.channel()
    queue = broker.queue(keeper)
    publish_not_utf_8(connection, queue)
    expect_connection_close(connection, 502, "SYNTAX_ERROR - ")
    assert message_count(keeper, queue) == 0
    # Every time: it is not remembered as a good one.
    again = broker.raw_open()
    publish_not_utf_8(again, queue)
    expect_connection_close(again, 502, "SYNTAX_ERROR - ")


def test_a_death_counted_to_the_end_is_counted_no_further(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    graveyard = broker.queue(channel)
    arguments: dict[str, object] = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": graveyard,
    }
    queue = broker.queue(channel, arguments)
    death = {"queue": queue, "reason": "rejected", "count": 2**63 - 1}
    channel.basic_publish("", queue, b"x", BasicProperties(headers={"x-death": [death]}))
    channel.basic_reject(fetch(channel, queue, auto_ack=False).tag, requeue=False)
    assert fetch(channel, graveyard).body == b"x"


def test_a_dead_letter_key_of_any_length_does_no_harm(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    arguments: dict[str, object] = {
        "x-dead-letter-exchange": "amq.fanout",
        "x-dead-letter-routing-key": "k" * 300,
    }
    queue = broker.queue(channel, arguments)
    channel.basic_publish("", queue, b"x")
    channel.basic_reject(fetch(channel, queue, auto_ack=False).tag, requeue=False)
    assert message_count(channel, queue) == 0


@pytest.mark.penstock_only("a channel of RabbitMQ ends when it should deliver such a message")
def test_of_a_dead_letter_key_that_is_too_long_the_beginning_is_delivered(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    graveyard = broker.queue(channel)
    channel.queue_bind(graveyard, "amq.fanout", "")
    arguments: dict[str, object] = {
        "x-dead-letter-exchange": "amq.fanout",
        "x-dead-letter-routing-key": "k" * 300,
    }
    queue = broker.queue(channel, arguments)
    channel.basic_publish("", queue, b"x")
    channel.basic_reject(fetch(channel, queue, auto_ack=False).tag, requeue=False)
    method, _, body = channel.basic_get(graveyard, auto_ack=True)
    assert (method.routing_key, body) == ("k" * 255, b"x")
