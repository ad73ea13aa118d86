"""pika when something goes wrong: errors as its own exceptions, cancels, drops, and calls over RPC."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import (
    AMQPConnectionError,
    ChannelClosedByBroker,
    ProbableAuthenticationError,
)

PATIENCE_SECONDS = 10.0

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def connection(broker_url: str) -> Iterator[BlockingConnection]:
    opened = BlockingConnection(pika.URLParameters(f"{broker_url}/%2F"))
    yield opened
    if opened.is_open:
        opened.close()


def process_until(connection: BlockingConnection, happened: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        assert time.monotonic() < give_up_at, "it did not happen in time"
        connection.process_data_events(0.05)


def declare_differently(channel: BlockingChannel, queue: str) -> None:
    channel.queue_declare(queue, exclusive=True)
    channel.queue_declare(queue, exclusive=True, arguments={"x-max-length": 1})


def acknowledge_unknown(channel: BlockingChannel, _queue: str) -> None:
    channel.basic_ack(4711)
    channel.basic_qos(prefetch_count=1)  # an ack has no answer; this waits for one


def publish_nowhere(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish(queue, "", b"the exchange does not exist")


def impersonate(channel: BlockingChannel, _queue: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", "anywhere", b"", pika.BasicProperties(user_id="somebody-else"))


@pytest.mark.parametrize(
    ("mistake", "code", "words"),
    [
        (lambda channel, queue: channel.queue_declare(queue, passive=True), 404, "NOT_FOUND"),
        (lambda channel, queue: channel.basic_consume(queue, print), 404, "NOT_FOUND"),
        (lambda channel, _: channel.exchange_declare("amq.mine"), 403, "ACCESS_REFUSED"),
        (lambda channel, _: channel.exchange_declare("amq.fanout"), 406, "PRECONDITION_FAILED"),
        (lambda channel, _: channel.queue_declare("amq.mine"), 403, "ACCESS_REFUSED"),
        (declare_differently, 406, "inequivalent arg 'x-max-length'"),
        (acknowledge_unknown, 406, "unknown delivery tag 4711"),
        (publish_nowhere, 404, "no exchange"),
        (impersonate, 406, "user_id property set to 'somebody-else'"),
    ],
    ids=[
        "passive declare of a missing queue",
        "consume from a missing queue",
        "reserved exchange name",
        "exchange of another type",
        "reserved queue name",
        "other arguments",
        "unknown delivery tag",
        "publish to a missing exchange",
        "user id of somebody else",
    ],
)
def test_a_mistake_costs_pika_the_channel_and_not_the_connection(
    connection: BlockingConnection,
    unique: Callable[[str], str],
    mistake: Callable[[BlockingChannel, str], object],
    code: int,
    words: str,
) -> None:
    channel = connection.channel()
    with pytest.raises(ChannelClosedByBroker) as caught:
        mistake(channel, unique("mistake"))
    assert caught.value.reply_code == code
    assert words in caught.value.reply_text
    assert channel.is_closed
    assert connection.channel().queue_declare("", exclusive=True).method.queue


def test_an_exclusive_queue_is_locked_to_other_pika_connections(
    connection: BlockingConnection, broker_url: str
) -> None:
    queue = connection.channel().queue_declare("", exclusive=True).method.queue
    with BlockingConnection(pika.URLParameters(f"{broker_url}/%2F")) as other:
        channel = other.channel()
        with pytest.raises(ChannelClosedByBroker) as caught:
            channel.queue_declare(queue, passive=True)
    assert caught.value.reply_code == 405


def test_pika_is_told_when_its_queue_is_deleted(
    connection: BlockingConnection, unique: Callable[[str], str]
) -> None:
    queue = unique("doomed")
    consuming, deleting = connection.channel(), connection.channel()
    consuming.queue_declare(queue)
    cancelled: list[str] = []
    consuming.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = consuming.basic_consume(queue, lambda *_: None)
    deleting.queue_delete(queue)
    process_until(connection, lambda: cancelled)
    assert cancelled == [tag]
    assert consuming.is_open


def test_a_wrong_password_is_an_authentication_error_in_pika(broker_url: str) -> None:
    parameters = pika.URLParameters(f"{broker_url}/%2F")
    parameters.credentials = pika.PlainCredentials("guest", "wrong")
    with pytest.raises(ProbableAuthenticationError, match="403"):
        BlockingConnection(parameters)


def test_an_unknown_vhost_is_an_access_error_in_pika(broker_url: str) -> None:
    with pytest.raises(AMQPConnectionError) as caught:
        BlockingConnection(pika.URLParameters(f"{broker_url}/no-such-vhost"))
    assert "530" in repr(caught.value)


def test_short_heartbeats_keep_an_idle_pika_connection_alive(broker_url: str) -> None:
    parameters = pika.URLParameters(f"{broker_url}/%2F?heartbeat=1")
    with BlockingConnection(parameters) as connection:
        # Idle for over two intervals is the point of this test, not a wait for something.
        connection.process_data_events(2.6)
        assert connection.is_open
        assert connection.channel().queue_declare("", exclusive=True).method.queue


def test_pika_hears_of_a_dropped_connection_and_finds_its_queue_again(
    broker_url: str, unique: Callable[[str], str], drop_connections: Callable[[], None]
) -> None:
    queue = unique("survivor")
    connection = BlockingConnection(pika.URLParameters(f"{broker_url}/%2F"))
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"unacked", pika.BasicProperties(delivery_mode=2))
    assert channel.basic_get(queue)[2] == b"unacked"
    drop_connections()
    with pytest.raises(AMQPConnectionError):
        process_until(connection, lambda: False)
    assert connection.is_closed
    with BlockingConnection(pika.URLParameters(f"{broker_url}/%2F")) as again:
        channel = again.channel()
        method, _, body = channel.basic_get(queue, auto_ack=True)
        assert (body, method.redelivered) == (b"unacked", True)
        channel.queue_delete(queue)


def test_pika_calls_a_procedure_over_direct_reply_to(
    connection: BlockingConnection, unique: Callable[[str], str]
) -> None:
    server, caller = connection.channel(), connection.channel()
    queue = unique("procedure")
    server.queue_declare(queue, exclusive=True)

    def answer(
        channel: BlockingChannel,
        method: pika.spec.Basic.Deliver,
        properties: pika.BasicProperties,
        body: bytes,
    ) -> None:
        assert properties.reply_to.startswith("amq.rabbitmq.reply-to.")
        channel.basic_publish(
            "",
            properties.reply_to,
            body.upper(),
            pika.BasicProperties(correlation_id=properties.correlation_id),
        )
        channel.basic_ack(method.delivery_tag)

    server.basic_consume(queue, answer)
    answers: list[tuple[str, bytes]] = []
    caller.basic_consume(
        "amq.rabbitmq.reply-to",
        lambda _c, _m, properties, body: answers.append((properties.correlation_id, body)),
        auto_ack=True,
    )
    for number in ("1", "2"):
        caller.basic_publish(
            "",
            queue,
            b"shout",
            pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id=number),
        )
    process_until(connection, lambda: len(answers) == 2)
    assert answers == [("1", b"SHOUT"), ("2", b"SHOUT")]


def test_pika_renews_its_secret(connection: BlockingConnection) -> None:
    connection.update_secret("guest", "rotation")
    assert connection.channel().is_open
