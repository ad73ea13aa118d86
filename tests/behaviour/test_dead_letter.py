"""Dead-lettering: why, where to, and what x-death tells."""

from __future__ import annotations

import time
from datetime import datetime
from typing import cast

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError

from tests.behaviour.expectations import (
    QUIET_SECONDS,
    Message,
    consume,
    eventually,
    fetch,
    fetch_bodies,
    is_empty,
    message_count,
)
from tests.behaviour.target import BrokerUnderTest


@pytest.fixture
def channel(broker: BrokerUnderTest) -> BlockingChannel:
    channel = broker.channel()
    channel.confirm_delivery()
    return channel


@pytest.fixture
def graveyard(broker: BrokerUnderTest, channel: BlockingChannel) -> str:
    return broker.queue(channel)


def dying_queue(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str, **arguments: object
) -> str:
    """A queue whose dead go to `graveyard`; underscores in argument names stand for dashes."""
    table: dict[str, object] = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": graveyard,
        **{name.replace("_", "-"): value for name, value in arguments.items()},
    }
    return broker.queue(channel, table)


def deaths(message: Message) -> list[dict[str, object]]:
    return cast(list[dict[str, object]], message.headers["x-death"])


def test_a_rejected_message_is_dead_lettered_with_its_history(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str
) -> None:
    queue = dying_queue(broker, channel, graveyard)
    properties = BasicProperties(message_id="m", headers={"own": 1})
    channel.basic_publish("", queue, b"body", properties)
    channel.basic_reject(fetch(channel, queue, auto_ack=False).tag, requeue=False)
    message = fetch(channel, graveyard)
    assert (message.body, message.properties.message_id) == (b"body", "m")
    assert (message.method.exchange, message.method.routing_key) == ("", graveyard)
    assert not message.method.redelivered
    death = deaths(message)[0]
    assert isinstance(death.pop("time"), datetime)
    assert death == {
        "count": 1,
        "reason": "rejected",
        "queue": queue,
        "exchange": "",
        "routing-keys": [queue],
    }
    assert {name: value for name, value in message.headers.items() if name != "x-death"} == {
        "own": 1,
        "x-first-death-exchange": "",
        "x-first-death-queue": queue,
        "x-first-death-reason": "rejected",
    }


def test_a_nack_of_several_dead_letters_them_in_order(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str
) -> None:
    queue = dying_queue(broker, channel, graveyard)
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", queue, body)
        last = fetch(channel, queue, auto_ack=False)
    channel.basic_nack(last.tag, multiple=True, requeue=False)
    assert fetch_bodies(channel, graveyard, 3) == [b"1", b"2", b"3"]


def test_an_expired_message_loses_its_expiration(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str
) -> None:
    queue = dying_queue(broker, channel, graveyard)
    channel.basic_publish("", queue, b"", BasicProperties(expiration="20"))
    message = fetch(channel, graveyard)
    assert message.properties.expiration is None
    death = deaths(message)[0]
    assert (death["reason"], death["original-expiration"]) == ("expired", "20")


def test_a_message_expired_by_its_queue_has_no_original_expiration(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str
) -> None:
    queue = dying_queue(broker, channel, graveyard, x_message_ttl=20)
    channel.basic_publish("", queue, b"")
    death = deaths(fetch(channel, graveyard))[0]
    assert death["reason"] == "expired"
    assert "original-expiration" not in death


def test_a_message_dropped_for_length_is_dead_lettered(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str
) -> None:
    queue = dying_queue(broker, channel, graveyard, x_max_length=1)
    channel.basic_publish("", queue, b"old")
    channel.basic_publish("", queue, b"new")
    message = fetch(channel, graveyard)
    assert (message.body, deaths(message)[0]["reason"]) == (b"old", "maxlen")


def test_a_rejected_publish_is_dead_lettered_only_when_asked_for(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str
) -> None:
    quiet = dying_queue(broker, channel, graveyard, x_max_length=0, x_overflow="reject-publish")
    with pytest.raises(NackError):
        channel.basic_publish("", quiet, b"gone")
    queue = dying_queue(broker, channel, graveyard, x_max_length=0, x_overflow="reject-publish-dlx")
    with pytest.raises(NackError):
        channel.basic_publish("", queue, b"dead")
    message = fetch(channel, graveyard)
    assert (message.body, deaths(message)[0]["reason"]) == (b"dead", "maxlen")
    assert is_empty(channel, graveyard)


