"""Time to live and length limits."""

from __future__ import annotations

import time

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError

from tests.behaviour.expectations import (
    consume,
    eventually,
    fetch,
    fetch_bodies,
    is_empty,
    message_count,
)
from tests.behaviour.target import BrokerUnderTest

# Long enough that a stalled machine still sees the message before it goes.
SHORT_MILLISECONDS = 250
LONG_MILLISECONDS = 60_000


@pytest.fixture
def channel(broker: BrokerUnderTest) -> BlockingChannel:
    channel = broker.channel()
    channel.confirm_delivery()
    return channel


def expiring(milliseconds: int) -> BasicProperties:
    return BasicProperties(expiration=str(milliseconds))


def test_a_queues_time_to_live_drops_messages(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel, {"x-message-ttl": SHORT_MILLISECONDS})
    channel.basic_publish("", queue, b"")
    assert message_count(channel, queue) == 1
    eventually(lambda: is_empty(channel, queue))


def test_a_messages_expiration_drops_it(broker: BrokerUnderTest, channel: BlockingChannel) -> None:
    queue = broker.queue(channel)
    channel.basic_publish("", queue, b"", expiring(SHORT_MILLISECONDS))
    assert message_count(channel, queue) == 1
    eventually(lambda: is_empty(channel, queue))


@pytest.mark.parametrize(
    ("queue_ttl", "message_ttl"),
    [(SHORT_MILLISECONDS, LONG_MILLISECONDS), (LONG_MILLISECONDS, SHORT_MILLISECONDS)],
    ids=["the queue's", "the message's"],
)
def test_the_shorter_time_counts(
    broker: BrokerUnderTest, channel: BlockingChannel, queue_ttl: int, message_ttl: int
) -> None:
    queue = broker.queue(channel, {"x-message-ttl": queue_ttl})
    channel.basic_publish("", queue, b"", expiring(message_ttl))
    eventually(lambda: is_empty(channel, queue))


def test_messages_expire_only_from_the_head(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel)
    channel.basic_publish("", queue, b"head")
    channel.basic_publish("", queue, b"short", expiring(1))
    channel.basic_publish("", queue, b"tail")
    time.sleep(0.05)
    assert message_count(channel, queue) == 3
    assert fetch(channel, queue).body == b"head"
    assert fetch(channel, queue).body == b"tail"


def test_a_time_to_live_of_zero_needs_a_waiting_consumer(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel, {"x-message-ttl": 0})
    channel.basic_publish("", queue, b"nobody there")
    eventually(lambda: is_empty(channel, queue))
    deliveries = consume(channel, queue, auto_ack=True)
    channel.basic_publish("", queue, b"taken")
    deliveries.wait_for(1)
    assert deliveries.bodies == [b"taken"]


def test_an_expiration_of_zero_needs_a_waiting_consumer(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel)
    channel.basic_publish("", queue, b"nobody there", expiring(0))
    deliveries = consume(channel, queue, auto_ack=True)
    channel.basic_publish("", queue, b"taken", expiring(0))
    deliveries.wait_for(1)
    assert deliveries.bodies == [b"taken"]


def test_a_delivered_message_does_not_expire_but_a_requeued_one_does(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel, {"x-message-ttl": SHORT_MILLISECONDS})
    channel.basic_publish("", queue, b"")
    held = fetch(channel, queue, auto_ack=False)
    time.sleep(1.5 * SHORT_MILLISECONDS / 1000)
    channel.basic_nack(held.tag, requeue=True)
    eventually(lambda: is_empty(channel, queue))
    assert channel.basic_get(queue)[0] is None


def test_a_full_queue_drops_from_its_head(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel, {"x-max-length": 2})
    for body in (b"1", b"2", b"3", b"4"):
        channel.basic_publish("", queue, body)
    assert message_count(channel, queue) == 2
    assert fetch_bodies(channel, queue, 2) == [b"3", b"4"]


def test_a_length_of_zero_lets_messages_through_to_waiting_consumers_only(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel, {"x-max-length": 0})
    channel.basic_publish("", queue, b"nobody there")
    assert is_empty(channel, queue)
    deliveries = consume(channel, queue, auto_ack=True)
    channel.basic_publish("", queue, b"taken")
    deliveries.wait_for(1)
    assert deliveries.bodies == [b"taken"]


def test_only_ready_messages_count_for_the_length(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel, {"x-max-length": 2})
    channel.basic_publish("", queue, b"held")
    held = fetch(channel, queue, auto_ack=False)
    for body in (b"1", b"2"):
        channel.basic_publish("", queue, body)
    assert message_count(channel, queue) == 2
    # Coming back makes the queue too long; the head, which it is itself, goes.
    channel.basic_nack(held.tag, requeue=True)
    eventually(lambda: message_count(channel, queue) == 2)
    assert fetch_bodies(channel, queue, 2) == [b"1", b"2"]


def test_bytes_are_the_bodies_bytes(broker: BrokerUnderTest, channel: BlockingChannel) -> None:
    queue = broker.queue(channel, {"x-max-length-bytes": 10})
    for body in (b"aaaa", b"bbbb", b"cc"):
        channel.basic_publish("", queue, body)
    assert message_count(channel, queue) == 3
    channel.basic_publish("", queue, b"d")
    assert fetch_bodies(channel, queue, 3) == [b"bbbb", b"cc", b"d"]


def test_a_message_larger_than_the_whole_limit_drops_everything(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel, {"x-max-length-bytes": 10})
    channel.basic_publish("", queue, b"small")
    channel.basic_publish("", queue, b"much too large")
    assert is_empty(channel, queue)


def test_both_limits_hold(broker: BrokerUnderTest, channel: BlockingChannel) -> None:
    queue = broker.queue(channel, {"x-max-length": 3, "x-max-length-bytes": 10})
    for body in (b"1", b"2", b"3", b"4", b"9 letters"):
        channel.basic_publish("", queue, body)
    assert fetch_bodies(channel, queue, 2) == [b"4", b"9 letters"]


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_rejecting_queue_keeps_what_it_has(
    broker: BrokerUnderTest, channel: BlockingChannel, overflow: str
) -> None:
    queue = broker.queue(channel, {"x-max-length": 1, "x-overflow": overflow})
    channel.basic_publish("", queue, b"first")
    with pytest.raises(NackError):
        channel.basic_publish("", queue, b"second")
    assert fetch_bodies(channel, queue, 1) == [b"first"]
    channel.basic_publish("", queue, b"third")
    assert fetch_bodies(channel, queue, 1) == [b"third"]


def test_a_rejecting_queue_rejects_silently_without_confirms(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    queue = broker.queue(channel, {"x-max-length": 1, "x-overflow": "reject-publish"})
    for body in (b"first", b"second"):
        channel.basic_publish("", queue, body)
    assert fetch(channel, queue).body == b"first"
    assert is_empty(channel, queue)


def test_a_rejecting_queue_takes_what_just_fits(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel, {"x-max-length-bytes": 10, "x-overflow": "reject-publish"})
    channel.basic_publish("", queue, b"eight...")
    with pytest.raises(NackError):
        channel.basic_publish("", queue, b"3..")
    channel.basic_publish("", queue, b"2.")
    assert fetch_bodies(channel, queue, 2) == [b"eight...", b"2."]


def test_a_priority_queue_too_drops_from_its_head_which_is_the_highest_priority(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel, {"x-max-length": 2, "x-max-priority": 5})
    for priority in (5, 1, 3):
        properties = BasicProperties(priority=priority)
        channel.basic_publish("", queue, str(priority).encode(), properties)
    assert fetch_bodies(channel, queue, 2) == [b"3", b"1"]
