"""One TCP connection of the real world: an asyncio protocol on one side, a `Transport` on the other.

Back-pressure goes both ways. Unsent output makes the socket's buffer grow past its mark; the
connection then stops delivering. While a connection is not read (a memory alarm, a login that is
being checked) its input stays in the kernel, and the peer's own writes stop.

A socket is closed in two steps: first it is shut down for writing and read on, everything being
discarded, until the peer closes it as well; see `lingering`.
"""

from __future__ import annotations

import asyncio
import select
import socket
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, cast

from penstock.server.write_limit import WriteLimit
from penstock.world.network import Transport

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.dialects.connection import Connection
    from penstock.dialects.encryption import Encryption

# Above the first mark a connection gets no more deliveries until the second is reached. One mark
# is two ticks' worth of deliveries, so the socket does not run dry while we wait for it.
WRITE_BYTES_HIGH: Final = 1024 * 1024
WRITE_BYTES_LOW: Final = 256 * 1024
# A read of this size means that more is waiting.
READ_BYTES_FULL: Final = 128 * 1024
# The peer has closed its side, or the connection is broken. The first of them is Linux's own.
_HUNG_UP: Final = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


class SocketOwner(ABC):
    """The receiver of socket events: the server."""

    @abstractmethod
    def accepted(
        self, transport: SocketTransport, peer: tuple[str, int], encryption: Encryption | None
    ) -> Connection | None:
        """A peer has connected; returning None refuses it."""

    @abstractmethod
    def can_begin_tls(self) -> bool:
        """Whether a client may ask for TLS on a socket that began in the clear."""

    @abstractmethod
    def begin_tls(
        self, protocol: SocketProtocol, raw: asyncio.Transport, first: bytes
    ) -> asyncio.Transport:
        """The client speaks TLS from now on, from `first` on. Returns what is written to."""

    @abstractmethod
    def received(self, connection: Connection, data: bytes) -> None: ...

    @abstractmethod
    def let_rest(self, transport: SocketTransport) -> None:
        """Call `go_on` when this tick is over."""

    @abstractmethod
    def writable(self, connection: Connection, is_writable: bool) -> None:
        """The socket's buffer is full, or has room again."""

    @abstractmethod
    def finished(self, transport: SocketTransport, connection: Connection | None) -> None:
        """Everything was sent to this peer; the socket lingers, without its connection."""

    @abstractmethod
    def lost(self, connection: Connection) -> None:
        """The socket of this connection is gone, and it has not lingered."""

    @abstractmethod
    def gone(self, transport: SocketTransport) -> None:
        """This socket is gone, whether it has lingered or not."""


class SocketTransport(Transport):
    """Held by the node's connection; the node writes through it."""

    def __init__(
        self,
        transport: asyncio.Transport,
        when_finished: Callable[[], None] | None = None,
        begin_tls: Callable[[asyncio.Transport, bytes], asyncio.Transport] | None = None,
    ) -> None:
        self._transport = transport
        # Called once, when the node has closed it.
        self._when_finished = when_finished
        # None where TLS cannot begin, or has begun.
        self._begin_tls = begin_tls
        self._is_finished = False
        # Reading stops for either reason and goes on when there is none.
        self._is_paused = False
        self._is_resting = False
        self._limit = WriteLimit()

    def write(self, data: bytes) -> None:
        transport = self._transport
        if self._is_finished or transport.is_closing():
            return
        transport.write(data)
        if self._limit.is_exceeded(len(data), transport.get_write_buffer_size()):
            transport.abort()

    def write_pieces(self, pieces: list[bytes]) -> None:
        transport = self._transport
        if self._is_finished or transport.is_closing():
            return
        transport.writelines(pieces)
        written = sum([len(piece) for piece in pieces])
        if self._limit.is_exceeded(written, transport.get_write_buffer_size()):
            transport.abort()

    def local_address(self) -> tuple[str, int]:
        """Where the peer has connected to; empty and 0 for a socket without an address."""
        name = self._transport.get_extra_info("sockname")
        return (str(name[0]), int(name[1])) if isinstance(name, tuple) and name else ("", 0)

    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def has_hung_up(self) -> bool:
        return has_hung_up(self._transport)

    def close(self) -> None:
        """Nothing more is sent; further input is read and discarded."""
        transport = self._transport
        if self._is_finished or transport.is_closing():
            return
        self._is_finished = True
        # Otherwise its end would never be noticed.
        self._is_paused = False
        self._apply()
        # After what is pending.
        transport.write_eof()
        if self._when_finished is not None:
            self._when_finished()

    def abort(self) -> None:
        self._transport.abort()

    def can_start_tls(self) -> bool:
        return self._begin_tls is not None

    def start_tls(self, first: bytes) -> None:
        begin_tls, self._begin_tls = self._begin_tls, None
        assert begin_tls is not None, "asked for before"
        self._transport = begin_tls(self._transport, first)

    def pause_reading(self) -> None:
        self._is_paused = True
        self._apply()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._apply()

    def rest(self) -> None:
        """It was read enough for this tick; the others come first."""
        self._is_resting = True
        self._apply()

    def go_on(self) -> None:
        self._is_resting = False
        self._apply()

    def _apply(self) -> None:
        transport = self._transport
        if transport.is_closing():
            return
        if self._is_paused or self._is_resting:
            transport.pause_reading()
        else:
            transport.resume_reading()


