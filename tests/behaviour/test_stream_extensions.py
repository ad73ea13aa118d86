"""What Penstock adds to streams: cursors, publishers that repeat themselves, filters, partitions."""

from __future__ import annotations

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.expectations import channel_refused, message_count
from tests.behaviour.stream_reading import consume, declare, offsets, publish
from tests.behaviour.target import BrokerUnderTest

pytestmark = pytest.mark.penstock_only("an extension of Penstock's")


@pytest.fixture
def channel(broker: BrokerUnderTest) -> BlockingChannel:
    channel = broker.channel()
    channel.confirm_delivery()
    return channel


@pytest.fixture
def stream(broker: BrokerUnderTest, channel: BlockingChannel) -> str:
    return declare(broker, channel)


# Cursors.


def test_a_cursor_goes_on_behind_what_was_acknowledged(
    broker: BrokerUnderTest, channel: BlockingChannel, stream: str
) -> None:
    publish(channel, stream, b"0", b"1", b"2", b"3")
    first = broker.channel()
    deliveries = consume(first, stream, {"x-stream-cursor": "app", "x-stream-offset": "first"})
    messages = deliveries.wait_for(4)
    first.basic_ack(messages[1].tag, multiple=True)
    first.basic_ack(messages[3].tag)
    first.close()
    again = consume(broker.channel(), stream, {"x-stream-cursor": "app"})
    assert offsets(again.wait_for(2)) == [2, 3]


def test_a_cursor_remembers_where_it_began(
    broker: BrokerUnderTest, channel: BlockingChannel, stream: str
) -> None:
    publish(channel, stream, b"old")
    first = broker.channel()
    consume(first, stream, {"x-stream-cursor": "app"})
    first.close()
    publish(channel, stream, b"missed")
    again = consume(
        broker.channel(), stream, {"x-stream-cursor": "app", "x-stream-offset": "cursor"}
    )
    assert again.wait_for(1)[0].body == b"missed"


@pytest.mark.parametrize("cursor", [5, "", "x" * 256])
def test_a_cursor_has_a_name(channel: BlockingChannel, stream: str, cursor: object) -> None:
    with channel_refused(406, "PRECONDITION_FAILED - invalid arg 'x-stream-cursor' for queue"):
        consume(channel, stream, {"x-stream-cursor": cursor})


# Publishers that repeat themselves.


def test_a_repeated_publish_is_confirmed_and_lands_once(
    channel: BlockingChannel, stream: str
) -> None:
    for publisher, sequence in [("p", 1), ("p", 2), ("p", 2), ("p", 1), ("q", 1), ("p", 3)]:
        headers: dict[str, object] = {
            "x-publisher-id": publisher,
            "x-publisher-sequence": sequence,
        }
        body = f"{publisher}{sequence}".encode()
        channel.basic_publish("", stream, body, BasicProperties(headers=headers))
    deliveries = consume(channel, stream, {"x-stream-offset": "first"})
    deliveries.wait_for(4)
    assert deliveries.bodies == [b"p1", b"p2", b"q1", b"p3"]
    assert message_count(channel, stream) == 4


# Filters.


@pytest.mark.parametrize("pattern", ["a.*", ["a.*"], ["x", "a.b", "a.c"]], ids=str)
def test_a_reader_chooses_by_routing_key(
    broker: BrokerUnderTest, channel: BlockingChannel, stream: str, pattern: object
) -> None:
    exchange = broker.exchange(channel, "fanout")
    channel.queue_bind(stream, exchange)
    for key in ("a.b", "b.a", "a.c", "a", "a.b"):
        channel.basic_publish(exchange, key, b"")
    arguments: dict[str, object] = {
        "x-stream-offset": "first",
        "x-stream-filter-routing-key": pattern,
    }
    assert offsets(consume(channel, stream, arguments).wait_for(3)) == [0, 2, 4]


def test_a_reader_chooses_by_headers(channel: BlockingChannel, stream: str) -> None:
    for colour in ("red", "blue", "red"):
        properties = BasicProperties(headers={"colour": colour, "size": 1})
        channel.basic_publish("", stream, b"", properties)
    arguments: dict[str, object] = {
        "x-stream-offset": "first",
        "x-stream-filter-headers": {"colour": "red", "size": 2, "x-match": "any"},
    }
    assert offsets(consume(channel, stream, arguments).wait_for(2)) == [0, 2]


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-stream-filter-routing-key": 5},
        {"x-stream-filter-routing-key": []},
        {"x-stream-filter-headers": "red"},
    ],
    ids=str,
)
def test_what_is_no_filter_is_refused(
    channel: BlockingChannel, stream: str, arguments: dict[str, object]
) -> None:
    with channel_refused(406, f"PRECONDITION_FAILED - invalid arg '{next(iter(arguments))}' for"):
        consume(channel, stream, arguments)


# Partitioned streams.


def test_a_partitioned_stream_comes_and_goes_as_one(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    name = broker.name("partitioned")
    arguments: dict[str, object] = {"x-partitions": 3, "x-max-age": "1h"}
    for _ in range(2):
        channel.exchange_declare(name, "x-partitioned-stream", durable=True, arguments=arguments)
    for number in range(30):
        channel.basic_publish(name, f"key-{number % 10}", b"")
    counts = [message_count(channel, f"{name}-{number}") for number in range(3)]
    assert sum(counts) == 30
    assert all(count % 3 == 0 for count in counts)
    channel.exchange_delete(name)
    for number in range(3):
        probe = broker.channel()
        with channel_refused(404, "NOT_FOUND - no queue"):
            probe.queue_declare(f"{name}-{number}", passive=True)


def test_partitions_take_turns(broker: BrokerUnderTest, channel: BlockingChannel) -> None:
    name = broker.name("partitioned")
    arguments: dict[str, object] = {"x-partitions": 3, "x-partition-by": "round-robin"}
    channel.exchange_declare(name, "x-partitioned-stream", durable=True, arguments=arguments)
    for _ in range(6):
        channel.basic_publish(name, "the same", b"")
    assert [message_count(channel, f"{name}-{number}") for number in range(3)] == [2, 2, 2]


@pytest.mark.parametrize(
    ("durable", "arguments", "text"),
    [
        (True, {}, "x-partitions must be an integer, got none"),
        (True, {"x-partitions": 0}, "x-partitions must be 1 to 1024, got 0"),
        (True, {"x-partitions": 2, "x-partition-by": "size"}, "x-partition-by must be"),
        (False, {"x-partitions": 2}, "a partitioned stream must be durable"),
        (True, {"x-partitions": 2, "x-max-age": "soon"}, "invalid arg 'x-max-age' for queue"),
    ],
    ids=str,
)
def test_a_partitioned_stream_is_refused_as_a_whole(
    broker: BrokerUnderTest,
    channel: BlockingChannel,
    durable: bool,
    arguments: dict[str, object],
    text: str,
) -> None:
    name = broker.name("partitioned")
    with channel_refused(406, f"PRECONDITION_FAILED - {text}"):
        channel.exchange_declare(name, "x-partitioned-stream", durable=durable, arguments=arguments)
    for probe in (f"{name}-0", f"{name}-1"):
        with channel_refused(404, "NOT_FOUND"):
            broker.channel().queue_declare(probe, passive=True)
    with channel_refused(404, "NOT_FOUND"):
        broker.channel().exchange_declare(name, passive=True)
