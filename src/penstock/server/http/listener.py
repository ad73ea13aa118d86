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
from penstock.server.listening import CannotListen, address_of, bound

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence
    from pathlib import Path

    from penstock.server.logins import ThreadedLoginChecker
    from penstock.server.server import Server

log = structlog.get_logger()

# Behind the time that requests get to end; then the thread is left behind.
_JOIN_SECONDS: Final = STOP_SECONDS + 3.0


class BadCertificate(Exception):
    """TLS was asked for and cannot be had."""


class HttpListener:
    """Held by the running broker. Bound when it is made, serving after `start`."""

    def __init__(
        self, configuration: HttpConfiguration, amqp_hosts: Sequence[str], amqp_port: int
    ) -> None:
        """Raises `CannotListen` or `BadCertificate`."""
        self._configuration = configuration
        self._tls = _tls_context(configuration)
        hosts = configuration.hosts or amqp_hosts
        try:
            self._sockets = bound(hosts, configuration.port_beside(amqp_port), BACKLOG)
        except CannotListen as error:
            raise CannotListen(
                f"{error.address} for HTTP",
                f"{error.reason}. Another port: --http-port N; any free one: --http-port 0; "
                "no HTTP: --no-http.",
            ) from error
        # At least one.
        self.addresses = [address_of(listening) for listening in self._sockets]
        self.address = self.addresses[0]
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
