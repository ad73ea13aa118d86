"""Who is let in with a certificate, who must wait no longer, and TLS that begins on the plain port."""

import ssl
import time
from dataclasses import replace

import pytest
from pika import spec

from penstock import Broker
from penstock.wire.amqp091.limits import Limits
from tests.behaviour.raw import RawConnection
from tests.server.opened import remember
from tests.server.raw_client import connect, seconds_until_closed, wait_for
from tests.server.tls_client import HOST, TlsBroker, ended_in_order, opened, secure, tls_broker
from tests.support.identities import Identities

TLS_HEADER = b"AMQP\x02\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
# Shorter than any patience, longer than a handshake on a busy machine.
HANDSHAKE_MS = 1_500

REFUSED = {
    "expired": "certificate has expired",
    "revoked": "certificate revoked",
    "foreign": "unable to get local issuer certificate",
    None: "the client has shown no certificate",
}


def names_of(served: TlsBroker) -> list[str]:
    return served.broker._call(
        lambda node, now: [one.peer.certificate_name for one in node.connections.values()]
    )


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("who", REFUSED)
def test_a_certificate_that_is_not_good_is_refused_and_logged(
    identities: Identities, who: str | None, version: ssl.TLSVersion
) -> None:
    shown = None if who is None else getattr(identities, who)
    context = identities.context(shown)
    context.maximum_version = version
    with tls_broker(identities.mutual()) as served:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            # In TLS 1.3 a client hears of it when it reads for the first time.
            secure(context, served.port).recv(1)
        assert REFUSED[who] in served.reason()
        [failed] = served.failures()
        assert failed.severity.value == "warning"
        assert failed.party.peer_host == HOST
        assert served.broker.connection_count == 0
        opened(identities.context(identities.client), served.port)
        assert names_of(served) == ["meter"]


def test_the_name_of_a_certificate_can_be_its_whole_subject(identities: Identities) -> None:
    with tls_broker(replace(identities.mutual(), login_from="distinguished_name")) as served:
        opened(identities.context(identities.client), served.port)
        assert names_of(served) == ["CN=meter,O=Waterworks"]


def test_a_certificate_may_be_optional(identities: Identities) -> None:
    with tls_broker(replace(identities.mutual(), client_certificate="optional")) as served:
        opened(identities.context(), served.port)
        assert names_of(served) == [""]
        opened(identities.context(identities.client), served.port)
        assert names_of(served) == ["", "meter"]
        with pytest.raises((ssl.SSLError, ConnectionError)):
            secure(identities.context(identities.foreign), served.port).recv(1)
        assert "unable to get local issuer certificate" in served.reason()


def test_a_certificate_that_nobody_asked_for_names_nobody(identities: Identities) -> None:
    with tls_broker(identities.one_way()) as served:
        opened(identities.context(identities.foreign), served.port)
        assert names_of(served) == [""]


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x01\x00\x01"])
def test_a_handshake_that_is_not_completed_is_ended_and_logged(
    identities: Identities, said: bytes
) -> None:
    with tls_broker(identities.one_way(), Limits(handshake_ms=HANDSHAKE_MS)) as served:
        raw = connect(HOST, served.port)
        raw.sendall(said)
        assert seconds_until_closed(raw) > HANDSHAKE_MS / 1000 / 2
        assert served.reason() == f"the handshake was not completed within {HANDSHAKE_MS / 1000} s"


def test_unfinished_handshakes_count_as_connections_and_the_oldest_gives_way(
    identities: Identities,
) -> None:
    with tls_broker(identities.one_way(), connections_max=3) as served:
        silent = [connect(HOST, served.port) for _ in range(3)]
        wait_for(lambda: served.broker._call(lambda node, now: handshakes(served.broker)) == 3)
        opened(identities.context(), served.port)
        assert seconds_until_closed(silent[0]) < 60
        # In the clear as well.
        plain = RawConnection(HOST, served.broker.port).open("guest", "guest", "/")
        remember(plain.socket)
        assert seconds_until_closed(silent[1]) < 60
        wait_for(lambda: len(served.failures()) == 2)
        assert {failed.reason for failed in served.failures()} == {
            "the broker has no room for more handshakes"
        }


def handshakes(broker: Broker) -> int:
    assert broker._running is not None
    tls = broker._running.server.tls
    assert tls is not None
    return len(tls)


def test_at_the_limit_of_connections_a_tls_client_sees_an_end(identities: Identities) -> None:
    with tls_broker(identities.one_way(), connections_max=1) as served:
        first = opened(identities.context(), served.port)
        raw = connect(HOST, served.port)
        assert raw.recv(1) == b""
        first.call(1, spec.Queue.Declare(queue="q"), spec.Queue.DeclareOk)


