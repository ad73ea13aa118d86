"""Clients that come with TLS, from the first octet of their handshake until it is over.

Invariants: a peer has no connection of the node before its handshake is completed, so it costs a
descriptor and what OpenSSL keeps for it. It counts against the limit of connections all the same,
and it has a bounded time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.broker.events import Event, EventKind, Party, Severity
from penstock.server.handshake_turns import HandshakeTurns
from penstock.server.handshakes import Handshakes
from penstock.server.sockets import SocketProtocol, SocketTransport
from penstock.server.tls_names import encryption_of
from penstock.server.tls_sockets import TlsOwner, TlsProtocol

if TYPE_CHECKING:
    from penstock.server.server import Server
    from penstock.server.tls import Certificates
    from penstock.server.tls_settings import ListenerTls


class TlsDoor(TlsOwner, Handshakes):
    """Held by the server. Makes the protocols of a TLS listener, and TLS for plain sockets whose
    AMQP 1.0 clients ask for it.
    """

    def __init__(self, server: Server, certificates: Certificates) -> None:
        self._server = server
        self._certificates = certificates
        self._turns = HandshakeTurns(asyncio.get_running_loop().call_soon)
        # Until when each handshake may take, in the order of these times.
        self._handshakes: dict[TlsProtocol, int] = {}
        # Sockets whose handshakes have failed and that wait for their peers to close them.
        self._failed: dict[TlsProtocol, SocketTransport] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._handshakes)

    def protocol(self) -> TlsProtocol:
        """For a socket that was accepted."""
        return TlsProtocol(self, self._certificates.context)

    def upgrade(
        self, inner: SocketProtocol, raw: asyncio.Transport, first: bytes
    ) -> asyncio.Transport:
        protocol = TlsProtocol(self, self._certificates.context, inner)
        raw.set_protocol(protocol)
        protocol.connection_made(raw)
        if first:
            protocol.data_received(first)
        return protocol.transport

    def sweep(self, now: int) -> None:
        for protocol, until in list(self._handshakes.items()):
            if until > now:
                return
            seconds = self._server.node.configuration.limits.handshake_ms / 1000
            protocol.give_up(f"the handshake was not completed within {seconds:g} s")

    def cut_oldest(self) -> bool:
        oldest = next(iter(self._handshakes), None)
        if oldest is None:
            return False
        oldest.give_up("the broker has no room for more handshakes")
        oldest.raw.abort()
        return True

    def reload(self, files: ListenerTls | None = None) -> str:
        return self._certificates.reload(files)

    def close(self) -> None:
        self._is_closed = True
        for protocol in list(self._handshakes):
            del self._handshakes[protocol]
            protocol.raw.abort()

    # Calls from sockets.

    def handshake_began(self, protocol: TlsProtocol) -> bool:
        server = self._server
        if protocol.is_upgrade:
            # It is a connection already, which has its own time-out and counts as one.
            return not self._is_closed
        is_full = server.is_full() and not self.cut_oldest()
        if self._is_closed or (is_full and not server.node.places.has_peer_places()):
            if not self._is_closed:
                server.refuse_for_limit()
            self._let_linger(protocol)
            return False
        self._handshakes[protocol] = server.now() + server.node.configuration.limits.handshake_ms
        return True

    def handshake_goes_on(self, protocol: TlsProtocol) -> None:
        self._turns.add(protocol)

    def handshake_completed(self, protocol: TlsProtocol) -> None:
        try:
            encryption = encryption_of(protocol.agreed, self._server.login_from)
        except ValueError as error:
            # Python does not know how to read it; OpenSSL has nothing against it.
            protocol.give_up(f"the client's certificate cannot be read: {error}")
            return
        self._handshakes.pop(protocol, None)
        if protocol.inner is None:
            protocol.attend(SocketProtocol(self._server, encryption))
        else:
            protocol.inner.secured(encryption)

    def handshake_failed(self, protocol: TlsProtocol, reason: str) -> None:
        if self._handshakes.pop(protocol, None) is not None:
            self._let_linger(protocol)
        host, port = protocol.peer
        # A port scan, or a probe of a load balancer, says nothing.
        severity = Severity.WARNING if protocol.has_spoken else Severity.DEBUG
        party = Party(peer_host=host, peer_port=port)
        event = Event(EventKind.TLS_HANDSHAKE_FAILED, severity, party, reason, {})
        self._server.node.container.events.record(event)

    def _let_linger(self, protocol: TlsProtocol) -> None:
        """It is read on until the peer closes it as well, or the reason would not reach it."""
        transport = SocketTransport(protocol.raw)
        self._failed[protocol] = transport
        self._server.finished(transport, None)

    def gone(self, protocol: TlsProtocol) -> None:
        self._turns.discard(protocol)
        self._handshakes.pop(protocol, None)
        transport = self._failed.pop(protocol, None)
        if transport is not None:
            self._server.gone(transport)
