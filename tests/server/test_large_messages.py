"""Messages that are longer than what may wait for a peer that does not read: whatever was accepted is delivered."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from penstock import Broker
from penstock.server.write_limit import WRITE_BYTES_MAX, WriteLimit
from tests.support.identities import Identities

LARGE = WRITE_BYTES_MAX + 16_000_000
MIB = 1024 * 1024
HOST = "127.0.0.1"


def test_less_than_the_limit_is_always_permitted() -> None:
    limit = WriteLimit()
    assert not limit.is_exceeded(WRITE_BYTES_MAX, WRITE_BYTES_MAX)
    assert limit.is_exceeded(1, WRITE_BYTES_MAX + 2)


def test_one_long_write_is_permitted_beside_the_limit() -> None:
    limit = WriteLimit()
    assert not limit.is_exceeded(100 * MIB, 164 * MIB)
    assert not limit.is_exceeded(1, 164 * MIB), "a heartbeat while it is sent"
    assert limit.is_exceeded(MIB, 165 * MIB)


def test_a_second_long_write_must_wait_for_the_first_one() -> None:
    limit = WriteLimit()
    assert not limit.is_exceeded(100 * MIB, 100 * MIB)
    assert limit.is_exceeded(100 * MIB, 200 * MIB)


def test_a_long_write_is_forgotten_when_it_was_sent() -> None:
    limit = WriteLimit()
    assert not limit.is_exceeded(100 * MIB, 100 * MIB)
    assert not limit.is_exceeded(1, 10 * MIB)
    assert limit.is_exceeded(MIB, 65 * MIB + 1)


def connected(port: int, context: ssl.SSLContext | None = None) -> BlockingConnection:
    options = None if context is None else pika.SSLOptions(context, HOST)
    return BlockingConnection(pika.ConnectionParameters(HOST, port, ssl_options=options))


@pytest.fixture
def brokers(identities: Identities) -> Iterator[Callable[[bool], BlockingConnection]]:
    context = ssl.create_default_context(cafile=str(identities.ours.file))
    with Broker(tls=identities.one_way()) as broker:

        def connect(is_tls: bool) -> BlockingConnection:
            if is_tls:
                assert broker.tls_port is not None
                return connected(broker.tls_port, context)
            return connected(broker.port)

        yield connect


def filled(connection: BlockingConnection, bodies: list[bytes]) -> BlockingChannel:
    channel = connection.channel()
    channel.queue_declare("large")
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", "large", body)
    return channel


@pytest.mark.timeout(120)
@pytest.mark.parametrize("is_tls", [False, True], ids=["plain", "tls"])
def test_a_message_above_the_limit_of_a_socket_reaches_its_consumer(
    brokers: Callable[[bool], BlockingConnection], *, is_tls: bool
) -> None:
    with brokers(is_tls) as connection:
        large = bytes(LARGE)
        channel = filled(connection, [large, large, b"small"])
        _, _, got = channel.basic_get("large", auto_ack=True)
        assert got is not None and len(got) == LARGE
        sizes = []
        for _, _, body in channel.consume("large", auto_ack=True, inactivity_timeout=60):
            assert body is not None, "it comes within a minute"
            sizes.append(len(body))
            if len(sizes) == 2:
                break
        assert sizes == [LARGE, len(b"small")]
