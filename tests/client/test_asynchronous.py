"""The asyncio skin against a real broker over real sockets."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock import Broker
from penstock.client import asynchronous
from penstock.client.asynchronous import DELIVERIES_HELD_MAX, AsyncConnection
from penstock.client.asynchronous_channel import AsyncChannel
from penstock.client.calls import (
    cancel,
    consume,
    declare_queue,
    delete_queue,
    limit_prefetch,
)
from penstock.client.errors import (
    ChannelClosedError,
    ClientError,
    ConnectFailed,
    ConnectionClosedError,
    ConsumerCancelledError,
    LoginRefused,
    PublishInDoubt,
    PublishRefused,
    PublishReturned,
)

SECONDS_MAX = 30

Story = Callable[[AsyncConnection, AsyncChannel, str], Awaitable[None]]


def play(broker: Broker, story: Story) -> None:
    """A connection, a channel and a queue of its own, all given to the story."""

    async def played() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            async with await asynchronous.connect(broker.url, name="story") as connection:
                channel = await connection.channel()
                queue = (await channel.call(declare_queue(exclusive=True))).queue
                await story(connection, channel, queue)

    asyncio.run(played())


def test_a_message_goes_in_and_comes_out(broker: Broker) -> None:
    async def story(connection: AsyncConnection, channel: AsyncChannel, queue: str) -> None:
        await channel.publish("", queue, b"hello")
        message = await channel.get(queue)
        assert message is not None
        assert message.body == b"hello"
        channel.nack(message)
        message = await channel.get(queue)
        assert message is not None
        assert message.redelivered
        channel.reject(message, requeue=False)
        assert await channel.get(queue) is None

    play(broker, story)


def test_many_publishes_in_flight_are_confirmed_and_consumed_in_order(broker: Broker) -> None:
    async def story(connection: AsyncConnection, channel: AsyncChannel, queue: str) -> None:
        await channel.select_confirms(window=50)
        await channel.call(limit_prefetch(100))
        await channel.call(consume(queue))
        bodies = [b"%d" % index for index in range(1000)]
        waiting = [await channel.publish_soon("", queue, body) for body in bodies]
        await asyncio.gather(*waiting)
        received = []
        async for message in channel.messages():
            received.append(message.body)
            channel.ack(message)
            if len(received) == len(bodies):
                break
        assert received == bodies

    play(broker, story)


def test_refused_and_returned_publishes_raise_each_its_own(broker: Broker) -> None:
    async def story(connection: AsyncConnection, channel: AsyncChannel, queue: str) -> None:
        await channel.select_confirms()
        lost = await channel.publish_soon("", "nowhere", b"lost", mandatory=True)
        kept = await channel.publish_soon("", queue, b"kept", mandatory=True)
        with pytest.raises(PublishReturned):
            await lost
        await kept
        broker.refuse_publishes(1)
        with pytest.raises(PublishRefused):
            await channel.publish("", queue, b"refused")
        await channel.publish("", queue, b"taken")

    play(broker, story)


def test_a_closed_channel_says_why_and_the_connection_goes_on(broker: Broker) -> None:
    async def story(connection: AsyncConnection, channel: AsyncChannel, queue: str) -> None:
        with pytest.raises(ChannelClosedError) as caught:
            await channel.call(declare_queue("nobody made this", passive=True))
        assert caught.value.code == 404
        with pytest.raises(ChannelClosedError):
            await channel.publish("", queue, b"")
        assert channel.closed
        await channel.close()
        async with await connection.channel() as other:
            await other.publish("", queue, b"")
        assert other.closed

    play(broker, story)


def test_a_consumer_ends_by_its_own_cancel_or_the_brokers(broker: Broker) -> None:
    async def story(connection: AsyncConnection, channel: AsyncChannel, queue: str) -> None:
        tag = (await channel.call(consume(queue))).consumer_tag
        await channel.call(cancel(tag))
        await channel.call(consume(queue))
        other = await connection.channel()
        await other.call(delete_queue(queue))
        with pytest.raises(ConsumerCancelledError):
            await channel.receive_batch()

    play(broker, story)


def test_a_lost_connection_leaves_publishes_in_doubt_and_wakes_everybody(broker: Broker) -> None:
    async def story(connection: AsyncConnection, channel: AsyncChannel, queue: str) -> None:
        await channel.select_confirms()
        broker.delay_confirms(60)
        publish = await channel.publish_soon("", queue, b"perhaps")
        consuming = asyncio.ensure_future((await connection.channel()).receive_batch())
        broker.drop_connections()
        with pytest.raises(PublishInDoubt):
            await publish
        with pytest.raises(ConnectionClosedError):
            await consuming
        assert await connection.wait_ended() is not None
        with pytest.raises(ConnectionClosedError):
            await connection.channel()

    play(broker, story)


def test_an_orderly_close_has_no_error(broker: Broker) -> None:
    async def story(connection: AsyncConnection, channel: AsyncChannel, queue: str) -> None:
        await connection.close()
        assert await connection.wait_ended() is None
        with pytest.raises(ChannelClosedError):
            await channel.get(queue)

    play(broker, story)


def test_a_blocked_connection_shows_the_reason(broker: Broker) -> None:
    async def story(connection: AsyncConnection, channel: AsyncChannel, queue: str) -> None:
        broker.block_publishers("low on memory")
        await channel.publish("", queue, b"")
        while connection.blocked is None:
            await asyncio.sleep(0.01)
        assert connection.blocked == "low on memory"
        broker.unblock_publishers()
        while connection.blocked is not None:
            await asyncio.sleep(0.01)

    play(broker, story)


def test_a_flood_nobody_fetches_is_held_back_but_answers_still_come(broker: Broker) -> None:
    async def story(connection: AsyncConnection, channel: AsyncChannel, queue: str) -> None:
        count = 3 * DELIVERIES_HELD_MAX
        publisher = await connection.channel()
        for _ in range(count):
            await publisher.publish("", queue, b"x" * 100)
        await channel.call(consume(queue, no_ack=True))
        # Answered although deliveries stand before the answer and nobody fetches them.
        await publisher.call(declare_queue(queue, passive=True))
        received = 0
        while received < count:
            received += len(await channel.receive_batch())
        assert received == count

    play(broker, story)


def test_what_was_tried_is_named_when_nothing_answers(unused_port: int) -> None:
    with pytest.raises(ConnectFailed) as caught:
        asyncio.run(asynchronous.connect([f"amqp://127.0.0.1:{unused_port}"]))
    assert str(unused_port) in str(caught.value)
    with pytest.raises(ClientError, match="no address"):
        asyncio.run(asynchronous.connect([]))


def test_a_refused_login_is_told_apart(broker: Broker) -> None:
    with pytest.raises(LoginRefused):
        asyncio.run(asynchronous.connect(broker.url_for(password="wrong")))
