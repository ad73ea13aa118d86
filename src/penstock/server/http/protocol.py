"""uvicorn's HTTP/1.1 protocol with what it lacks: sendfile, a bound on sockets and on waiting.

ASGI has no word for "send this part of a file", and copying segments through Python costs the
broker ten times what the kernel asks for it. A response of ours finds the protocol in its scope and
has the event loop send the octets; h11 is told how many they were.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.server.descriptors import http_below
from penstock.server.http.settings import FIRST_REQUEST_SECONDS, HEADER_BYTES_MAX, SOCKETS_MAX

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from uvicorn.config import Config
    from uvicorn.server import ServerState

# Under which name of the scope's state a response finds the protocol.
PROTOCOL: Final = "penstock.protocol"
# A reader that does not take a piece in this time is cut off: it holds a file open.
PIECE_BYTES: Final = 16 * 1024 * 1024
PIECE_SECONDS: Final = 60.0


class _Octets:
    """Stands for octets that somebody else sends; h11 only asks how many they are."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count


class FileSendingProtocol(H11Protocol):
    """One TCP connection of the HTTP server. Held by its transport."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, PROTOCOL: self}, _loop)
        self._patience: asyncio.TimerHandle | None = None
        # Whether a whole request has come.
        self._has_begun = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        descriptor = transport.get_extra_info("socket").fileno()
        if len(self.connections) > SOCKETS_MAX or descriptor >= http_below():
            transport.abort()
            return
        self._patience = self.loop.call_later(FIRST_REQUEST_SECONDS, self._lose_patience)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._patience is not None:
            self._patience.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        self._has_begun = self._has_begun or bool(self.cycle)

    def _lose_patience(self) -> None:
        # A WebSocket has taken the transport over when it has another protocol.
        if not self._has_begun and self.transport.get_protocol() is self:
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """As uvicorn's, in our form."""
        body = {
            "error": "bad_request",
            "reason": msg,
            "what_to_do": f"Speak HTTP/1.1, with headers of at most {HEADER_BYTES_MAX} octets.",
        }
        octets = json.dumps(body).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(octets)).encode()),
            (b"connection", b"close"),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=octets),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    async def send_file(self, file: BinaryIO, start: int, count: int) -> bool:
        """Send a part of a file after the response's headers; False when the peer is gone."""
        end = start + count
        while start < end:
            size = min(PIECE_BYTES, end - start)
            self.conn.send_with_data_passthrough(h11.Data(data=cast(bytes, _Octets(size))))
            try:
                sent = await asyncio.wait_for(
                    self.loop.sendfile(self.transport, file, start, size), PIECE_SECONDS
                )
            except (OSError, RuntimeError, TimeoutError):
                # RuntimeError is what the loop says of a transport that is closing.
                sent = 0
            if sent != size:
                await self.give_up()
                return False
            start += size
        return True

    async def give_up(self) -> None:
        """The response cannot be completed: the peer must see that, not a short body."""
        self.transport.abort()
        # So that uvicorn has heard of it before the response returns.
        await asyncio.sleep(0)


def protocol_of(scope: MutableMapping[str, Any]) -> FileSendingProtocol:
    found = scope["state"][PROTOCOL]
    assert isinstance(found, FileSendingProtocol)
    return found
