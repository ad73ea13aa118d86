"""pika, the client most Python programs use, over its blocking adapter: publishing and consuming."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import NackError, UnroutableError

# Long enough for a loaded core; every wait ends as soon as what it waits for is there.
PATIENCE_SECONDS = 10.0

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def connection(broker_url: str) -> Iterator[BlockingConnection]:
    opened = BlockingConnection(pika.URLParameters(f"{broker_url}/%2F?heartbeat=30"))
    yield opened
    if opened.is_open:
        opened.close()


@pytest.fixture
def channel(connection: BlockingConnection) -> BlockingChannel:
    return connection.channel()


def exclusive_queue(channel: BlockingChannel, **arguments: object) -> str:
    declared = channel.queue_declare("", exclusive=True, arguments=arguments or None)
    name: str = declared.method.queue
    return name


def bodies(channel: BlockingChannel, queue: str, count: int) -> list[bytes]:
    """Consumes and acknowledges exactly `count` messages."""
    received: list[bytes] = []
    for method, _, body in channel.consume(queue, inactivity_timeout=PATIENCE_SECONDS):
        assert method is not None, f"only {received} arrived"
        channel.basic_ack(method.delivery_tag)
        received.append(body)
        if len(received) == count:
            break
    channel.cancel()
    return received


def test_pika_sees_the_capabilities_it_looks_for(connection: BlockingConnection) -> None:
    assert connection.basic_nack_supported
    assert connection.consumer_cancel_notify_supported
    assert connection.exchange_exchange_bindings_supported
    assert connection.publisher_confirms_supported


@pytest.mark.parametrize(
    ("kind", "binding_key", "matching", "other"),
    [
        ("direct", "red", "red", "blue"),
        ("topic", "stock.*.#", "stock.eu", "bond.eu"),
        ("topic", "#.nyse", "usd.stock.nyse", "usd.stock"),
    ],
)
def test_pika_routes_by_key_through_a_declared_exchange(
    channel: BlockingChannel,
    unique: Callable[[str], str],
    kind: str,
    binding_key: str,
    matching: str,
    other: str,
) -> None:
    exchange, queue = unique(kind), exclusive_queue(channel)
    channel.exchange_declare(exchange, kind, auto_delete=True)
    channel.queue_bind(queue, exchange, binding_key)
    channel.confirm_delivery()
    channel.basic_publish(exchange, matching, b"yes", mandatory=True)
    with pytest.raises(UnroutableError):
        channel.basic_publish(exchange, other, b"no", mandatory=True)
    assert bodies(channel, queue, 1) == [b"yes"]
    channel.queue_unbind(queue, exchange, binding_key)
    # The last binding of an auto-delete exchange took the exchange with it: it may be redeclared as
    # something else.
    channel.exchange_declare(exchange, "fanout", auto_delete=True)
    channel.exchange_delete(exchange)


def test_pika_routes_by_headers_and_between_exchanges(
    channel: BlockingChannel, unique: Callable[[str], str]
) -> None:
    first, second, queue = unique("source"), unique("headers"), exclusive_queue(channel)
    channel.exchange_declare(first, "fanout")
    channel.exchange_declare(second, "headers")
    channel.exchange_bind(second, first)
    channel.queue_bind(queue, second, arguments={"x-match": "all", "colour": "red", "size": 3})
    for headers, body in (
        ({"colour": "red", "size": 4}, b"wrong size"),
        ({"colour": "red", "size": 3, "more": True}, b"right"),
    ):
        channel.basic_publish(first, "", body, pika.BasicProperties(headers=headers))
    assert bodies(channel, queue, 1) == [b"right"]
    channel.exchange_unbind(second, first)
    channel.exchange_delete(first)
    channel.exchange_delete(second)


def test_an_unroutable_mandatory_message_comes_back_to_pika_whole(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish(
            "", "no-such-queue", b"lost", pika.BasicProperties(message_id="m1"), mandatory=True
        )
    (returned,) = caught.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.exchange, returned.method.routing_key) == ("", "no-such-queue")
    assert (returned.properties.message_id, returned.body) == ("m1", b"lost")
    channel.basic_publish("", "no-such-queue", b"not mandatory, so confirmed and gone")


def test_a_publish_that_a_full_queue_rejects_is_a_nack_to_pika(channel: BlockingChannel) -> None:
    queue = exclusive_queue(channel, **{"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"fits")
    with pytest.raises(NackError):
        channel.basic_publish("", queue, b"does not")
    assert channel.queue_declare(queue, passive=True).method.message_count == 1


def test_pika_never_holds_more_than_its_prefetch(
    connection: BlockingConnection, channel: BlockingChannel
) -> None:
    queue = exclusive_queue(channel)
    channel.basic_qos(prefetch_count=2)
    for number in range(5):
        channel.basic_publish("", queue, str(number).encode())
    held: list[int] = []
    channel.basic_consume(queue, lambda _c, method, _p, _b: held.append(method.delivery_tag))

    def settle(expected_ready: int) -> int:
        """Everything the broker sent before answering a declare has arrived with the answer."""
        connection.process_data_events(0)
        for _ in range(100):
            ready: int = channel.queue_declare(queue, passive=True).method.message_count
            connection.process_data_events(0)
            if ready == expected_ready:
                break
        return len(held)

    assert settle(expected_ready=3) == 2
    channel.basic_ack(held[1], multiple=True)
    assert settle(expected_ready=1) == 4
    channel.basic_ack(held[3], multiple=True)
    assert settle(expected_ready=0) == 5


def test_pika_gets_nacks_and_gets_again_in_order(channel: BlockingChannel) -> None:
    queue = exclusive_queue(channel)
    assert channel.basic_get(queue) == (None, None, None)
    for body in (b"a", b"b", b"c"):
        channel.basic_publish("", queue, body)
    tags = []
    for remaining in (2, 1, 0):
        method, _, _ = channel.basic_get(queue)
        assert (method.message_count, method.redelivered) == (remaining, False)
        tags.append(method.delivery_tag)
    channel.basic_nack(tags[2], requeue=True)
    channel.basic_nack(tags[1], multiple=True, requeue=True)
    again = [channel.basic_get(queue, auto_ack=True) for _ in range(3)]
    assert [body for _, _, body in again] == [b"a", b"b", b"c"]
    assert all(method.redelivered for method, _, _ in again)


def test_recover_gives_pika_back_what_it_had_not_acknowledged(channel: BlockingChannel) -> None:
    queue = exclusive_queue(channel)
    channel.basic_publish("", queue, b"again")
    assert channel.basic_get(queue)[2] == b"again"
    channel.basic_recover(requeue=True)
    method, _, body = channel.basic_get(queue, auto_ack=True)
    assert (method.redelivered, body) == (True, b"again")


def test_a_message_pika_rejects_is_dead_lettered_with_its_history(
    channel: BlockingChannel,
) -> None:
    graveyard = exclusive_queue(channel)
    queue = exclusive_queue(
        channel, **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": graveyard}
    )
    channel.basic_publish("", queue, b"unwanted", pika.BasicProperties(headers={"mine": 1}))
    method, _, _ = channel.basic_get(queue)
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.basic_publish("", queue, b"late", pika.BasicProperties(expiration="1"))
    histories = {}
    for _, properties, body in channel.consume(
        graveyard, auto_ack=True, inactivity_timeout=PATIENCE_SECONDS
    ):
        histories[body] = properties
        if len(histories) == 2:
            break
    channel.cancel()
    rejected, expired = histories[b"unwanted"].headers, histories[b"late"].headers
    (death,) = rejected["x-death"]
    assert rejected["mine"] == 1
    assert (death["reason"], death["queue"], death["count"]) == ("rejected", queue, 1)
    assert (death["exchange"], death["routing-keys"]) == ("", [queue])
    assert isinstance(death["time"], datetime)
    assert rejected["x-first-death-reason"] == "rejected"
    assert expired["x-death"][0]["reason"] == "expired"
    assert expired["x-death"][0]["original-expiration"] == "1"
    assert histories[b"late"].expiration is None


def test_pika_commits_and_rolls_back_a_transaction(channel: BlockingChannel) -> None:
    queue = exclusive_queue(channel)

    def count() -> int:
        ready: int = channel.queue_declare(queue, passive=True).method.message_count
        return ready

    channel.tx_select()
    channel.basic_publish("", queue, b"regretted")
    channel.tx_rollback()
    channel.basic_publish("", queue, b"meant")
    assert count() == 0
    channel.tx_commit()
    assert count() == 1
    method, _, _ = channel.basic_get(queue)
    channel.basic_ack(method.delivery_tag)
    channel.tx_rollback()
    channel.basic_ack(method.delivery_tag)  # the rolled back ack left the message with us
    channel.tx_commit()
    assert channel.basic_get(queue) == (None, None, None)


@pytest.mark.parametrize("frame_max", [4096, 131072])
def test_a_large_message_crosses_pika_in_several_frames(
    broker_url: str, unique: Callable[[str], str], frame_max: int
) -> None:
    parameters = pika.URLParameters(f"{broker_url}/%2F?frame_max={frame_max}")
    body = bytes(range(256)) * 4099  # just over a mebibyte, and no multiple of a frame
    with BlockingConnection(parameters) as connection:
        channel = connection.channel()
        queue = exclusive_queue(channel)
        channel.confirm_delivery()
        channel.basic_publish("", queue, body)
        channel.basic_publish("", queue, b"")
        assert bodies(channel, queue, 2) == [body, b""]


def test_every_property_and_field_type_of_pika_comes_back_as_it_went(
    channel: BlockingChannel,
) -> None:
    queue = exclusive_queue(channel)
    moment = datetime(2024, 2, 29, 12, 30, 1, tzinfo=UTC)
    headers = {
        "text": "grün",
        "bytes": b"\x00\xff",
        "truth": True,
        "lie": False,
        "small": -7,
        "large": 2**40,
        "money": Decimal("12.345"),
        "moment": moment,
        "nothing": None,
        "table": {"inner": {"deep": [1, "two", {"three": 3}]}},
        "list": [True, None, b"x", [Decimal("0.5")], moment],
        "empty table": {},
        "empty list": [],
    }
    sent = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="identity",
        headers=headers,
        delivery_mode=2,
        priority=9,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1700000000,
        type="t",
        user_id="guest",
        app_id="a",
        cluster_id="k",
    )
    channel.basic_publish("", queue, b"body", sent)
    _, received, _ = channel.basic_get(queue, auto_ack=True)
    assert received == sent
    assert received.headers == headers
