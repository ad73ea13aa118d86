"""Runs the application on uvicorn, in the HTTP server's thread, on a plain asyncio loop.

A plain loop, because asyncio's own loop uses the kernel's sendfile, and because nothing here is on
the message path.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import structlog
import uvicorn

from penstock.server.http.protocol import FileSendingProtocol
from penstock.server.http.settings import (
    FIRST_REQUEST_SECONDS,
    HEADER_BYTES_MAX,
    KEEP_ALIVE_SECONDS,
    SOCKETS_MAX,
    STOP_SECONDS,
)
from penstock.server.http.websocket_protocol import CarefulWebSocketProtocol

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from starlette.types import ASGIApp

    from penstock.server.http.handover import Handover
    from penstock.server.tls import Certificates

log = structlog.get_logger()

# The largest WebSocket message of a client: at least the largest frame that can be negotiated.
MESSAGE_BYTES_MIN: Final = 1024 * 1024
# Keeps the Date header true; uvicorn's own ten times a second is for signals, which are not ours.
DATE_SECONDS: Final = 1.0


class QuietServer(uvicorn.Server):
    """Takes sockets that the front door accepted, and waits for its end instead of polling ten
    times a second.
    """

    def __init__(
        self, config: uvicorn.Config, handover: Handover, certificates: Certificates | None
    ) -> None:
        super().__init__(config)
        self._handover = handover
        self._certificates = certificates
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        # Sockets whose TLS handshake is under way, mostly.
        self._beginnings: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.servers = []
        self.started = True
        self._handover.attend(self._ring)

    def _ring(self) -> None:
        """On any thread."""
        self._loop.call_soon_threadsafe(self._take)

    async def main_loop(self) -> None:
        while not self.should_exit:
            await self.on_tick(0)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), DATE_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Requests under way are answered; nothing is open when the loop ends."""
        # Who has not begun by now would not be told to end.
        beginnings = list(self._beginnings)
        for beginning in beginnings:
            beginning.cancel()
        await asyncio.gather(*beginnings, return_exceptions=True)
        await super().shutdown(sockets)
        # A connection with TLS is closed when its client has answered; some never do.
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        # What was cut off is closed in the loop's next turn.
        await asyncio.sleep(0)

    def _take(self) -> None:
        for accepted, said in self._handover.take():
            if len(self._beginnings) >= SOCKETS_MAX:
                accepted.close()
                continue
            task = self._loop.create_task(self._begin(accepted, said))
            self._beginnings.add(task)
            task.add_done_callback(self._beginnings.discard)
        if self._handover.is_over:
            self.should_exit = True
            self._stopped.set()

    async def _begin(self, accepted: socket.socket, said: bytes) -> None:
        def protocol() -> FileSendingProtocol:
            return FileSendingProtocol(
                self.config, self.server_state, self.lifespan.state, self._loop, said
            )

        # The current one: the files may have been read again.
        tls = None if self._certificates is None else self._certificates.context
        try:
            await self._loop.connect_accepted_socket(
                protocol,
                accepted,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else FIRST_REQUEST_SECONDS,
            )
        except OSError:
            # The peer is gone already, or its TLS handshake failed.
            accepted.close()


def serve(
    handover: Handover, certificates: Certificates | None, application: ASGIApp, frame_max: int
) -> None:
    """Serve until nothing more is handed over."""
    config = uvicorn.Config(
        application,
        http=FileSendingProtocol,
        ws=CarefulWebSocketProtocol,
        ws_max_size=max(MESSAGE_BYTES_MIN, frame_max + 8),
        # AMQP has heartbeats of its own, and a publisher that is blocked by an alarm is not read.
        ws_ping_interval=None,
        # Applications compress bodies themselves.
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        # Errors are in the broker's log already.
        log_level="critical",
        access_log=False,
        # Forwarded addresses of a proxy are not trusted: they would open the default user to
        # everybody.
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        h11_max_incomplete_event_size=HEADER_BYTES_MAX,
    )
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(_serve(config, handover, certificates))


async def _serve(
    config: uvicorn.Config, handover: Handover, certificates: Certificates | None
) -> None:
    asyncio.get_running_loop().set_exception_handler(_stray)
    await QuietServer(config, handover, certificates).serve([])


def _stray(loop: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
    """An uncaught exception. It belongs to no request."""
    del loop
    error = context.get("exception")
    if isinstance(error, OSError):
        # A peer that went away.
        return
    log.error("internal error of the HTTP server", message=context.get("message"), exc_info=error)
