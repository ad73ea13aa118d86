"""Runs the application on uvicorn, in the HTTP server's thread, on a plain asyncio loop.

Plain, because asyncio's own loop hands sendfile to the kernel, and because nothing here is on the
message path.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import uvicorn

from penstock.server.http.application import make_application
from penstock.server.http.protocol import FileSendingProtocol
from penstock.server.http.settings import (
    BACKLOG,
    HEADER_BYTES_MAX,
    KEEP_ALIVE_SECONDS,
    STOP_SECONDS,
)

if TYPE_CHECKING:
    import socket
    import ssl
    from pathlib import Path

    from penstock.server.http.line import BrokerLine
    from penstock.server.logins import ThreadedLoginChecker

# A WebSocket message that a client sends: holds a frame of any size that we agree to, at least.
MESSAGE_BYTES_MIN: Final = 1024 * 1024
# Keeps the Date header true; uvicorn's own ten times a second is for signals, which are not ours.
DATE_SECONDS: Final = 1.0


class QuietServer(uvicorn.Server):
    """Waits for its end instead of looking for it ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stopped.set()

    async def main_loop(self) -> None:
        while not self.should_exit:
            await self.on_tick(0)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), DATE_SECONDS)


def serve(
    sockets: list[socket.socket],
    wakened: socket.socket,
    tls: ssl.SSLContext | None,
    line: BrokerLine,
    logins: ThreadedLoginChecker,
    data: Path | None,
    origins: tuple[str, ...],
) -> None:
    """Until an octet comes out of `wakened`."""
    config = uvicorn.Config(
        make_application(line, logins, data, origins),
        http=FileSendingProtocol,
        ws="websockets-sansio",
        ws_max_size=max(MESSAGE_BYTES_MIN, line.server.node.configuration.limits.frame_max + 8),
        # AMQP has heartbeats of its own, and a publisher who waits for an alarm to end is not read.
        ws_ping_interval=None,
        # Bodies are compressed by who knows them.
        ws_per_message_deflate=False,
        ssl_context_factory=None if tls is None else lambda *_: tls,
        lifespan="off",
        log_config=None,
        # What goes wrong is in our own log already.
        log_level="critical",
        access_log=False,
        # Whom a proxy speaks for is not believed: it would open the default user to the world.
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
        h11_max_incomplete_event_size=HEADER_BYTES_MAX,
    )
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(_serve(config, sockets, wakened))


async def _serve(
    config: uvicorn.Config, sockets: list[socket.socket], wakened: socket.socket
) -> None:
    server = QuietServer(config)
    loop = asyncio.get_running_loop()
    loop.add_reader(wakened, server.stop)
    try:
        await server.serve(sockets)
    finally:
        loop.remove_reader(wakened)
