"""python-qpid-proton settles deliveries that the server has taken back meanwhile.

With a data directory: a settlement that counts twice would stop the journal, and with it the server
for everybody.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from penstock import Broker

pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from proton import Delivery, Message
from proton.reactor import Container
from proton.utils import BlockingConnection, BlockingReceiver, LinkDetached

PATIENCE_SECONDS = 20.0
PERSISTENT = pika.BasicProperties(delivery_mode=2)

pytestmark = [
    pytest.mark.timeout(120),
    # Proton's Python binding leaves its own sockets to the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path / "data") as running:
        yield running


@pytest.fixture
def channel(durable: Broker) -> Iterator[BlockingChannel]:
    opened = connect(durable)
    yield opened.channel()
    if opened.is_open:
        opened.close()


def connect(broker: Broker) -> pika.BlockingConnection:
    """Bounded, so that a server that has stopped fails the test and does not hang it."""
    parameters = pika.URLParameters(broker.url)
    parameters.blocked_connection_timeout = PATIENCE_SECONDS
    parameters.socket_timeout = PATIENCE_SECONDS
    parameters.stack_timeout = PATIENCE_SECONDS
    return pika.BlockingConnection(parameters)


def receiver(broker: Broker, credit: int = 10) -> BlockingReceiver:
    address = f"amqp://guest:guest@{broker.host}:{broker.port}"
    container = Container()
    container.container_id = "client"
    connection = BlockingConnection(
        address, timeout=PATIENCE_SECONDS, container=container, allowed_mechs="PLAIN"
    )
    return connection.create_receiver("/queues/q", credit=credit, name="link")


def take(held: BlockingReceiver, count: int) -> list[Delivery]:
    """Receive so many and settle none."""
    for _ in range(count):
        held.receive(timeout=PATIENCE_SECONDS)
    assert held.fetcher is not None
    return list(held.fetcher.unsettled)


def accept(held: BlockingReceiver, deliveries: list[Delivery]) -> None:
    """Say it, whatever the server has said meanwhile, and hear the detach."""
    for delivery in deliveries:
        delivery.update(Delivery.ACCEPTED)
        delivery.settle()
    with contextlib.suppress(LinkDetached):
        held.connection.wait(lambda: False, timeout=PATIENCE_SECONDS)


def publish(channel: BlockingChannel, *bodies: bytes) -> None:
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", "q", body, PERSISTENT)


def assert_serves(broker: Broker) -> None:
    """New clients of both kinds get their answers."""
    opened = connect(broker)
    channel = opened.channel()
    channel.queue_declare("another", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "another", b"x", PERSISTENT)
    assert channel.basic_get("another", auto_ack=True)[2] == b"x"
    opened.close()
    address = f"amqp://guest:guest@{broker.host}:{broker.port}"
    proton = BlockingConnection(address, timeout=PATIENCE_SECONDS, allowed_mechs="PLAIN")
    proton.create_sender("/queues/another").send(Message(body="y", durable=True))
    proton.close()


def test_a_receiver_accepts_what_it_had_of_a_deleted_queue(
    durable: Broker, channel: BlockingChannel
) -> None:
    channel.queue_declare("q", durable=True)
    publish(channel, b"1")
    held = receiver(durable)
    deliveries = take(held, 1)
    channel.queue_delete("q")
    accept(held, deliveries)
    assert_serves(durable)


def test_a_receiver_accepts_what_its_link_has_elsewhere_by_now(
    durable: Broker, channel: BlockingChannel, tmp_path: Path
) -> None:
    """The same link is attached over a second connection, to which its deliveries go; then the
    first one settles them.
    """
    channel.queue_declare("q", durable=True)
    publish(channel, b"1", b"2", b"3")
    held = receiver(durable)
    deliveries = take(held, 3)
    thief = receiver(durable)
    take(thief, 3)
    accept(held, deliveries)
    assert_serves(durable)
    # The thief has not settled them, so they are still there, also after a restart.
    thief.connection.close()
    assert depth(channel) == 3
    channel.connection.close()
    durable.stop()
    with Broker(data=tmp_path / "data") as restarted:
        opened = connect(restarted)
        assert depth(opened.channel()) == 3
        opened.close()


def depth(channel: BlockingChannel) -> int:
    count: int = channel.queue_declare("q", durable=True, passive=True).method.message_count
    return count
