"""aio-pika (over aiormq and pamqp), the asyncio client: confirms, iterators, RPC and reconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeVar

import aio_pika
import pytest
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import (
    AMQPError,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DeliveryError,
    ProbableAuthenticationError,
    PublishError,
    QueueEmpty,
)
from aio_pika.patterns import RPC

# Long enough for a loaded core; every wait ends as soon as what it waits for is there.
PATIENCE_SECONDS = 10.0

pytestmark = pytest.mark.timeout(30)

Result = TypeVar("Result")


def run(story: Coroutine[None, None, Result]) -> Result:
    return asyncio.run(asyncio.wait_for(story, 2 * PATIENCE_SECONDS))


def test_aio_pika_publishes_through_a_topic_exchange_and_iterates_with_acks(
    broker_url: str, unique: Callable[[str], str]
) -> None:
    async def story() -> None:
        async with await aio_pika.connect(f"{broker_url}/") as connection:
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=2)
            exchange = await channel.declare_exchange(
                unique("topic"), ExchangeType.TOPIC, auto_delete=True
            )
            queue = await channel.declare_queue(exclusive=True)
            await queue.bind(exchange, "order.#")
            for number in range(5):
                sent = Message(str(number).encode(), delivery_mode=DeliveryMode.PERSISTENT)
                await exchange.publish(sent, f"order.{number}.new")
            received = []
            async with queue.iterator(timeout=PATIENCE_SECONDS) as messages:
                async for message in messages:
                    async with message.process():
                        received.append((message.routing_key, message.body))
                    if len(received) == 5:
                        break
            assert received == [(f"order.{n}.new", str(n).encode()) for n in range(5)]

    run(story())


def test_aio_pika_raises_for_a_returned_and_for_a_refused_message(broker_url: str) -> None:
    async def story() -> None:
        async with await aio_pika.connect(f"{broker_url}/") as connection:
            channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
            with pytest.raises(PublishError, match="NO_ROUTE"):
                await channel.default_exchange.publish(Message(b"lost"), "no-such-queue")
            full = await channel.declare_queue(
                exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}
            )
            await channel.default_exchange.publish(Message(b"fits"), full.name)
            with pytest.raises(DeliveryError):
                await channel.default_exchange.publish(Message(b"does not"), full.name)

    run(story())


def test_a_hundred_confirms_in_flight_all_come_to_aio_pika(broker_url: str) -> None:
    async def story() -> None:
        async with await aio_pika.connect(f"{broker_url}/") as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            publishes = [
                channel.default_exchange.publish(Message(str(n).encode()), queue.name)
                for n in range(100)
            ]
            assert all(await asyncio.gather(*publishes))
            declared = await channel.declare_queue(queue.name, passive=True)
            assert declared.declaration_result.message_count == 100

    run(story())


def test_aio_pika_gets_nacks_and_dead_letters(broker_url: str) -> None:
    async def story() -> None:
        async with await aio_pika.connect(f"{broker_url}/") as connection:
            channel = await connection.channel()
            graveyard = await channel.declare_queue(exclusive=True)
            queue = await channel.declare_queue(
                exclusive=True,
                arguments={
                    "x-dead-letter-exchange": "",
                    "x-dead-letter-routing-key": graveyard.name,
                },
            )
            with pytest.raises(QueueEmpty):
                await queue.get()
            await channel.default_exchange.publish(Message(b"twice"), queue.name)
            first = await queue.get()
            assert not first.redelivered
            await first.nack(requeue=True)
            second = await queue.get()
            assert second.redelivered
            await second.reject(requeue=False)
            dead = await soon(graveyard.get)
            await dead.ack()
            deaths = dead.headers["x-death"]
            assert isinstance(deaths, list)
            assert isinstance(deaths[0], dict)
            assert (deaths[0]["reason"], deaths[0]["queue"]) == ("rejected", queue.name)
            assert await queue.delete()
            assert await graveyard.purge() is not None

    run(story())


async def soon(
    get: Callable[[], Coroutine[None, None, AbstractIncomingMessage]],
) -> AbstractIncomingMessage:
    """Dead-lettering is not part of any answer, so the first get may come too early."""
    while True:
        try:
            return await get()
        except QueueEmpty:
            await asyncio.sleep(0.01)


def test_aio_pika_transactions_commit_and_roll_back(broker_url: str) -> None:
    async def story() -> None:
        async with await aio_pika.connect(f"{broker_url}/") as connection:
            channel = await connection.channel(publisher_confirms=False)
            queue = await channel.declare_queue(exclusive=True)
            async with channel.transaction():
                await channel.default_exchange.publish(Message(b"meant"), queue.name)
            transaction = channel.transaction()
            await transaction.select()
            await channel.default_exchange.publish(Message(b"regretted"), queue.name)
            await transaction.rollback()
            message = await queue.get(no_ack=True)
            assert message.body == b"meant"
            assert await queue.get(no_ack=True, fail=False) is None

    run(story())


def test_every_field_type_of_aio_pika_comes_back_as_it_went(broker_url: str) -> None:
    moment = datetime(2024, 2, 29, 12, 30, 1, tzinfo=UTC)
    headers: aio_pika.abc.HeadersType = {
        "text": "grün",
        "octets": bytearray(b"\x00\xff"),
        "truth": True,
        "tiny": 1,
        "small": -300,
        "unsigned": 2**32 - 1,
        "large": -(2**40),
        "float": 0.25,  # pamqp writes single precision; a quarter is exact
        "money": Decimal("12.345"),
        "moment": moment,
        "nothing": None,
        "table": {"inner": {"deep": [1, "two", {"three": 3.5}]}},
        "list": [False, None, [Decimal("0.5")], moment],
    }

    async def story() -> None:
        async with await aio_pika.connect(f"{broker_url}/") as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            sent = Message(
                b"body",
                headers=headers,
                content_type="text/plain",
                priority=3,
                correlation_id="c",
                expiration=60,
                message_id="m",
                timestamp=moment,
                type="t",
                user_id="guest",
                app_id="a",
            )
            await channel.default_exchange.publish(sent, queue.name)
            received = await queue.get(no_ack=True)
            assert received.headers == headers
            assert received.expiration == 60
            assert (received.timestamp, received.user_id) == (moment, "guest")
            assert (received.priority, received.correlation_id) == (3, "c")

    run(story())


def test_a_large_message_crosses_aio_pika_unharmed(broker_url: str) -> None:
    body = bytes(range(256)) * 4099

    async def story() -> None:
        async with await aio_pika.connect(f"{broker_url}/") as connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            await channel.default_exchange.publish(Message(body), queue.name)
            assert (await queue.get(no_ack=True)).body == body

    run(story())


def test_a_channel_error_leaves_aio_pika_its_connection(
    broker_url: str, unique: Callable[[str], str]
) -> None:
    async def story() -> None:
        async with await aio_pika.connect(f"{broker_url}/") as connection:
            broken = await connection.channel()
            with pytest.raises(ChannelNotFoundEntity):
                await broken.declare_queue(unique("missing"), passive=True)
            other = await connection.channel()
            queue = await other.declare_queue(unique("classic"), exclusive=True)
            with pytest.raises(ChannelPreconditionFailed):
                await other.declare_queue(queue.name, exclusive=True, auto_delete=True)
            third = await connection.channel()
            assert (await third.declare_queue(exclusive=True)).name

    run(story())


def test_aio_pika_is_told_when_its_queue_is_deleted(
    broker_url: str, unique: Callable[[str], str]
) -> None:
    async def story() -> None:
        cancelled: asyncio.Queue[str | None] = asyncio.Queue()

        async def take(message: AbstractIncomingMessage) -> None:
            await message.ack()

        async with await aio_pika.connect(f"{broker_url}/") as connection:
            channel, deleting = await connection.channel(), await connection.channel()
            queue = await channel.declare_queue(unique("doomed"))
            # aio-pika has no callback of its own for this; the aiormq channel beneath it has.
            underlay = await channel.get_underlay_channel()
            underlay.on_consumer_cancel_callbacks.add(
                lambda frame: cancelled.put_nowait(frame.consumer_tag)
            )
            tag = await queue.consume(take)
            await deleting.queue_delete(queue.name)
            assert await cancelled.get() == tag
            assert (await channel.declare_queue(exclusive=True)).name

    run(story())


def test_aio_pika_is_refused_with_a_wrong_password_or_vhost(broker_url: str) -> None:
    async def story() -> None:
        with pytest.raises(ProbableAuthenticationError):
            await aio_pika.connect(f"{broker_url.replace('guest:guest', 'guest:wrong')}/")
        # aiormq wraps the broker's 530 in a complaint that it was not open-ok.
        with pytest.raises(AMQPError, match=r"Connection\.Close"):
            await aio_pika.connect(f"{broker_url}/no-such-vhost")
        async with await aio_pika.connect(f"{broker_url}/%2F") as connection:
            assert (await connection.channel()).number

    run(story())


def test_short_heartbeats_keep_an_idle_aio_pika_connection_alive(broker_url: str) -> None:
    async def story() -> None:
        async with await aio_pika.connect(f"{broker_url}/?heartbeat=1") as connection:
            channel = await connection.channel()
            await asyncio.sleep(3.2)  # idle for over three intervals: the point of this test
            assert (await channel.declare_queue(exclusive=True)).name

    run(story())


def test_aio_pikas_rpc_pattern_answers_and_raises(
    broker_url: str, unique: Callable[[str], str]
) -> None:
    name = unique("procedure")

    async def multiply(*, x: int, y: int) -> int:
        if not y:
            raise ValueError("y is nothing")
        return x * y

    async def story() -> None:
        async with await aio_pika.connect(f"{broker_url}/") as connection:
            channel = await connection.channel()
            rpc = await RPC.create(channel)
            await rpc.register(name, multiply, auto_delete=True)
            assert await rpc.call(name, {"x": 6, "y": 7}) == 42
            with pytest.raises(ValueError, match="y is nothing"):
                await rpc.call(name, {"x": 6, "y": 0})
            await rpc.close()

    run(story())


def test_connect_robust_restores_everything_after_a_drop(
    broker_url: str, unique: Callable[[str], str], drop_connections: Callable[[], object]
) -> None:
    async def story() -> None:
        received: asyncio.Queue[tuple[bytes, bool | None]] = asyncio.Queue()
        reconnected = asyncio.Event()

        async def take(message: AbstractIncomingMessage) -> None:
            received.put_nowait((message.body, message.redelivered))
            if message.body != b"keep":
                await message.ack()

        url = f"{broker_url}/?reconnect_interval=0.1&fail_fast=1"
        connection = await aio_pika.connect_robust(url)
        async with connection:
            connection.reconnect_callbacks.add(lambda *_: reconnected.set())
            channel = await connection.channel()
            # Auto-delete: the drop takes the exchange, the queue and the binding, so that only a
            # client that declares them all again can go on.
            exchange = await channel.declare_exchange(unique("robust"), auto_delete=True)
            queue = await channel.declare_queue(unique("robust"), auto_delete=True)
            await queue.bind(exchange, "key")
            await queue.consume(take)
            await exchange.publish(Message(b"before"), "key")
            assert await received.get() == (b"before", False)
            await asyncio.to_thread(drop_connections)
            await reconnected.wait()
            await exchange.publish(Message(b"after"), "key")
            assert await received.get() == (b"after", False)

    run(story())
