"""AMQP over WebSocket: subprotocol `amqp`, binary messages, both dialects."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect

from penstock.server.http.bridge import WebSocketBridge
from penstock.server.http.line import BrokerNotResponding
from penstock.server.http.login import peer_of, port_of
from penstock.server.http.problems import Problem
from penstock.server.http.protocol import protocol_of
from penstock.server.tls_names import encryption_of

if TYPE_CHECKING:
    from penstock.server.http.line import BrokerLine

log = structlog.get_logger()

SUBPROTOCOL: Final = "amqp"

# RFC 6455's close codes.
NORMAL: Final = 1000
UNSUPPORTED_DATA: Final = 1003
TRY_AGAIN_LATER: Final = 1013


_WRONG_SUBPROTOCOL: Final = Problem(
    400,
    f"this WebSocket supports only the subprotocol '{SUBPROTOCOL}'",
    f"Send the header Sec-WebSocket-Protocol: {SUBPROTOCOL}.",
)


class WebSocketDoor:
    """Held by the application. The login is AMQP's own, inside the connection."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line

    async def serve(self, socket: WebSocket) -> None:
        if SUBPROTOCOL not in socket.scope["subprotocols"]:
            await socket.send_denial_response(_WRONG_SUBPROTOCOL.response())
            return
        below = protocol_of(socket.scope).transport
        bridge = WebSocketBridge(self._line, below)
        agreed = below.get_extra_info("ssl_object")
        encryption = None if agreed is None else encryption_of(agreed, self._line.server.login_from)
        host, is_local = peer_of(socket)
        port = port_of(socket)
        server = socket.scope.get("server")
        own = (str(server[0]), int(server[1] or 0)) if server else None
        try:
            is_taken = await self._line.ask(
                lambda node, now: bridge.connect(node, host, is_local, now, port, encryption, own)
            )
            await socket.accept(SUBPROTOCOL)
            if is_taken:
                await _carry(socket, bridge)
            else:
                await socket.close(TRY_AGAIN_LATER, "the connection limit of the broker is reached")
        except BrokerNotResponding as silence:
            await socket.send_denial_response(Problem(503, str(silence)).response())
        except Exception as error:
            # Nothing can be sent to a peer that is disconnecting.
            if not _is_an_end(error) and not protocol_of(socket.scope).transport.is_closing():
                log.exception("WebSocket failed")
        finally:
            bridge.lost()


async def _carry(socket: WebSocket, bridge: WebSocketBridge) -> None:
    """Pass bytes on until either side ends."""
    tasks = [
        asyncio.create_task(_carry_in(socket, bridge)),
        asyncio.create_task(_carry_out(socket, bridge)),
        asyncio.create_task(bridge.is_aborted.wait()),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        if bridge.is_aborted.is_set():
            # Closing it would wait for a peer that may not read.
            protocol_of(socket.scope).transport.abort()
    for outcome in outcomes:
        if isinstance(outcome, Exception) and not _is_an_end(outcome):
            raise outcome


def _is_an_end(error: Exception) -> bool:
    """Whether an exception only means that one side is gone."""
    return isinstance(error, WebSocketDisconnect | BrokerNotResponding | OSError)


async def _carry_in(socket: WebSocket, bridge: WebSocketBridge) -> None:
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
        data = message.get("bytes")
        if data is None:
            await socket.close(UNSUPPORTED_DATA, "AMQP needs binary messages")
            return
        await bridge.offer(data)


async def _carry_out(socket: WebSocket, bridge: WebSocketBridge) -> None:
    while True:
        data = await bridge.taken()
        if not data:
            break
        await socket.send_bytes(data)
        bridge.sent(len(data))
    with contextlib.suppress(RuntimeError):
        # Raised when the peer has closed it already.
        await socket.close(NORMAL)
