"""How a test says what it expects: refusals with code and text, and answers within a deadline."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import pika.exceptions
import pytest
from pika import BasicProperties, spec
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.raw import RawConnection
from tests.behaviour.target import BrokerUnderTest

# A broker on the same machine answers in milliseconds; this is for a loaded one.
PATIENCE_SECONDS = 5.0
POLL_SECONDS = 0.01
# How long nothing must happen before a test believes that nothing will.
QUIET_SECONDS = 0.1


CODE_TEXTS = {
    501: "FRAME_ERROR - ",
    502: "SYNTAX_ERROR - ",
    503: "COMMAND_INVALID - ",
    504: "CHANNEL_ERROR - ",
    505: "UNEXPECTED_FRAME - ",
    530: "NOT_ALLOWED - ",
    540: "NOT_IMPLEMENTED - ",
    541: "INTERNAL_ERROR",  # RabbitMQ says no more than that
}


class Refusal(Protocol):
    """What closes of channels and connections have in common."""

    reply_code: int
    reply_text: str


def check_refusal(refusal: Refusal, code: int, text: str) -> None:
    said = f"{refusal.reply_code} {refusal.reply_text}"
    assert refusal.reply_code == code, f"expected {code} {text}, got {said}"
    assert refusal.reply_text.startswith(text), f"expected {code} {text}, got {said}"


@contextlib.contextmanager
def channel_refused(code: int, text: str) -> Iterator[None]:
    """The body's call ends the channel with `code` and a text that starts with `text`."""
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refusal:
        yield
    check_refusal(refusal.value, code, text)


@contextlib.contextmanager
def connection_refused(code: int, text: str) -> Iterator[None]:
    """The body's call ends the whole connection with `code` and a text starting with `text`."""
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as refusal:
        yield
    check_refusal(refusal.value, code, text)


def expect_channel_close(connection: RawConnection, code: int, text: str) -> spec.Channel.Close:
    close = connection.expect(spec.Channel.Close)
    assert isinstance(close, spec.Channel.Close)
    check_refusal(close, code, text)
    return close


def expect_connection_close(
    connection: RawConnection, code: int, text: str
) -> spec.Connection.Close:
    close = connection.expect(spec.Connection.Close, 0)
    assert isinstance(close, spec.Connection.Close)
    check_refusal(close, code, text)
    return close


def expect_violation(
    broker: BrokerUnderTest, connection: RawConnection, rabbitmq: int, penstock: int = 0
) -> spec.Connection.Close:
    """A breach of protocol ends the connection with RabbitMQ's code, or with the one named for
    Penstock, which docs/BEHAVIOUR.md then explains. The text starts with the code's name and is
    free after it.
    """
    close = connection.expect(spec.Connection.Close, 0)
    assert isinstance(close, spec.Connection.Close)
    code = rabbitmq if broker.is_rabbitmq or not penstock else penstock
    check_refusal(close, code, CODE_TEXTS[code])
    return close


def eventually(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until `condition` holds; fail when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(POLL_SECONDS)


class Message:
    """A message as a test looks at it."""

    def __init__(
        self,
        method: spec.Basic.GetOk | spec.Basic.Deliver | spec.Basic.Return,
        properties: BasicProperties,
        body: bytes,
    ) -> None:
        self.method = method
        self.properties = properties
        self.body = body

    @property
    def headers(self) -> dict[str, object]:
        headers: dict[str, object] = self.properties.headers or {}
        return headers

    @property
    def tag(self) -> int:
        tag: int = self.method.delivery_tag
        return tag


def fetch(channel: BlockingChannel, queue: str, *, auto_ack: bool = True) -> Message:
    """Get a message; wait for one if it is still on its way."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        method, properties, body = channel.basic_get(queue, auto_ack=auto_ack)
        if method is not None:
            return Message(method, properties, body)
        assert time.monotonic() < deadline, f"no message came to {queue}"
        time.sleep(POLL_SECONDS)


def fetch_bodies(channel: BlockingChannel, queue: str, count: int) -> list[bytes]:
    return [fetch(channel, queue).body for _ in range(count)]


def is_empty(channel: BlockingChannel, queue: str) -> bool:
    return message_count(channel, queue) == 0


def message_count(channel: BlockingChannel, queue: str) -> int:
    count: int = channel.queue_declare(queue, passive=True).method.message_count
    return count


def consumer_count(channel: BlockingChannel, queue: str) -> int:
    count: int = channel.queue_declare(queue, passive=True).method.consumer_count
    return count


class Deliveries:
    """Collects what a consumer receives; `wait_for` drives the connection until enough came."""

    def __init__(self, channel: BlockingChannel) -> None:
        self.channel = channel
        self.messages: list[Message] = []

    def __call__(
        self,
        channel: BlockingChannel,
        method: spec.Basic.Deliver,
        properties: BasicProperties,
        body: bytes,
    ) -> None:
        self.messages.append(Message(method, properties, body))

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    def wait_for(self, count: int) -> list[Message]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.messages) < count:
            self.channel.connection.process_data_events(time_limit=POLL_SECONDS)
            assert time.monotonic() < deadline, f"{len(self.messages)} of {count} came"
        return self.messages

    def settle(self) -> list[Message]:
        """What has come when nothing more came for a while."""
        quiet_since, seen = time.monotonic(), len(self.messages)
        while time.monotonic() - quiet_since < QUIET_SECONDS:
            self.channel.connection.process_data_events(time_limit=POLL_SECONDS)
            if len(self.messages) != seen:
                quiet_since, seen = time.monotonic(), len(self.messages)
        return self.messages


def consume(
    channel: BlockingChannel,
    queue: str,
    *,
    auto_ack: bool = False,
    exclusive: bool = False,
    consumer_tag: str | None = None,
    arguments: dict[str, object] | None = None,
) -> Deliveries:
    deliveries = Deliveries(channel)
    channel.basic_consume(
        queue,
        deliveries,
        auto_ack=auto_ack,
        exclusive=exclusive,
        consumer_tag=consumer_tag,
        arguments=arguments,
    )
    return deliveries
