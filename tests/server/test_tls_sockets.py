"""AMQP over TLS on real sockets: messages, back-pressure, ends, and what is not TLS."""

import contextlib
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace

import pika
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pika import spec

from penstock import Broker
from penstock.server.sockets import WRITE_BYTES_HIGH
from penstock.server.tls_sockets import HANDSHAKE_BYTES_MAX, handshake_reason
from penstock.wire.outgoing import DELIVERY_BYTES_MAX
from tests.behaviour.raw import BODY, HEADER, frame, header_payload, method_payload
from tests.server.raw_client import connect, seconds_until_closed, wait_for
from tests.server.tls_client import HOST, ended_in_order, opened, secure, tls_broker
from tests.support.identities import Identities

SASL_HEADER = b"AMQP\x03\x01\x00\x00"
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
# Far more than kernels hold for one connection.
FLOOD_BYTES_MAX = 1 << 30
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def context_of(identities: Identities, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = identities.context()
    context.minimum_version = context.maximum_version = version
    return context


@pytest.mark.parametrize("version", VERSIONS, ids=["1.2", "1.3"])
@pytest.mark.parametrize("size", [0, 1, 1000, 16_384, 16_385, 5_000_000])
def test_messages_of_every_size_come_back_as_they_were(
    identities: Identities, version: ssl.TLSVersion, size: int
) -> None:
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    with tls_broker(identities.one_way()) as served:
        options = pika.SSLOptions(context_of(identities, version), HOST)
        with pika.BlockingConnection(
            pika.ConnectionParameters(HOST, served.port, ssl_options=options)
        ) as connection:
            channel = connection.channel()
            channel.queue_declare("q")
            channel.confirm_delivery()
            channel.basic_publish("", "q", body)
            assert channel.basic_get("q", auto_ack=True)[2] == body


def test_what_was_agreed_on_is_known_of_the_connection(identities: Identities) -> None:
    with tls_broker(identities.mutual()) as served:
        opened(identities.context(identities.client), served.port)
        [encryption] = served.broker._call(
            lambda node, now: [one.peer.encryption for one in node.connections.values()]
        )
        assert encryption is not None
        assert (encryption.version, encryption.certificate_name) == ("TLSv1.3", "meter")
        assert encryption.subject == "CN=meter,O=Waterworks"
        assert encryption.issuer == "CN=ours"


def publishes(count: int, size: int) -> bytes:
    publish = method_payload(
        60, 40, b"".join(spec.Basic.Publish(exchange="", routing_key="q").encode())
    )
    one = frame(1, 1, publish) + frame(HEADER, 1, header_payload(size))
    return (one + frame(BODY, 1, bytes(size))) * count


def unsent(broker: Broker) -> int:
    def sizes(node: object, now: int) -> int:
        connections = node.connections.values()  # type: ignore[attr-defined]
        return max((one.outgoing.transport.unsent_bytes() for one in connections), default=0)

    return broker._call(sizes)


def test_a_consumer_that_does_not_read_holds_no_more_than_in_the_clear(
    identities: Identities,
) -> None:
    with tls_broker(identities.one_way()) as served:
        publisher = opened(identities.context(), served.port)
        publisher.call(1, spec.Queue.Declare(queue="q"), spec.Queue.DeclareOk)
        publisher.send(publishes(1000, 60_000))
        wait_for(lambda: served.broker.queue_depths()["q"] == 1000)
        consumer = opened(identities.context(), served.port)
        consumer.call(1, spec.Basic.Consume(queue="q", no_ack=True), spec.Basic.ConsumeOk)
        # It stops when the kernel and the socket's buffer are full, far from the end.
        wait_for(lambda: unsent(served.broker) > WRITE_BYTES_HIGH)
        assert unsent(served.broker) < WRITE_BYTES_HIGH + 2 * DELIVERY_BYTES_MAX
        assert served.broker.queue_depths()["q"] > 0
        # The other one is served all the same, and what waited comes when it is read.
        assert publisher.call(1, spec.Queue.Declare(queue="q", passive=True), spec.Queue.DeclareOk)
        wait_for(lambda: consumer.socket.recv(1 << 20) and not served.broker.queue_depths()["q"])


def test_a_publisher_feels_an_alarm(identities: Identities) -> None:
    with tls_broker(identities.one_way()) as served:
        publisher = opened(identities.context(), served.port)
        publisher.call(1, spec.Queue.Declare(queue="q"), spec.Queue.DeclareOk)
        served.broker.block_publishers()
        publisher.socket.setblocking(False)
        message, taken = publishes(1, 60_000), 0
        with contextlib.suppress(ssl.SSLWantWriteError):
            while taken < FLOOD_BYTES_MAX:
                taken += publisher.socket.send(message[taken % len(message) :])
        assert taken < FLOOD_BYTES_MAX, "it was never made to wait"
        depth = served.broker.queue_depths()["q"]
        assert depth < taken // len(message)
        served.broker.unblock_publishers()
        wait_for(lambda: served.broker.queue_depths()["q"] >= taken // len(message))


def test_a_connection_that_is_closed_ends_with_a_goodbye(identities: Identities) -> None:
    with tls_broker(identities.one_way()) as served:
        client = opened(identities.context(), served.port)
        client.send_method(0, spec.Connection.Close(200, "bye", 0, 0))
        # Discarded, and no reset takes the answer away.
        client.send(publishes(100, 60_000))
        client.expect(spec.Connection.CloseOk, 0)
        assert ended_in_order(client.socket)
        client.socket.close()
        wait_for(lambda: served.broker.connection_count == 0)


def test_the_brokers_own_close_is_heard(identities: Identities) -> None:
    with tls_broker(identities.one_way()) as served:
        client = opened(identities.context(), served.port)
        served.broker.close_connections()
        client.expect(spec.Connection.Close, 0)
        client.send_method(0, spec.Connection.CloseOk())
        assert ended_in_order(client.socket)


@pytest.mark.parametrize("takes_leave", [True, False])
def test_a_client_that_goes_is_forgotten(identities: Identities, takes_leave: bool) -> None:
    with tls_broker(identities.one_way()) as served:
        client = opened(identities.context(), served.port)
        if takes_leave:
            assert isinstance(client.socket, ssl.SSLSocket)
            # The broker's goodbye is the answer, so this ends only when it is there.
            client.socket.unwrap().close()
        else:
            client.socket.close()
        wait_for(lambda: served.broker.connection_count == 0)
        assert served.failures() == []


def test_a_handshake_in_single_octets_is_completed(identities: Identities) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    talking = identities.context().wrap_bio(incoming, outgoing, server_hostname=HOST)
    with tls_broker(identities.one_way()) as served:
        raw = connect(HOST, served.port)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                talking.do_handshake()
                break
            except ssl.SSLWantReadError:
                for octet in outgoing.read():
                    raw.sendall(bytes([octet]))
                incoming.write(raw.recv(65536))
        talking.write(PROTOCOL_HEADER)
        # The end of the handshake and the first words, in one piece.
        raw.sendall(outgoing.read())
        # Tickets of the session may come before the answer, in a piece of their own.
        heard = b""
        while not heard:
            incoming.write(raw.recv(65536))
            with contextlib.suppress(ssl.SSLWantReadError):
                heard = talking.read(4096)
        assert b"PLAIN" in heard


CLEAR = [
    (PROTOCOL_HEADER, "AMQP 0-9-1 in the clear"),
    (SASL_HEADER, "AMQP 1.0 with SASL in the clear"),
    (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request in the clear"),
    (b"\x00\x01\x02\x03", "does not speak TLS"),
]


@pytest.mark.parametrize(("said", "told"), CLEAR, ids=[told for _, told in CLEAR])
def test_what_is_not_tls_is_refused_and_logged(
    identities: Identities, said: bytes, told: str
) -> None:
    with tls_broker(identities.one_way()) as served:
        raw = connect(HOST, served.port)
        address = raw.getsockname()
        raw.sendall(said)
        raw.sendall(bytes(100_000))
        seconds_until_closed(raw)
        assert told in served.reason()
        [failed] = served.failures()
        assert failed.severity.value == "warning"
        assert (failed.party.peer_host, failed.party.peer_port) == address
        raw.close()
        opened(identities.context(), served.port)


def test_tls_at_the_plain_port_is_logged(identities: Identities) -> None:
    with tls_broker(identities.one_way()) as served:
        with pytest.raises(ssl.SSLError):
            secure(identities.context(), served.broker.port)
        wait_for(lambda: served.events.events)
        [event] = served.events.events
        assert event.severity.value == "warning"
        assert "a TLS handshake" in event.reason


def test_a_peer_that_only_looks_is_no_warning(identities: Identities) -> None:
    with tls_broker(identities.one_way()) as served:
        connect(HOST, served.port).close()
        wait_for(served.failures)
        [failed] = served.failures()
        assert failed.severity.value == "debug"


def test_an_endless_handshake_is_cut_off(identities: Identities) -> None:
    with tls_broker(identities.one_way()) as served:
        raw = connect(HOST, served.port)
        # A handshake message of 16 MB, in records of 16 kB.
        record = b"\x16\x03\x01\x40\x00" + b"\x01\xff\xff\xff" + bytes(16_380)
        with contextlib.suppress(OSError):
            for _ in range(HANDSHAKE_BYTES_MAX // len(record) + 8):
                raw.sendall(record)
        seconds_until_closed(raw)
        assert served.reason()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=4), plausible=...)
def test_garbage_harms_nobody(garbage_port: int, said: list[bytes], plausible: bool) -> None:
    """Before the handshake; the fixture looks for harm at its end."""
    with socket.create_connection((HOST, garbage_port), 60) as raw, contextlib.suppress(OSError):
        if plausible:
            raw.sendall(b"\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03")
        for piece in said:
            raw.sendall(piece)
        raw.shutdown(socket.SHUT_WR)
        seconds_until_closed(raw)


@pytest.fixture
def garbage_port(identities: Identities) -> Iterator[int]:
    with tls_broker(identities.one_way()) as served:
        beside = opened(identities.context(), served.port)
        yield served.port
        beside.call(1, spec.Queue.Declare(queue="q"), spec.Queue.DeclareOk)
        opened(identities.context(), served.port)
        wait_for(lambda: served.broker.connection_count == 2)


@pytest.mark.parametrize("garbage", [bytes(50), b"\x17\x03\x03\x00\x20" + bytes(32)])
def test_garbage_in_the_middle_ends_one_connection(identities: Identities, garbage: bytes) -> None:
    with tls_broker(identities.one_way()) as served:
        beside = opened(identities.context(), served.port)
        broken = opened(identities.context(), served.port)
        with socket.socket(fileno=broken.socket.detach()) as raw:
            raw.settimeout(60)
            raw.sendall(garbage)
            seconds_until_closed(raw)
        wait_for(lambda: served.broker.connection_count == 1)
        beside.call(1, spec.Queue.Declare(queue="q"), spec.Queue.DeclareOk)


def test_the_minimum_version_is_kept(identities: Identities) -> None:
    with tls_broker(replace(identities.one_way(), minimum_version="1.3")) as served:
        with pytest.raises(ssl.SSLError):
            secure(context_of(identities, ssl.TLSVersion.TLSv1_2), served.port)
        assert "tls.minimum_version" in served.reason()
        opened(context_of(identities, ssl.TLSVersion.TLSv1_3), served.port)


def test_ciphers_can_be_chosen(identities: Identities) -> None:
    chosen = replace(identities.one_way(), ciphers="ECDHE-ECDSA-CHACHA20-POLY1305")
    with tls_broker(chosen) as served:
        client = secure(context_of(identities, ssl.TLSVersion.TLSv1_2), served.port)
        cipher = client.cipher()
        assert cipher is not None
        assert cipher[0] == "ECDHE-ECDSA-CHACHA20-POLY1305"
        other = context_of(identities, ssl.TLSVersion.TLSv1_2)
        other.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
        with pytest.raises(ssl.SSLError):
            secure(other, served.port)
        assert "tls.ciphers" in served.reason()


def test_a_client_that_does_not_trust_the_broker_is_logged(identities: Identities) -> None:
    with tls_broker(identities.one_way()) as served:
        with pytest.raises(ssl.SSLCertVerificationError):
            secure(ssl.create_default_context(), served.port)
        assert "the client does not trust the broker's certificate" in served.reason()


def test_a_reason_that_nobody_has_foreseen_is_still_readable() -> None:
    error = ssl.SSLError(1, "what else")
    error.reason = "LENGTH_TOO_LONG"
    assert handshake_reason(error) == "length too long"
    error.reason = "SSLV3_ALERT_HANDSHAKE_FAILURE"
    assert handshake_reason(error) == "the client has refused the handshake: handshake failure"
