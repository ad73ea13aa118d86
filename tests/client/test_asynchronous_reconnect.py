"""A connection that comes back: nothing promised is lost, whatever is cut."""

import asyncio

import pytest

from penstock import Broker
from penstock.client.asynchronous import connect
from penstock.client.asynchronous_channel import AsyncChannel
from penstock.client.asynchronous_reconnect import LastingConnection, connect_lasting
from penstock.client.calls import (
    commit,
    consume,
    declare_queue,
    delete_queue,
    limit_prefetch,
    rollback,
    select_transactions,
)
from penstock.client.errors import (
    ChannelClosedError,
    ConnectFailed,
    ConnectionClosedError,
    LoginRefused,
    PublishInDoubt,
    TransactionAborted,
    TransactionUnknown,
)
from penstock.client.events import Delivered

SECONDS_MAX = 60


async def restored(connection: LastingConnection, count: int) -> None:
    while connection.restored_count < count:
        await asyncio.sleep(0.01)


async def collect(channel: AsyncChannel, seen: list[bytes]) -> None:
    async for message in channel.messages():
        seen.append(message.body)
        channel.ack(message)


def test_publishes_and_consumers_survive_dropped_connections(broker: Broker) -> None:
    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), await connect_lasting(broker.url) as connection:
            channel = await connection.channel()
            await channel.call(declare_queue("orders"))
            await channel.select_confirms()
            await channel.call(limit_prefetch(50))
            await channel.call(consume("orders"))
            seen: list[bytes] = []
            collecting = asyncio.ensure_future(collect(channel, seen))
            bodies = [b"%d" % index for index in range(600)]
            waiting = []
            for index, body in enumerate(bodies):
                if index in {200, 400}:
                    # A connection that is still coming back could not be dropped again.
                    await restored(connection, index // 200 - 1)
                    assert broker.drop_connections() == 1
                waiting.append(await channel.publish_soon("", "orders", body))
            await asyncio.gather(*waiting)
            while set(seen) != set(bodies):
                await asyncio.sleep(0.01)
            assert connection.restored_count == 2
            collecting.cancel()

    asyncio.run(story())


def test_an_unconfirmed_publish_is_sent_again(broker: Broker) -> None:
    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), await connect_lasting(broker.url) as connection:
            channel = await connection.channel()
            await channel.call(declare_queue("orders"))
            await channel.select_confirms()
            broker.delay_confirms(600)
            publish = await channel.publish_soon("", "orders", b"twice")
            await channel.call(declare_queue("orders", passive=True))
            broker.delay_confirms(0)
            broker.drop_connections()
            await publish
            assert (await channel.call(declare_queue("orders", passive=True))).message_count == 2

    asyncio.run(story())


def test_an_old_delivery_cannot_be_settled_on_the_new_connection(broker: Broker) -> None:
    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), await connect_lasting(broker.url) as connection:
            channel = await connection.channel()
            await channel.call(declare_queue("orders"))
            await channel.publish("", "orders", b"one")
            old = await channel.get("orders")
            assert old is not None
            broker.drop_connections()
            await restored(connection, 1)
            channel.ack(old)
            again = await channel.get("orders")
            assert again is not None
            assert again.redelivered
            channel.ack(again)

    asyncio.run(story())


def test_a_call_without_an_answer_raises_and_can_be_said_again(broker: Broker) -> None:
    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), await connect_lasting(broker.url) as connection:
            channel = await connection.channel()
            calling = asyncio.ensure_future(channel.call(declare_queue("orders")))
            broker.drop_connections()
            try:
                await calling
            except ConnectionClosedError:
                await channel.call(declare_queue("orders"))
            await restored(connection, 1)
            assert (await channel.call(declare_queue("orders", passive=True))).queue == "orders"

    asyncio.run(story())


@pytest.mark.parametrize("verb", ["publish", "commit", "ack"])
def test_a_transaction_does_not_go_on_after_its_connection_was_lost(
    broker: Broker, verb: str
) -> None:
    """Otherwise its second half would be committed alone."""

    async def say(channel: AsyncChannel, got: Delivered) -> None:
        if verb == "publish":
            await channel.publish("", "orders", b"alone")
        elif verb == "commit":
            await channel.call(commit())
        else:
            channel.ack(got)

    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), await connect_lasting(broker.url) as connection:
            channel = await connection.channel()
            await channel.call(declare_queue("orders"))
            await channel.publish("", "orders", b"first")
            got = await channel.get("orders")
            assert got is not None
            await channel.call(select_transactions())
            await channel.publish("", "orders", b"lost")
            broker.drop_connections()
            await restored(connection, 1)
            with pytest.raises(TransactionAborted):
                await say(channel, got)
            await channel.publish("", "orders", b"again")
            await channel.call(commit())
            assert (await channel.call(declare_queue("orders", passive=True))).message_count == 2

    asyncio.run(story())


