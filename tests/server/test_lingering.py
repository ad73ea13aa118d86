"""Closing in two steps: what a peer still says is read and discarded, and nobody is reset."""

import socket

import pytest
from pika import spec

from penstock import Broker
from penstock.server.lingering import LINGER_MS, LINGERING_MAX, Lingering
from penstock.server.sockets import SocketTransport
from tests.behaviour.raw import BODY, HEADER, RawConnection, frame, header_payload, method_payload
from tests.server.doubles import PendingTransport
from tests.server.raw_client import wait_for

# More than the kernel buffers on the way, so that much of it is sent after the broker has closed.
FLOOD_BYTES = 24 << 20
BODY_BYTES = 60_000
CLOSE = spec.Connection.Close(200, "bye", 0, 0)
# AMQP 1.0: header, an open that names a container, a close.
HEADER_1_0 = b"AMQP\x00\x01\x00\x00"
SASL_1_0 = b"AMQP\x03\x01\x00\x00"


def publishes() -> bytes:
    publish = spec.Basic.Publish(exchange="", routing_key="q")
    return (
        frame(1, 1, method_payload(60, 40, b"".join(publish.encode())))
        + frame(HEADER, 1, header_payload(BODY_BYTES))
        + frame(BODY, 1, bytes(BODY_BYTES))
    )


def opened(broker: Broker) -> RawConnection:
    client = RawConnection(broker.host, broker.port).open("guest", "guest", "/")
    client.open_channel(1)
    return client


def flood(client: RawConnection) -> None:
    """Fails with a reset or a broken pipe when the broker has closed its side for reading."""
    message = publishes()
    for _ in range(FLOOD_BYTES // len(message)):
        client.send(message)


def ended_in_order(raw: socket.socket) -> bool:
    """An end of the stream, not a reset."""
    while raw.recv(65536):
        pass
    return True


def test_frames_that_follow_a_clients_close_are_discarded_and_another_close_is_answered() -> None:
    with Broker() as broker, opened(broker) as client:
        client.send_method(0, CLOSE)
        flood(client)
        client.send_method(0, CLOSE)
        client.expect(spec.Connection.CloseOk, 0)
        client.expect(spec.Connection.CloseOk, 0)
        # The client's end of the socket is the end of the connection.
        client.socket.shutdown(socket.SHUT_WR)
        assert ended_in_order(client.socket)
        wait_for(lambda: broker.connection_count == 0)


def test_frames_around_the_answer_to_the_brokers_close_are_discarded() -> None:
    with Broker() as broker, opened(broker) as client:
        assert broker.close_connections() == 1
        flood(client)
        client.expect(spec.Connection.Close, 0)
        client.send_method(0, spec.Connection.CloseOk())
        wait_for(lambda: broker.connection_count == 0)
        flood(client)
        assert ended_in_order(client.socket)


def test_a_client_that_speaks_no_amqp_hears_the_brokers_header_and_an_end() -> None:
    with Broker() as broker, RawConnection(broker.host, broker.port) as client:
        client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + bytes(FLOOD_BYTES))
        assert client.read_bytes(8) == b"AMQP\x00\x00\x09\x01"
        assert ended_in_order(client.socket)


def test_frames_that_follow_an_amqp_1_0_close_are_discarded() -> None:
    with Broker() as broker, RawConnection(broker.host, broker.port) as client:
        # SASL ANONYMOUS is answered before the header, so that one write says it all.
        anonymous = b"\x00\x53\x41\xc0\x0c\x01\xa3\x09ANONYMOUS"
        client.send(SASL_1_0 + frame_1_0(1, anonymous))
        client.send(HEADER_1_0 + frame_1_0(0, b"\x00\x53\x10\xc0\x04\x01\xa1\x01c"))
        client.send(frame_1_0(0, b"\x00\x53\x18\x45"))
        # Heartbeats, which a peer may have under way when it reads the broker's close.
        for _ in range(FLOOD_BYTES // 80_000):
            client.send(frame_1_0(0, b"") * 10_000)
        assert ended_in_order(client.socket)
        wait_for(lambda: broker.connection_count == 0)


def frame_1_0(kind: int, payload: bytes) -> bytes:
    return (8 + len(payload)).to_bytes(4, "big") + bytes([2, kind, 0, 0]) + payload


def test_a_blocked_publisher_can_still_be_closed() -> None:
    with Broker() as broker, opened(broker) as client:
        client.call(1, spec.Queue.Declare(queue="q"), spec.Queue.DeclareOk)
        broker.block_publishers()
        client.publish(1, "", "q", b"the one that blocks it")
        client.expect(spec.Connection.Blocked, 0)
        broker.close_connections()
        client.expect(spec.Connection.Close, 0)
        client.send_method(0, spec.Connection.CloseOk())
        assert client.is_hung_up()


class Waiting:
    """Sockets that linger, and their event loop's transports. Held by one test."""

    def __init__(self) -> None:
        self.lingering = Lingering()

    def add(self, now: int, pending: int = 0) -> PendingTransport:
        transport = PendingTransport(pending)
        self.lingering.add(SocketTransport(transport), now)
        return transport


def test_a_socket_whose_peer_does_not_close_is_cut_off_in_time() -> None:
    waiting = Waiting()
    first, second = waiting.add(0), waiting.add(1)
    waiting.lingering.sweep(LINGER_MS - 1)
    assert [first.is_aborted, second.is_aborted] == [False, False]
    waiting.lingering.sweep(LINGER_MS)
    assert [first.is_aborted, second.is_aborted] == [True, False]
    assert len(waiting.lingering) == 1


@pytest.mark.parametrize(("left", "is_cut"), [(50, False), (100, True)])
def test_a_peer_that_still_takes_what_is_pending_gets_more_time(left: int, is_cut: bool) -> None:
    waiting = Waiting()
    slow = waiting.add(0, pending=100)
    slow.pending = left
    waiting.lingering.sweep(LINGER_MS)
    assert slow.is_aborted is is_cut
    waiting.lingering.sweep(2 * LINGER_MS)
    assert slow.is_aborted


def test_at_the_limit_the_socket_that_has_waited_longest_is_cut_off() -> None:
    waiting = Waiting()
    transports = [waiting.add(now) for now in range(LINGERING_MAX + 2)]
    assert [transport.is_aborted for transport in transports[:3]] == [True, True, False]
    assert len(waiting.lingering) == LINGERING_MAX


def test_a_socket_that_is_gone_does_not_linger() -> None:
    waiting = Waiting()
    transport = PendingTransport(0)
    kept = SocketTransport(transport)
    waiting.lingering.add(kept, 0)
    waiting.lingering.discard(kept)
    waiting.lingering.discard(kept)
    waiting.lingering.sweep(LINGER_MS)
    assert not transport.is_aborted
    assert len(waiting.lingering) == 0
