"""The HTTP server's sockets and its thread.

The sockets are bound before the broker says that it is ready. The thread waits for the first
connection before it imports the HTTP libraries, so that a broker which nobody asks over HTTP
neither starts later nor grows for it; the first request waits a moment for that.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
from typing import TYPE_CHECKING, Final

import structlog

from penstock.server.http.line import BrokerLine
from penstock.server.http.settings import BACKLOG, STOP_SECONDS, HttpConfiguration

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from penstock.server.logins import ThreadedLoginChecker
    from penstock.server.server import Server

log = structlog.get_logger()

# Behind the time that requests get to end; then the thread is left behind.
_JOIN_SECONDS: Final = STOP_SECONDS + 3.0


class CannotListen(Exception):
    """The HTTP port is not to be had; the text says what to do."""


class BadCertificate(Exception):
    """TLS was asked for and cannot be had."""


class HttpListener:
    """Held by the running broker. Bound when it is made, serving after `start`."""

    def __init__(self, configuration: HttpConfiguration, amqp_host: str, amqp_port: int) -> None:
        """Raises `CannotListen` or `BadCertificate`."""
        self._configuration = configuration
        self._tls = _tls_context(configuration)
        host = configuration.host or amqp_host
        port = configuration.port_beside(amqp_port)
        try:
            self._sockets = _bound(host, port)
        except OSError as error:
            raise CannotListen(
                f"cannot listen on {host}:{port} for HTTP: "
                f"{error.strerror or error}. Another port: --http-port N; any free one: "
                "--http-port 0; no HTTP: --no-http."
            ) from error
        name = self._sockets[0].getsockname()
        self.address: tuple[str, int] = (str(name[0]), int(name[1]))
        # An octet written to one end wakes the thread for the last time.
        self._waker, self._wakened = socket.socketpair()
        self._wakened.setblocking(False)
        self._thread: threading.Thread | None = None

    def start(self, server: Server, logins: ThreadedLoginChecker, data: Path | None) -> None:
        """Called on the broker's loop."""
        line = BrokerLine(server, asyncio.get_running_loop())
        self._thread = threading.Thread(
            target=self._run, args=(line, logins, data), name="penstock-http", daemon=True
        )
        self._thread.start()

    async def stop(self) -> None:
        """Called on the broker's loop, which goes on answering while the thread ends."""
        self._waker.send(b"\0")
        thread = self._thread
        if thread is not None:
            loop = asyncio.get_running_loop()
            deadline = loop.time() + _JOIN_SECONDS
            while thread.is_alive() and loop.time() < deadline:
                await asyncio.sleep(0.005)
        self.close()

    def close(self) -> None:
        for listening in self._sockets:
            listening.close()
        self._waker.close()
        self._wakened.close()

    # On the thread.

    def _run(self, line: BrokerLine, logins: ThreadedLoginChecker, data: Path | None) -> None:
        try:
            if self._is_wanted():
                from penstock.server.http.serving import serve

                serve(
                    self._sockets,
                    self._wakened,
                    self._tls,
                    line,
                    logins,
                    data,
                    self._configuration.origins,
                )
        except Exception:
            log.exception("the HTTP server ended")

    def _is_wanted(self) -> bool:
        """Wait for a first connection; False when the broker stops before."""
        with selectors.DefaultSelector() as selector:
            for waited in [*self._sockets, self._wakened]:
                selector.register(waited, selectors.EVENT_READ)
            ready = {key.fileobj for key, _ in selector.select()}
        return self._wakened not in ready


def _bound(host: str, port: int) -> list[socket.socket]:
    """One socket for each address of a host; all on the port that the first one has."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening = socket.socket(family, kind, protocol)
            sockets.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            taken = sockets[0].getsockname()[1] if len(sockets) > 1 else address[1]
            listening.bind((address[0], taken, *address[2:]))
            listening.listen(BACKLOG)
            listening.setblocking(False)
    except OSError:
        for listening in sockets:
            listening.close()
        raise
    return sockets


def _tls_context(configuration: HttpConfiguration) -> ssl.SSLContext | None:
    if configuration.certificate is None:
        if configuration.client_authorities is not None:
            # Else everybody would get in whom somebody meant to keep out.
            raise BadCertificate("http.tls_client_ca asks for TLS, and there is no tls_certificate")
        return None
    import ssl

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(configuration.certificate, configuration.key)
        if configuration.client_authorities is not None:
            context.load_verify_locations(configuration.client_authorities)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        raise BadCertificate(
            f"cannot use the certificate {configuration.certificate} for HTTP: {error}"
        ) from error
    return context
