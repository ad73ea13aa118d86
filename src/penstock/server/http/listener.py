"""The HTTP server's sockets and its threads.

The sockets are bound before the broker says that it is ready. One thread is the front door, which
accepts connections and answers questions about health. Another one serves everything else; it
begins with the first request, so that a broker without HTTP requests neither starts later nor needs
the memory of the HTTP libraries. The first request waits a moment for that.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING, Final

import structlog

from penstock.server.http.front_door import FrontDoor
from penstock.server.http.handover import Handover
from penstock.server.http.health import HealthPages
from penstock.server.http.line import BrokerLine
from penstock.server.http.settings import BACKLOG, STOP_SECONDS, HttpConfiguration
from penstock.server.listening import CannotListen, address_of, bound
from penstock.server.tls import Certificates, check_tls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from penstock.server.logins import ThreadedLoginChecker
    from penstock.server.server import Server

log = structlog.get_logger()

# Added to the time that requests have to end; then the thread is abandoned.
_JOIN_SECONDS: Final = STOP_SECONDS + 3.0


class HttpListener:
    """Held by the running broker. Bound when it is made, serving after `start`."""

    def __init__(
        self, configuration: HttpConfiguration, amqp_hosts: Sequence[str], amqp_port: int
    ) -> None:
        """Raises `CannotListen` or `BadCertificate`."""
        self._configuration = configuration
        # None without TLS.
        self.certificates = _certificates(configuration)
        hosts = configuration.hosts or amqp_hosts
        try:
            self._sockets = bound(hosts, configuration.port_beside(amqp_port), BACKLOG)
        except CannotListen as error:
            raise CannotListen(
                f"{error.address} for HTTP",
                f"{error.reason}. Choose another port with --http-port N, a free one with "
                "--http-port 0, or disable HTTP with --no-http.",
            ) from error
        # At least one.
        self.addresses = [address_of(listening) for listening in self._sockets]
        self.address = self.addresses[0]
        # A byte written to one end wakes the thread for the last time.
        self._waker, self._wakened = socket.socketpair()
        self._wakened.setblocking(False)
        # The names by which the broker may be addressed, beside the default ones.
        self._names = (*hosts, *configuration.allowed_hosts)
        self._threads: list[threading.Thread] = []

    def start(self, server: Server, logins: ThreadedLoginChecker, data: Path | None) -> None:
        """Called on the broker's loop."""
        line = BrokerLine(server, asyncio.get_running_loop())
        health = HealthPages(server)
        handover = Handover(lambda: self._begin(self._serve, line, logins, data, health, handover))
        self._begin(self._open, health, handover)

    async def stop(self) -> None:
        """Called on the broker's loop, which goes on answering while the threads end."""
        self._waker.send(b"\0")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _JOIN_SECONDS
        while any(thread.is_alive() for thread in self._threads) and loop.time() < deadline:
            await asyncio.sleep(0.005)
        self.close()

    def close(self) -> None:
        for listening in self._sockets:
            listening.close()
        self._waker.close()
        self._wakened.close()

    def _begin(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, name="penstock-http", daemon=True)
        self._threads.append(thread)
        thread.start()

    # On the threads.

    def _open(self, health: HealthPages, handover: Handover) -> None:
        is_encrypted = self.certificates is not None
        try:
            FrontDoor(self._sockets, self._wakened, health, handover, is_encrypted).run()
        except Exception:
            log.exception("the HTTP listener failed; HTTP connections are no longer accepted")
        finally:
            handover.end()

    def _serve(
        self,
        line: BrokerLine,
        logins: ThreadedLoginChecker,
        data: Path | None,
        health: HealthPages,
        handover: Handover,
    ) -> None:
        try:
            from penstock.server.http.application import make_application
            from penstock.server.http.hosts import Hosts, host_names
            from penstock.server.http.serving import serve

            hosts = Hosts(host_names(*self._names), self._configuration.origins)
            frame_max = line.server.node.configuration.limits.frame_max
            application = make_application(line, logins, data, hosts, health)
            serve(handover, self.certificates, application, frame_max)
        except Exception:
            log.exception("the HTTP server failed; only health checks are answered from now on")
        finally:
            handover.end()


def _certificates(configuration: HttpConfiguration) -> Certificates | None:
    files = configuration.files()
    check_tls(files, "http.tls_certificate")
    return Certificates(files, "HTTP") if files.is_enabled else None
