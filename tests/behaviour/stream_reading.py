"""Declaring, filling and reading streams, for the tests of both brokers' and of our own behaviour."""

from __future__ import annotations

from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.expectations import Deliveries, Message
from tests.behaviour.target import BrokerUnderTest


def declare(
    broker: BrokerUnderTest, channel: BlockingChannel, arguments: dict[str, object] | None = None
) -> str:
    given: dict[str, object] = {"x-queue-type": "stream"}
    given.update(arguments or {})
    return broker.queue(channel, given, exclusive=False, durable=True)


def publish(channel: BlockingChannel, stream: str, *bodies: bytes) -> None:
    for body in bodies:
        channel.basic_publish("", stream, body)


def consume(
    channel: BlockingChannel,
    stream: str,
    arguments: dict[str, object] | None = None,
    prefetch: int = 100,
) -> Deliveries:
    channel.basic_qos(prefetch_count=prefetch)
    deliveries = Deliveries(channel)
    channel.basic_consume(stream, deliveries, arguments=arguments)
    return deliveries


def offsets(messages: list[Message]) -> list[int]:
    found = [message.headers["x-stream-offset"] for message in messages]
    return [int(str(offset).rstrip("L")) for offset in found]