def test_without_a_key_of_its_own_the_queue_keeps_the_messages_keys(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str
) -> None:
    exchange = broker.exchange(channel, "topic")
    queue = broker.queue(channel, {"x-dead-letter-exchange": exchange})
    channel.queue_bind(graveyard, exchange, "copy")
    properties = BasicProperties(headers={"CC": ["copy"]})
    channel.basic_publish("", queue, b"", properties)
    channel.basic_reject(fetch(channel, queue, auto_ack=False).tag, requeue=False)
    message = fetch(channel, graveyard)
    assert (message.method.exchange, message.method.routing_key) == (exchange, queue)
    assert message.headers["CC"] == ["copy"]
    assert deaths(message)[0]["routing-keys"] == [queue, "copy"]


def test_a_key_of_the_queues_own_replaces_key_and_cc(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str
) -> None:
    other = broker.queue(channel)
    queue = dying_queue(broker, channel, graveyard)
    properties = BasicProperties(headers={"CC": [other]})
    channel.basic_publish("", queue, b"", properties)
    fetch(channel, other)
    channel.basic_reject(fetch(channel, queue, auto_ack=False).tag, requeue=False)
    message = fetch(channel, graveyard)
    assert "CC" not in message.headers
    assert is_empty(channel, other)


def test_bcc_is_forgotten_by_x_death(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str
) -> None:
    queue = dying_queue(broker, channel, graveyard)
    properties = BasicProperties(headers={"CC": ["copy"], "BCC": ["blind"]})
    channel.basic_publish("", queue, b"", properties)
    channel.basic_reject(fetch(channel, queue, auto_ack=False).tag, requeue=False)
    assert deaths(fetch(channel, graveyard))[0]["routing-keys"] == [queue, "copy"]


def test_dying_again_counts_and_the_latest_death_comes_first(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str
) -> None:
    second = dying_queue(broker, channel, graveyard)
    first = dying_queue(broker, channel, second)
    channel.basic_publish("", first, b"")
    for _ in range(2):
        for queue in (first, second):
            channel.basic_reject(fetch(channel, queue, auto_ack=False).tag, requeue=False)
        message = fetch(channel, graveyard)
        channel.basic_publish("", first, message.body, message.properties)
    history = [(death["queue"], death["count"]) for death in deaths(message)]
    assert history == [(second, 2), (first, 2)]
    assert message.headers["x-first-death-queue"] == first


def test_each_reason_has_an_entry_of_its_own(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str
) -> None:
    queue = dying_queue(broker, channel, graveyard)
    channel.basic_publish("", queue, b"")
    channel.basic_reject(fetch(channel, queue, auto_ack=False).tag, requeue=False)
    message = fetch(channel, graveyard)
    message.properties.expiration = "1"
    channel.basic_publish("", queue, b"", message.properties)
    history = [(death["reason"], death["count"]) for death in deaths(fetch(channel, graveyard))]
    assert history == [("expired", 1), ("rejected", 1)]


def test_a_cycle_without_a_reject_ends(broker: BrokerUnderTest, channel: BlockingChannel) -> None:
    first, second = broker.name("first"), broker.name("second")
    for queue, following in ((first, second), (second, first)):
        arguments = {
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": following,
            "x-message-ttl": 10,
        }
        channel.queue_declare(queue, exclusive=True, arguments=arguments)
    channel.basic_publish("", first, b"")

    def stay_empty() -> bool:
        """Not only between two hops."""
        until = time.monotonic() + QUIET_SECONDS
        while time.monotonic() < until:
            if not (is_empty(channel, first) and is_empty(channel, second)):
                return False
        return True

    # It passes both queues once and is dropped when it would come to the first again.
    eventually(stay_empty)