class SocketProtocol(asyncio.Protocol):
    """What the event loop calls. Held by the loop for as long as the socket is open."""

    __slots__ = ("_connection", "_encryption", "_server", "_transport")

    def __init__(self, server: SocketOwner, encryption: Encryption | None = None) -> None:
        """`encryption` is what a TLS handshake that came before has agreed on."""
        self._server = server
        self._encryption = encryption
        self._connection: Connection | None = None
        self._transport: SocketTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        socket_transport = cast("asyncio.Transport", transport)
        socket_transport.set_write_buffer_limits(WRITE_BYTES_HIGH, WRITE_BYTES_LOW)
        raw: socket.socket | None = transport.get_extra_info("socket")
        if raw is not None and raw.family in {socket.AF_INET, socket.AF_INET6}:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = transport.get_extra_info("peername") or ("", 0)
        can_begin_tls = self._encryption is None and self._server.can_begin_tls()
        self._transport = SocketTransport(
            socket_transport, self._finished, self._begin_tls if can_begin_tls else None
        )
        self._connection = self._server.accepted(self._transport, peer, self._encryption)
        if self._connection is None:
            # Not aborted: its first bytes are under way, and the peer should see a close, not a
            # reset.
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        if self._connection is not None:
            self._server.received(self._connection, data)
        if len(data) >= READ_BYTES_FULL and self._transport is not None:
            # The event loop would read on while there is more, up to thirty times, before any other
            # socket has a turn: one busy publisher would starve all consumers.
            self._transport.rest()
            self._server.let_rest(self._transport)

    def pause_writing(self) -> None:
        if self._connection is not None:
            self._server.writable(self._connection, False)

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._server.writable(self._connection, True)

    def eof_received(self) -> bool:
        return False

    def _begin_tls(self, raw: asyncio.Transport, first: bytes) -> asyncio.Transport:
        return self._server.begin_tls(self, raw, first)

    def secured(self, encryption: Encryption) -> None:
        """The TLS that the client has asked for is there."""
        if self._connection is not None:
            self._connection.peer.encryption = encryption

    def _finished(self) -> None:
        connection, self._connection = self._connection, None
        if self._transport is not None:
            self._server.finished(self._transport, connection)

    def connection_lost(self, exc: Exception | None) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._server.lost(connection)
        if self._transport is not None:
            self._server.gone(self._transport)


def has_hung_up(transport: asyncio.Transport) -> bool:
    """Whether the peer will send no more. While we do not read, the event loop does not notice; the
    kernel knows. May be asked from another thread than the transport's own.
    """
    raw: socket.socket | None = transport.get_extra_info("socket")
    if transport.is_closing() or raw is None:
        return True
    descriptor = raw.fileno()
    if descriptor < 0:
        return True
    poll = select.poll()
    poll.register(descriptor, _HUNG_UP)
    return bool(poll.poll(0))