def test_a_broker_stops_with_handshakes_under_way(identities: Identities) -> None:
    broker = Broker(tls=identities.one_way()).start()
    raw = connect(HOST, broker.tls_port)
    raw.sendall(b"\x16\x03")
    wait_for(lambda: broker._call(lambda node, now: handshakes(broker)) == 1)
    began = time.monotonic()
    broker.stop()
    assert time.monotonic() - began < 30
    seconds_until_closed(raw)


# TLS on the plain port, AMQP 1.0 part 5.2.1.


def test_an_amqp_1_0_client_can_ask_for_tls_on_the_plain_port(identities: Identities) -> None:
    with tls_broker(identities.mutual()) as served:
        raw = RawConnection(HOST, served.broker.port)
        raw.send(TLS_HEADER)
        assert raw.read_bytes(8) == TLS_HEADER
        context = identities.context(identities.client)
        secured = context.wrap_socket(raw.socket, server_hostname=HOST)
        secured.sendall(SASL_HEADER)
        assert secured.recv(8) == SASL_HEADER
        assert b"PLAIN" in secured.recv(4096)
        assert names_of(served) == ["meter"]
        secured.close()
        wait_for(lambda: served.broker.connection_count == 0)


def test_the_handshake_may_come_with_the_header(identities: Identities) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    talking = identities.context().wrap_bio(incoming, outgoing, server_hostname=HOST)
    with tls_broker(identities.one_way()) as served:
        raw = RawConnection(HOST, served.broker.port)
        with pytest.raises(ssl.SSLWantReadError):
            talking.do_handshake()
        raw.send(TLS_HEADER + outgoing.read())
        assert raw.read_bytes(8) == TLS_HEADER
        while True:
            incoming.write(raw.received or raw.socket.recv(65536))
            raw.received = b""
            try:
                talking.do_handshake()
                break
            except ssl.SSLWantReadError:
                continue
        talking.write(SASL_HEADER)
        raw.send(outgoing.read())
        while True:
            try:
                assert talking.read(8) == SASL_HEADER
                break
            except ssl.SSLWantReadError:
                incoming.write(raw.socket.recv(65536))
        raw.socket.close()


def test_tls_is_not_begun_twice(identities: Identities) -> None:
    with tls_broker(identities.one_way()) as served:
        raw = RawConnection(HOST, served.broker.port)
        raw.send(TLS_HEADER)
        assert raw.read_bytes(8) == TLS_HEADER
        secured = identities.context().wrap_socket(
            raw.socket, server_hostname=HOST, suppress_ragged_eofs=False
        )
        secured.sendall(TLS_HEADER)
        assert secured.recv(8) == SASL_HEADER
        assert ended_in_order(secured)
        secured.close()


def test_the_header_at_the_tls_port_is_told_to_log_in(identities: Identities) -> None:
    with tls_broker(identities.one_way()) as served:
        secured = secure(identities.context(), served.port)
        secured.sendall(TLS_HEADER)
        assert secured.recv(8) == SASL_HEADER
        assert ended_in_order(secured)


def test_without_tls_the_header_is_answered_with_sasl_and_an_end() -> None:
    with Broker() as broker, RawConnection(HOST, broker.port) as raw:
        raw.send(TLS_HEADER)
        assert raw.read_bytes(8) == SASL_HEADER
        assert raw.is_hung_up()


def test_what_follows_the_header_and_is_not_tls_ends_the_connection(
    identities: Identities,
) -> None:
    with tls_broker(identities.one_way()) as served, RawConnection(HOST, served.broker.port) as raw:
        raw.send(TLS_HEADER + SASL_HEADER)
        assert raw.read_bytes(8) == TLS_HEADER
        seconds_until_closed(raw.socket)
        assert "AMQP 1.0 with SASL in the clear" in served.reason()
        wait_for(lambda: served.broker.connection_count == 0)


def test_a_handshake_that_does_not_follow_the_header_is_ended_in_time(
    identities: Identities,
) -> None:
    limits = Limits(handshake_ms=HANDSHAKE_MS)
    with (
        tls_broker(identities.one_way(), limits) as served,
        RawConnection(HOST, served.broker.port) as raw,
    ):
        raw.send(TLS_HEADER)
        assert raw.read_bytes(8) == TLS_HEADER
        seconds_until_closed(raw.socket)
        raw.socket.close()
        wait_for(lambda: served.broker.connection_count == 0)