def test_a_rollback_after_the_loss_needs_no_error(broker: Broker) -> None:
    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), await connect_lasting(broker.url) as connection:
            channel = await connection.channel()
            await channel.call(select_transactions())
            await channel.publish("", "nowhere", b"lost")
            broker.drop_connections()
            await restored(connection, 1)
            await channel.call(rollback())
            await channel.call(commit())

    asyncio.run(story())


@pytest.mark.parametrize("lasts", [False, True])
def test_a_commit_whose_answer_is_lost_is_unknown(broker: Broker, lasts: bool) -> None:
    async def story() -> None:
        opening = connect_lasting(broker.url) if lasts else connect(broker.url)
        async with asyncio.timeout(SECONDS_MAX), await opening as connection:
            channel = await connection.channel()
            await channel.call(declare_queue("orders"))
            await channel.call(select_transactions())
            await channel.publish("", "orders", b"perhaps")
            committing = asyncio.ensure_future(channel.call(commit()))
            # It is written, and no answer can be read before the connection is gone.
            await asyncio.sleep(0)
            broker.drop_connections()
            with pytest.raises(TransactionUnknown):
                await committing
            if lasts:
                await channel.publish("", "orders", b"again")
                await channel.call(commit())
            else:
                with pytest.raises(ConnectionClosedError):
                    await channel.call(commit())

    asyncio.run(story())


def test_a_channel_that_cannot_be_set_up_again_ends_alone(broker: Broker) -> None:
    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), await connect_lasting(broker.url) as connection:
            doomed, other = await connection.channel(), await connection.channel()
            # Exclusive: gone with the connection that declared it.
            queue = (await doomed.call(declare_queue(exclusive=True))).queue
            await doomed.call(consume(queue))
            broker.drop_connections()
            await restored(connection, 1)
            with pytest.raises(ChannelClosedError):
                await doomed.receive_batch()
            await other.call(declare_queue("still works"))
            await other.call(delete_queue("still works"))

    asyncio.run(story())


def test_a_broker_that_comes_back_elsewhere_is_found(unused_port: int) -> None:
    async def story() -> None:
        first = Broker().start()
        second = Broker(port=unused_port)
        addresses = [first.url, f"amqp://127.0.0.1:{unused_port}"]
        try:
            async with asyncio.timeout(SECONDS_MAX), await connect_lasting(addresses) as connection:
                channel = await connection.channel()
                await channel.select_confirms()
                await asyncio.to_thread(first.stop)
                publish = asyncio.ensure_future(channel.publish("", "nobody", b""))
                await asyncio.to_thread(second.start)
                await publish
        finally:
            first.stop()
            second.stop()

    asyncio.run(story())


def test_a_login_refused_on_the_way_back_ends_it(broker: Broker) -> None:
    async def story() -> None:
        broker.add_user("ann", "one")
        broker.set_permissions("ann", "/")
        async with asyncio.timeout(SECONDS_MAX):
            connection = await connect_lasting(broker.url_for("ann", "one"))
            channel = await connection.channel()
            await channel.select_confirms()
            broker.delay_confirms(600)
            publish = await channel.publish_soon("", "nobody", b"")
            broker.add_user("ann", "two")
            broker.drop_connections()
            with pytest.raises(PublishInDoubt):
                await publish
            with pytest.raises(LoginRefused):
                await connection.channel()
            await connection.close()

    asyncio.run(story())


def test_the_first_connection_must_succeed(unused_port: int) -> None:
    with pytest.raises(ConnectFailed):
        asyncio.run(connect_lasting(f"amqp://127.0.0.1:{unused_port}"))


def test_a_closed_one_stays_closed(broker: Broker) -> None:
    async def story() -> None:
        connection = await connect_lasting(broker.url)
        channel = await connection.channel()
        await connection.close()
        with pytest.raises((ChannelClosedError, ConnectionClosedError)):
            await channel.publish("", "", b"")
        with pytest.raises(ConnectionClosedError):
            await connection.channel()
        assert connection.restored_count == 0

    asyncio.run(story())
