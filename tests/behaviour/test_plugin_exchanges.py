"""Exchange types RabbitMQ keeps in plugins: consistent hash (shipped with it, must be enabled)
and delayed message (not shipped; its tests follow the plugin's documentation).
"""

from __future__ import annotations

import time

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.expectations import (
    channel_refused,
    eventually,
    fetch,
    is_empty,
    message_count,
)
from tests.behaviour.target import BrokerUnderTest

CONSISTENT_HASH = "x-consistent-hash"
DELAYED = "x-delayed-message"
NOT_SHIPPED = "the delayed message plugin is not part of RabbitMQ's package"


@pytest.fixture
def channel(broker: BrokerUnderTest) -> BlockingChannel:
    channel = broker.channel()
    channel.confirm_delivery()
    return channel


@pytest.mark.parametrize("key", ["abc", "", "1.5"])
def test_a_weight_must_be_an_integer(
    broker: BrokerUnderTest, channel: BlockingChannel, key: str
) -> None:
    exchange, queue = broker.exchange(channel, CONSISTENT_HASH), broker.queue(channel)
    with channel_refused(406, "PRECONDITION_FAILED - The binding key must be an integer"):
        channel.queue_bind(queue, exchange, key)


@pytest.mark.parametrize("key", ["0", "-1"])
def test_a_weight_must_be_positive(
    broker: BrokerUnderTest, channel: BlockingChannel, key: str
) -> None:
    exchange, queue = broker.exchange(channel, CONSISTENT_HASH), broker.queue(channel)
    with channel_refused(406, "PRECONDITION_FAILED - The binding key must be greater than 0"):
        channel.queue_bind(queue, exchange, key)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"hash-header": "a", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
    ],
    ids=["both", "unsupported property"],
)
def test_what_is_hashed_must_be_clear(
    broker: BrokerUnderTest, channel: BlockingChannel, arguments: dict[str, object], text: str
) -> None:
    with channel_refused(406, f"PRECONDITION_FAILED - {text}"):
        channel.exchange_declare(broker.name(), CONSISTENT_HASH, arguments=arguments)


def test_a_key_always_goes_to_one_and_the_same_queue(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    exchange = broker.exchange(channel, CONSISTENT_HASH)
    queues = [broker.queue(channel) for _ in range(3)]
    for queue in queues:
        channel.queue_bind(queue, exchange, "1")
    for _ in range(10):
        channel.basic_publish(exchange, "the same", b"")
    assert sorted(message_count(channel, queue) for queue in queues) == [0, 0, 10]


def test_keys_spread_by_weight(broker: BrokerUnderTest, channel: BlockingChannel) -> None:
    exchange = broker.exchange(channel, CONSISTENT_HASH)
    light, heavy = broker.queue(channel), broker.queue(channel)
    channel.queue_bind(light, exchange, "1")
    channel.queue_bind(heavy, exchange, "9")
    for number in range(200):
        channel.basic_publish(exchange, f"key {number}", b"")
    counts = message_count(channel, light), message_count(channel, heavy)
    assert sum(counts) == 200
    # Expected 20 to 180; seven standard deviations leave room for any hash function.
    assert 0 < counts[0] < 50


@pytest.mark.parametrize(
    ("arguments", "properties"),
    [
        ({"hash-header": "shard"}, BasicProperties(headers={"shard": "a"})),
        ({"hash-property": "message_id"}, BasicProperties(message_id="a")),
        ({"hash-property": "correlation_id"}, BasicProperties(correlation_id="a")),
        ({"hash-property": "timestamp"}, BasicProperties(timestamp=5)),
    ],
    ids=["header", "message_id", "correlation_id", "timestamp"],
)
def test_something_else_than_the_key_can_be_hashed(
    broker: BrokerUnderTest,
    channel: BlockingChannel,
    arguments: dict[str, object],
    properties: BasicProperties,
) -> None:
    exchange = broker.exchange(channel, CONSISTENT_HASH, arguments)
    queues = [broker.queue(channel) for _ in range(3)]
    for queue in queues:
        channel.queue_bind(queue, exchange, "1")
    for number in range(10):
        channel.basic_publish(exchange, f"key {number}", b"", properties)
    assert sorted(message_count(channel, queue) for queue in queues) == [0, 0, 10]


def delayed_exchange(broker: BrokerUnderTest, channel: BlockingChannel, kind: str) -> str:
    return broker.exchange(channel, DELAYED, {"x-delayed-type": kind})


@pytest.mark.penstock_only(NOT_SHIPPED)
def test_a_message_waits_in_the_exchange_for_its_delay(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    exchange, queue = delayed_exchange(broker, channel, "direct"), broker.queue(channel)
    channel.queue_bind(queue, exchange, "key")
    begun = time.monotonic()
    channel.basic_publish(exchange, "key", b"late", BasicProperties(headers={"x-delay": 250}))
    assert is_empty(channel, queue)
    message = fetch(channel, queue)
    assert time.monotonic() - begun >= 0.25
    # The plugin turns the delay negative to mark that it was served.
    assert message.headers == {"x-delay": -250}


@pytest.mark.penstock_only(NOT_SHIPPED)
def test_delays_not_publishing_order_decide(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    exchange, queue = delayed_exchange(broker, channel, "fanout"), broker.queue(channel)
    channel.queue_bind(queue, exchange, "")
    for delay in (500, 250, 0):
        properties = BasicProperties(headers={"x-delay": delay})
        channel.basic_publish(exchange, "", str(delay).encode(), properties)
    eventually(lambda: message_count(channel, queue) == 3)
    assert [fetch(channel, queue).body for _ in range(3)] == [b"0", b"250", b"500"]


@pytest.mark.penstock_only(NOT_SHIPPED)
def test_without_a_delay_the_inner_type_routes_at_once(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    exchange, queue = delayed_exchange(broker, channel, "topic"), broker.queue(channel)
    channel.queue_bind(queue, exchange, "a.#")
    channel.basic_publish(exchange, "a.b", b"now")
    assert message_count(channel, queue) == 1


@pytest.mark.penstock_only(NOT_SHIPPED)
@pytest.mark.parametrize("arguments", [{}, {"x-delayed-type": "bogus"}], ids=["none", "unknown"])
def test_the_inner_type_must_be_named(
    broker: BrokerUnderTest, channel: BlockingChannel, arguments: dict[str, object]
) -> None:
    with channel_refused(406, "PRECONDITION_FAILED - "):
        channel.exchange_declare(broker.name(), DELAYED, arguments=arguments)