def test_a_cycle_with_a_reject_goes_on(broker: BrokerUnderTest, channel: BlockingChannel) -> None:
    queue = broker.name()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    channel.queue_declare(queue, exclusive=True, arguments=arguments)
    channel.basic_publish("", queue, b"")
    for count in (1, 2, 3):
        channel.basic_reject(fetch(channel, queue, auto_ack=False).tag, requeue=False)
        message = fetch(channel, queue, auto_ack=False)
        assert [death["count"] for death in deaths(message)] == [count]
        channel.basic_nack(message.tag, requeue=True)


def test_a_dead_letter_exchange_that_is_not_there_drops(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel, {"x-dead-letter-exchange": broker.name("missing")})
    channel.basic_publish("", queue, b"")
    channel.basic_reject(fetch(channel, queue, auto_ack=False).tag, requeue=False)
    assert is_empty(channel, queue)


def test_purged_and_acknowledged_messages_are_not_dead(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str
) -> None:
    queue = dying_queue(broker, channel, graveyard)
    for _ in range(2):
        channel.basic_publish("", queue, b"")
    channel.basic_ack(fetch(channel, queue, auto_ack=False).tag)
    channel.queue_purge(queue)
    channel.basic_publish("", queue, b"marker")
    channel.basic_reject(fetch(channel, queue, auto_ack=False).tag, requeue=False)
    assert fetch(channel, graveyard).body == b"marker"
    assert is_empty(channel, graveyard)


def test_a_rejected_message_waits_for_requeue_false(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str
) -> None:
    queue = dying_queue(broker, channel, graveyard)
    channel.basic_publish("", queue, b"")
    channel.basic_reject(fetch(channel, queue, auto_ack=False).tag, requeue=True)
    assert "x-death" not in fetch(channel, queue).headers
    assert is_empty(channel, graveyard)


def quorum_queue(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str, limit: int
) -> str:
    arguments: dict[str, object] = {
        "x-queue-type": "quorum",
        "x-delivery-limit": limit,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": graveyard,
    }
    return broker.queue(channel, arguments, exclusive=False, durable=True)


def test_a_quorum_queue_counts_deliveries(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str
) -> None:
    queue = quorum_queue(broker, channel, graveyard, 5)
    channel.basic_publish("", queue, b"")
    seen = []
    for _ in range(3):
        message = fetch(channel, queue, auto_ack=False)
        seen.append(message.headers.get("x-delivery-count"))
        channel.basic_nack(message.tag, requeue=True)
    # RabbitMQ 3.10 shows a got message its 0, and does not show it to a pushed one.
    assert seen in ([0, 1, 2], [None, 1, 2])
    channel.queue_delete(queue)


def test_a_pushed_first_delivery_does_not_show_its_count_of_zero(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str
) -> None:
    queue = quorum_queue(broker, channel, graveyard, 5)
    channel.basic_publish("", queue, b"")
    deliveries = consume(channel, queue)
    channel.basic_nack(deliveries.wait_for(1)[0].tag, requeue=True)
    seen = [message.headers.get("x-delivery-count") for message in deliveries.wait_for(2)]
    assert seen == [None, 1]
    channel.queue_delete(queue)


def test_a_message_returned_too_often_is_dead(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str
) -> None:
    queue = quorum_queue(broker, channel, graveyard, 2)
    channel.basic_publish("", queue, b"poison")
    deliveries = consume(channel, queue)
    for number in range(3):
        message = deliveries.wait_for(number + 1)[number]
        channel.basic_nack(message.tag, requeue=True)
    death = deaths(fetch(channel, graveyard))[0]
    assert (death["reason"], death["queue"]) == ("delivery_limit", queue)
    assert len(deliveries.settle()) == 3
    assert message_count(channel, queue) == 0
    channel.queue_delete(queue)


def test_messages_that_reach_the_delivery_limit_together_are_dead_lettered_in_order(
    broker: BrokerUnderTest, channel: BlockingChannel, graveyard: str
) -> None:
    queue = quorum_queue(broker, channel, graveyard, 0)
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", queue, body)
    last = consume(channel, queue).wait_for(3)[2]
    channel.basic_nack(last.tag, multiple=True, requeue=True)
    assert [fetch(channel, graveyard).body for _ in range(3)] == [b"1", b"2", b"3"]
    channel.queue_delete(queue)
