"""What a client still sends when its request has been answered already, and is read for nobody.

Closing a socket with unread input makes the kernel answer with a reset, and a client that writes the
whole body before it reads loses the answer with it. So this side is only closed for writing, and what
comes is dropped until the client closes too: a bounded number of bytes, for a bounded time.

Invariants: such a connection has no request under way and costs a socket, no memory; it is among those
that are closed when sockets run out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

# More than a message of AMQP may have, so whoever takes a page for something else is told so. A client
# that sends more is cut off, and may find a reset instead of its answer.
DROPPED_BYTES_MAX: Final = 128 * 1024 * 1024
# A client that sends for longer is cut off: it holds a socket.
DROPPED_SECONDS: Final = 30.0


class RestOfBody:
    """Held by the protocol of a connection that ends with this answer."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._bytes_left = DROPPED_BYTES_MAX
        self._timer = loop.call_later(DROPPED_SECONDS, transport.abort)
        # Inside TLS one side cannot be closed alone; the length of the answer says where it ends.
        if transport.can_write_eof():
            try:
                transport.write_eof()
            except OSError:
                # The client is gone, and does not hear the answer.
                transport.abort()

    def drop(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            self._transport.abort()

    def end(self) -> None:
        """The connection is lost."""
        self._timer.cancel()


class AnsweringTransport:
    """What an answer is written to: it closes the connection when the rest of the request was read.
    Held by uvicorn's cycle of one request.
    """

    def __init__(self, transport: asyncio.Transport, end: Callable[[], None]) -> None:
        self._transport = transport
        self._end = end

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._end()
