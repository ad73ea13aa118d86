"""uvicorn's WebSocket protocol with limits on the memory and work that a peer can cause.

The library bounds the size of a message, not the number of its fragments, nor the answers to pings
that a peer does not read, nor how long a read of nothing but empty frames occupies the loop.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import structlog
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from penstock.server.http.protocol import (
    LAST_WORDS_SECONDS,
    REASON_LENGTH_MAX,
    plain_answer,
    shown_peer,
)

if TYPE_CHECKING:
    import asyncio

    from uvicorn._types import ASGIReceiveEvent
    from websockets.frames import Frame

log = structlog.get_logger()

# A message in more fragments is refused (1009): empty ones have no size that counts.
FRAGMENTS_MAX: Final = 4_096
# Bytes that wait for a peer that sends pings and does not read the answers; then it is
# disconnected.
PONG_BYTES_MAX: Final = 1024 * 1024
# How much is parsed at once, and for how long before the others have a turn.
SLICE_BYTES: Final = 8 * 1024
SLICE_SECONDS: Final = 0.005
# Reading stops while something is unparsed, but for a peer that we have closed with; one that then
# sends faster than can be parsed is cut off here.
UNPARSED_BYTES_MAX: Final = 1024 * 1024

_TOO_BIG: Final = 1009


class CarefulWebSocketProtocol(WebSocketsSansIOProtocol):
    """One WebSocket. Held by its transport, made by the HTTP protocol that it began with."""

    # What was read and is not parsed yet.
    _unparsed: bytes = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._is_gone = False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_gone = True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unparsed += data
        if len(self._unparsed) > UNPARSED_BYTES_MAX:
            self.transport.abort()
            return
        self._parse()

    def _parse(self) -> None:
        began = time.monotonic()
        try:
            while self._unparsed and not self._is_gone:
                piece = self._unparsed[:SLICE_BYTES]
                self._unparsed = self._unparsed[SLICE_BYTES:]
                super().data_received(piece)
                error = self.conn.handshake_exc
                if error is not None and not self.handshake_initiated:
                    self._refuse_handshake(error)
                    return
                if self._unparsed and time.monotonic() - began > SLICE_SECONDS:
                    # Reading resumes only when this is parsed.
                    self.read_paused = True
                    self.transport.pause_reading()
                    self.loop.call_soon(self._parse)
                    return
        except Exception:
            # An error in Penstock or in the libraries; only this connection is affected.
            log.exception("WebSocket failed", peer=shown_peer(self.client))
            self.transport.abort()
            return
        self._read_on()

    async def receive(self) -> ASGIReceiveEvent:
        message = await self.queue.get()
        self._read_on()
        return message

    def _read_on(self) -> None:
        is_done = self.queue.empty() and not self._unparsed
        if self.read_paused and is_done and not self.transport.is_closing():
            self.read_paused = False
            self.transport.resume_reading()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= FRAGMENTS_MAX:
            self.conn.fail(_TOO_BIG, f"the message has more than {FRAGMENTS_MAX} fragments")
            self.frames = []
            self.handle_parser_exception()
            return
        super().handle_cont(event)

    def handle_ping(self) -> None:
        super().handle_ping()
        if self.transport.get_write_buffer_size() > PONG_BYTES_MAX:
            self.transport.abort()

    def handle_parser_exception(self) -> None:
        error = self.conn.parser_exc
        if self.conn.close_sent is not None:
            super().handle_parser_exception()
        elif error is not None and not self.handshake_complete:
            # Invalid data directly after a request that is not answered yet.
            self._refuse_handshake(error)
        else:
            self.transport.abort()
        self.loop.call_later(LAST_WORDS_SECONDS, self.transport.abort)

    def _refuse_handshake(self, error: Exception) -> None:
        """The library refuses a request that the HTTP parser has accepted."""
        self.handshake_initiated = True
        reason = f"invalid WebSocket request: {error.__cause__ or error}"
        what_to_do = "Send GET without a body, with at most 128 headers of at most 8190 bytes."
        self.transport.write(plain_answer(400, reason[:REASON_LENGTH_MAX], what_to_do))
        self.transport.close()
        self.loop.call_later(LAST_WORDS_SECONDS, self.transport.abort)
