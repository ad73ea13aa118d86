"""Queues that outgrow memory, and disk that comes back: a real server with its real limits."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client import calls
from penstock.client.blocking import BlockingConnection, connect
from penstock.client.events import Delivered
from penstock.wire.amqp091.content import BasicProperties
from tests.server.durable_broker import DurableBroker, durable_broker
from tests.server.raw_client import wait_for

# Several times what a queue keeps in memory.
COUNT = 50_000
BODY = b"x" * 1000
# If everything stayed there it would be 70 MB.
GROWTH_MAX = 40 << 20
SECONDS = 60
SEGMENT_BYTES = 64 << 20


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DurableBroker]:
    with durable_broker(tmp_path / "data") as broker:
        yield broker.start()


@pytest.fixture
def connection(broker: DurableBroker) -> Iterator[BlockingConnection]:
    with connect(f"amqp://127.0.0.1:{broker.port}", timeout=SECONDS) as connection:
        yield connection


def body_of(number: int) -> bytes:
    return b"%08d" % number + BODY


def declare(
    connection: BlockingConnection, durable: bool, arguments: dict[str, object] | None = None
) -> None:
    with connection.channel() as channel:
        channel.call(calls.declare_queue("q", durable=durable, arguments=arguments or {}))


def fill(connection: BlockingConnection, durable: bool, count: int = COUNT) -> None:
    properties = BasicProperties(delivery_mode=2 if durable else 1)
    with connection.channel() as channel:
        channel.select_confirms(window=5000)
        channel.publish_batch("", (("q", body_of(number)) for number in range(count)), properties)
        channel.wait_for_confirms()


def message_count(connection: BlockingConnection) -> int:
    with connection.channel() as channel:
        return channel.call(calls.declare_queue("q", passive=True)).message_count


def drained(connection: BlockingConnection, count: int) -> Iterator[Delivered]:
    """That many messages of `q`, in order, each acknowledged."""
    with connection.channel() as channel:
        channel.call(calls.limit_prefetch(2000))
        channel.call(calls.consume("q"))
        while count:
            batch = channel.receive_batch(SECONDS)
            assert batch, f"{count} are missing"
            yield from batch
            channel.ack(batch[-1], multiple=True)
            count -= len(batch)


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "transient"])
def test_a_long_queue_takes_no_memory_and_comes_back_in_order(
    broker: DurableBroker, connection: BlockingConnection, durable: bool
) -> None:
    declare(connection, durable)
    fill(connection, durable, 2000)
    assert len(list(drained(connection, 2000))) == 2000
    before = broker.memory_bytes()
    fill(connection, durable)
    assert broker.memory_bytes() - before < GROWTH_MAX
    for number, message in enumerate(drained(connection, COUNT)):
        assert message.body == body_of(number)
        assert not message.redelivered
    assert broker.memory_bytes() - before < GROWTH_MAX
    assert message_count(connection) == 0
    wait_for(lambda: broker.disk_bytes() < 2 * SEGMENT_BYTES)


def test_what_was_delivered_and_given_back_keeps_its_place_and_its_flag(
    connection: BlockingConnection,
) -> None:
    declare(connection, True)
    fill(connection, True)
    taken = 20_000
    with connection.channel() as channel:
        channel.call(calls.limit_prefetch(taken))
        channel.call(calls.consume("q"))
        count = 0
        while count < taken:
            count += len(channel.receive_batch(SECONDS))
        assert count == taken
    for number, message in enumerate(drained(connection, COUNT)):
        assert message.body == body_of(number)
        assert message.redelivered == (number < taken)


def test_a_paged_queue_that_is_purged_or_deleted_gives_its_disk_back(
    broker: DurableBroker, connection: BlockingConnection
) -> None:
    for durable in True, False:
        # In this order; the journal has more than one segment from the second time on.
        for is_deleted in False, True:
            declare(connection, durable)
            fill(connection, durable, 25_000)
            with connection.channel() as channel:
                if is_deleted:
                    count = channel.call(calls.delete_queue("q")).message_count
                else:
                    count = channel.call(calls.purge_queue("q")).message_count
            assert count == 25_000
        wait_for(lambda: broker.disk_bytes() < SEGMENT_BYTES)
        wait_for(lambda: len(broker.segments()) == 1)


def test_a_length_limit_drops_the_head_of_a_paged_queue(connection: BlockingConnection) -> None:
    declare(connection, True, {"x-max-length": 20_000})
    fill(connection, True, 30_000)
    assert message_count(connection) == 20_000
    for number, message in enumerate(drained(connection, 20_000)):
        assert message.body == body_of(10_000 + number)


def test_a_paged_queue_dies_of_its_time_to_live(connection: BlockingConnection) -> None:
    declare(connection, True, {"x-message-ttl": 1000})
    fill(connection, True, 25_000)
    wait_for(lambda: message_count(connection) == 0, SECONDS)


def test_churn_through_a_nearly_empty_queue_leaves_the_directory_small(
    broker: DurableBroker, connection: BlockingConnection
) -> None:
    """Three segments' worth, while one message stays out from the beginning to the end."""
    declare(connection, True)
    properties = BasicProperties(delivery_mode=2)
    body = b"x" * 20_000
    with connection.channel() as channel:
        channel.publish("", "q", b"stuck", properties)
        stuck = channel.get("q")
        assert stuck is not None
        channel.call(calls.consume("q"))
        for _ in range(100):
            channel.publish_batch("", [("q", body)] * 100, properties)
            count = 0
            while count < 100:
                for message in channel.receive_batch(SECONDS):
                    channel.ack(message)
                    count += 1
        assert message_count(connection) == 0
        wait_for(lambda: broker.disk_bytes() < 2 * SEGMENT_BYTES)
    assert message_count(connection) == 1
    assert [message.body for message in drained(connection, 1)] == [b"stuck"]
