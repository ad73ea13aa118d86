"""Streams over AMQP 0-9-1: declared, published to and read by offset as in RabbitMQ."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.expectations import (
    Deliveries,
    channel_refused,
    connection_refused,
    eventually,
    message_count,
)
from tests.behaviour.stream_reading import consume, declare, offsets, publish
from tests.behaviour.target import BrokerUnderTest


@pytest.fixture
def channel(broker: BrokerUnderTest) -> BlockingChannel:
    channel = broker.channel()
    channel.confirm_delivery()
    return channel


@pytest.fixture
def stream(broker: BrokerUnderTest, channel: BlockingChannel) -> str:
    return declare(broker, channel)


# Declaring.


@pytest.mark.parametrize(
    ("flags", "wrong"),
    [
        ({"durable": False}, "non-durable"),
        ({"durable": True, "exclusive": True}, "exclusive-owner"),
        ({"durable": True, "auto_delete": True}, "auto-delete"),
        ({"durable": False, "exclusive": True, "auto_delete": True}, "auto-delete"),
    ],
    ids=["transient", "exclusive", "auto-delete", "everything"],
)
def test_a_stream_is_durable_and_shared(
    broker: BrokerUnderTest, channel: BlockingChannel, flags: dict[str, bool], wrong: str
) -> None:
    name = broker.name()
    text = f"PRECONDITION_FAILED - invalid property '{wrong}' for queue '{name}' in vhost"
    with channel_refused(406, text):
        channel.queue_declare(name, arguments={"x-queue-type": "stream"}, **flags)


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-max-length": 5},
        {"x-max-priority": 5},
        {"x-message-ttl": 5},
        {"x-expires": 5000},
        {"x-dead-letter-exchange": ""},
        {"x-overflow": "drop-head"},
        {"x-single-active-consumer": True},
        {"x-delivery-limit": 5},
        {"x-queue-mode": "lazy"},
        {"x-queue-version": 2},
        {"x-max-in-memory-length": 5},
        {"x-quorum-initial-group-size": 1},
    ],
    ids=str,
)
def test_what_only_other_queues_know_is_refused(
    broker: BrokerUnderTest, channel: BlockingChannel, arguments: dict[str, object]
) -> None:
    with channel_refused(406, f"PRECONDITION_FAILED - invalid arg '{next(iter(arguments))}' for"):
        declare(broker, channel, arguments)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("1x", "invalid_max_age"),
        ("1.5h", "invalid_max_age"),
        ("0s", "invalid_max_age"),
        (5, "{unacceptable_type,signedint}"),
    ],
)
def test_an_age_is_a_count_and_a_unit(
    broker: BrokerUnderTest, channel: BlockingChannel, value: object, reason: str
) -> None:
    name = broker.name()
    text = f"PRECONDITION_FAILED - invalid arg 'x-max-age' for queue '{name}' in vhost '"
    with channel_refused(406, text + f"{broker.vhost}': {reason}"):
        channel.queue_declare(
            name, durable=True, arguments={"x-queue-type": "stream", "x-max-age": value}
        )


@pytest.mark.parametrize("age", ["1Y", "2M", "3D", "4h", "5m", "6s"])
def test_every_unit_of_age_is_known(
    broker: BrokerUnderTest, channel: BlockingChannel, age: str
) -> None:
    declare(broker, channel, {"x-max-age": age, "x-max-length-bytes": 20_000_000_000})


def test_a_segment_has_a_largest_size(broker: BrokerUnderTest, channel: BlockingChannel) -> None:
    text = "PRECONDITION_FAILED - Exceeded max value for x-stream-max-segment-size-bytes"
    with channel_refused(406, text):
        declare(broker, channel, {"x-stream-max-segment-size-bytes": 3_000_000_001})


def test_a_stream_is_not_declared_again_as_something_else(
    broker: BrokerUnderTest, channel: BlockingChannel, stream: str
) -> None:
    text = f"PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue '{stream}' in vhost"
    with channel_refused(406, text):
        channel.queue_declare(stream, durable=True)


# What a stream cannot do.


def test_get_is_refused(channel: BlockingChannel, stream: str) -> None:
    with connection_refused(
        540, f"NOT_IMPLEMENTED - basic.get not supported by stream queues queue '{stream}' in vhost"
    ):
        channel.basic_get(stream)


def test_purge_is_refused(channel: BlockingChannel, stream: str) -> None:
    with connection_refused(
        540, f"NOT_IMPLEMENTED - queue.purge not supported by stream queues queue '{stream}' in"
    ):
        channel.queue_purge(stream)


def test_a_consumer_needs_a_prefetch(channel: BlockingChannel, stream: str) -> None:
    with channel_refused(
        406, f"PRECONDITION_FAILED - consumer prefetch count is not set for 'queue '{stream}' in"
    ):
        channel.basic_consume(stream, Deliveries(channel))


def test_a_prefetch_of_the_channel_is_not_enough(channel: BlockingChannel, stream: str) -> None:
    channel.basic_qos(prefetch_count=10, global_qos=True)
    with channel_refused(406, "PRECONDITION_FAILED - consumer prefetch count is not set for"):
        channel.basic_consume(stream, Deliveries(channel))


def test_automatic_acknowledgement_is_refused(channel: BlockingChannel, stream: str) -> None:
    channel.basic_qos(prefetch_count=10)
    with connection_refused(
        540, "NOT_IMPLEMENTED - automatic acknowledgement not supported by stream queues queue"
    ):
        channel.basic_consume(stream, Deliveries(channel), auto_ack=True)


def test_consumers_have_no_priority(channel: BlockingChannel, stream: str) -> None:
    with channel_refused(406, "PRECONDITION_FAILED - invalid arg 'x-priority' for queue"):
        consume(channel, stream, {"x-priority": 5})


# Reading.


def test_messages_stay_for_every_reader(
    broker: BrokerUnderTest, channel: BlockingChannel, stream: str
) -> None:
    publish(channel, stream, b"a", b"b", b"c")
    for _ in range(2):
        reader = broker.channel()
        deliveries = consume(reader, stream, {"x-stream-offset": "first"})
        for message in deliveries.wait_for(3):
            reader.basic_ack(message.tag)
        assert deliveries.bodies == [b"a", b"b", b"c"]
    eventually(lambda: message_count(channel, stream) == 3, seconds=15)


def test_a_delivery_carries_its_offset_behind_the_headers_it_came_with(
    channel: BlockingChannel, stream: str
) -> None:
    properties = BasicProperties(
        content_type="text/plain",
        content_encoding="none",
        headers={"a": 1},
        delivery_mode=1,
        correlation_id="c",
        expiration="1",
    )
    channel.basic_publish("", stream, b"plain")
    channel.basic_publish("", stream, b"dressed", properties)
    channel.basic_publish("", stream, b"typed", BasicProperties(content_type="t", priority=3))
    channel.basic_publish("", stream, b"")
    plain, dressed, typed, empty = consume(channel, stream, {"x-stream-offset": "first"}).wait_for(
        4
    )
    assert offsets([plain, dressed, typed, empty]) == [0, 1, 2, 3]
    assert list(dressed.headers) == ["a", "x-stream-offset"]
    assert dressed.headers["a"] == 1
    assert dressed.properties.content_type == "text/plain"
    assert dressed.properties.content_encoding == "none"
    assert dressed.properties.correlation_id == "c"
    assert dressed.properties.expiration == "1"
    assert dressed.properties.delivery_mode == 1
    assert typed.properties.content_type == "t"
    assert typed.properties.priority == 3
    assert [plain.body, dressed.body, typed.body, empty.body] == [
        b"plain",
        b"dressed",
        b"typed",
        b"",
    ]
    assert not plain.method.redelivered
    assert plain.method.routing_key == stream


def test_a_body_of_many_frames_arrives_whole(channel: BlockingChannel, stream: str) -> None:
    body = bytes(range(256)) * 2000
    publish(channel, stream, body, b"small")
    large, small = consume(channel, stream, {"x-stream-offset": "first"}).wait_for(2)
    assert large.body == body
    assert small.body == b"small"
    assert offsets([large, small]) == [0, 1]


def test_an_offset_of_another_stream_is_replaced(
    broker: BrokerUnderTest, channel: BlockingChannel, stream: str
) -> None:
    publish(channel, stream, b"first")
    headers: dict[str, object] = {"x-stream-offset": 77, "kept": "yes"}
    channel.basic_publish("", stream, b"copied", BasicProperties(headers=headers))
    _, copied = consume(channel, stream, {"x-stream-offset": "first"}).wait_for(2)
    assert offsets([copied]) == [1]
    assert copied.headers["kept"] == "yes"


def test_the_default_is_what_comes_next(
    broker: BrokerUnderTest, channel: BlockingChannel, stream: str
) -> None:
    publish(channel, stream, b"old")
    choices: list[dict[str, object]] = [{}, {"x-stream-offset": "next"}]
    for arguments in choices:
        reader = broker.channel()
        deliveries = consume(reader, stream, arguments)
        publish(channel, stream, b"new")
        assert deliveries.wait_for(1)[0].body == b"new"


def test_last_is_what_was_written_last(channel: BlockingChannel, stream: str) -> None:
    publish(channel, stream, b"a", b"b", b"c")
    assert consume(channel, stream, {"x-stream-offset": "last"}).wait_for(1)[-1].body == b"c"


@pytest.mark.parametrize(("offset", "first"), [(0, 0), (2, 2), (-1, 0)])
def test_a_reader_begins_at_an_offset(
    channel: BlockingChannel, stream: str, offset: int, first: int
) -> None:
    publish(channel, stream, b"0", b"1", b"2", b"3")
    messages = consume(channel, stream, {"x-stream-offset": offset}).wait_for(4 - first)
    assert offsets(messages) == list(range(first, 4))


def test_a_reader_beyond_the_end_waits_for_its_offset(
    broker: BrokerUnderTest, channel: BlockingChannel, stream: str
) -> None:
    publish(channel, stream, b"0", b"1")
    deliveries = consume(broker.channel(), stream, {"x-stream-offset": 4})
    publish(channel, stream, b"2", b"3", b"4", b"5")
    assert offsets(deliveries.wait_for(2)) == [4, 5]


def test_a_reader_begins_at_a_time(channel: BlockingChannel, stream: str) -> None:
    publish(channel, stream, b"a", b"b")
    past = datetime.fromtimestamp(int(time.time()) - 3600, UTC).replace(tzinfo=None)
    assert consume(channel, stream, {"x-stream-offset": past}).wait_for(2)


@pytest.mark.parametrize("interval", ["1Y", "1M", "2D", "1h", "5m"])
def test_a_reader_begins_some_time_ago(
    channel: BlockingChannel, stream: str, interval: str
) -> None:
    publish(channel, stream, b"a", b"b")
    assert consume(channel, stream, {"x-stream-offset": interval}).wait_for(2)


@pytest.mark.parametrize("offset", ["0s", "1.5h"])
def test_what_is_no_offset_is_refused(channel: BlockingChannel, stream: str, offset: str) -> None:
    text = f"PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue '{stream}' in vhost"
    with channel_refused(406, text):
        consume(channel, stream, {"x-stream-offset": offset})


@pytest.mark.penstock_only("RabbitMQ 3.10 answers with an internal error")
@pytest.mark.parametrize("offset", ["foo", "h", "-1h", "", True, {}, None], ids=repr)
def test_what_cannot_be_an_offset_is_refused_by_name(
    channel: BlockingChannel, stream: str, offset: object
) -> None:
    text = f"PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue '{stream}' in vhost"
    with channel_refused(406, text):
        consume(channel, stream, {"x-stream-offset": offset})


def test_acknowledgements_give_credit_for_more(channel: BlockingChannel, stream: str) -> None:
    publish(channel, stream, *[b"%d" % number for number in range(10)])
    deliveries = consume(channel, stream, {"x-stream-offset": "first"}, prefetch=3)
    assert offsets(deliveries.wait_for(3)) == [0, 1, 2]
    channel.basic_ack(deliveries.messages[-1].tag, multiple=True)
    assert offsets(deliveries.wait_for(6)) == [0, 1, 2, 3, 4, 5]
    assert len(deliveries.messages) == 6


def test_a_stream_takes_what_an_exchange_routes_to_it(
    broker: BrokerUnderTest, channel: BlockingChannel, stream: str
) -> None:
    exchange = broker.exchange(channel, "topic")
    channel.queue_bind(stream, exchange, "a.#")
    channel.basic_publish(exchange, "a.b", b"one")
    message = consume(channel, stream, {"x-stream-offset": "first"}).wait_for(1)[0]
    assert message.method.exchange == exchange
    assert message.method.routing_key == "a.b"


def test_readers_hear_that_their_stream_is_deleted(
    broker: BrokerUnderTest, channel: BlockingChannel, stream: str
) -> None:
    reader = broker.channel()
    consume(reader, stream)
    cancelled: list[object] = []
    reader.add_on_cancel_callback(cancelled.append)
    channel.queue_delete(stream)

    def is_cancelled() -> bool:
        reader.connection.process_data_events(time_limit=0.01)
        return bool(cancelled)

    eventually(is_cancelled)


def test_a_deleted_stream_begins_anew(
    broker: BrokerUnderTest, channel: BlockingChannel, stream: str
) -> None:
    publish(channel, stream, b"old", b"old")
    channel.queue_delete(stream)
    channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
    publish(channel, stream, b"new")
    message = consume(channel, stream, {"x-stream-offset": "first"}).wait_for(1)[0]
    assert (message.body, offsets([message])) == (b"new", [0])


@pytest.mark.penstock_only("RabbitMQ 3.10 closes the connection with 540")
@pytest.mark.parametrize("requeue", [True, False])
def test_a_negative_acknowledgement_gives_credit_and_brings_nothing_back(
    channel: BlockingChannel, stream: str, requeue: bool
) -> None:
    publish(channel, stream, b"0", b"1", b"2", b"3")
    deliveries = consume(channel, stream, {"x-stream-offset": "first"}, prefetch=2)
    deliveries.wait_for(2)
    channel.basic_nack(0, multiple=True, requeue=requeue)
    assert offsets(deliveries.wait_for(4)) == [0, 1, 2, 3]
