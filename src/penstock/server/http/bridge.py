"""One AMQP connection over a WebSocket: octets between two threads, with back-pressure both ways.

The broker's loop sees a `Transport`, the HTTP server's loop a WebSocket. Each side appends to a
list under a lock and notifies the other once; the other takes everything in the list. The
boundaries of AMQP frames and WebSocket messages need not match: both directions are streams of
bytes.

Invariants
- octets that came while the broker does not read wait here, and above `IN_BYTES_MAX` the WebSocket
  is not read, so that its peer is slowed down; they count as held memory;
- above `OUT_BYTES_HIGH` the connection gives no more deliveries until `OUT_BYTES_LOW` is reached;
- after `lost` nothing more is given to the connection.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.server.http.line import BrokerLine, BrokerNotResponding
from penstock.server.sockets import has_hung_up
from penstock.world.network import Transport

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.dialects.connection import Connection
    from penstock.dialects.encryption import Encryption
    from penstock.node.node import Node

# As much as one read of a socket brings.
IN_BYTES_MAX: Final = 256 * 1024
# As the marks of a TCP connection.
OUT_BYTES_HIGH: Final = 1024 * 1024
OUT_BYTES_LOW: Final = 256 * 1024
# A peer that reads nothing while replies pile up is disconnected here.
OUT_BYTES_MAX: Final = 64 * 1024 * 1024
# Octets of one WebSocket message that we send: clients' libraries refuse messages above a mebibyte.
MESSAGE_BYTES_OUT: Final = 128 * 1024


class WebSocketBridge(Transport):
    """Held by the node's connection on one side, by the WebSocket's two tasks on the other."""

    def __init__(self, line: BrokerLine, below: asyncio.Transport | None = None) -> None:
        """On the HTTP server's loop. `below` carries the WebSocket."""
        self._line = line
        self._below = below
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()

        # From the peer to the broker.
        self._incoming: list[bytes] = []
        self._incoming_size = 0
        self._is_take_due = False
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_paused = False

        # From the broker to the peer.
        self._outgoing: deque[bytes] = deque()
        self._outgoing_size = 0
        self._is_writable = True
        self._has_output = asyncio.Event()

        self._connection: Connection | None = None
        # Set by the broker: it sends no more bytes.
        self._is_closed = False
        self.is_aborted = asyncio.Event()

    # On the broker's loop.

    def connect(
        self,
        node: Node,
        host: str,
        is_local: bool,
        now: int,
        port: int = 0,
        encryption: Encryption | None = None,
        own: tuple[str, int] | None = None,
    ) -> bool:
        """False when the broker takes no more connections. `own` is the address that the peer has
        connected to.
        """
        mechanisms = self._line.server.websocket_mechanisms
        self._connection = node.connected(self, host, is_local, now, port, encryption, mechanisms)
        if self._connection is not None and own is not None:
            self._connection.peer.local_host, self._connection.peer.local_port = own
        self._line.server.schedule_flush()
        return self._connection is not None

    def write(self, data: bytes) -> None:
        with self._lock:
            if self._is_closed:
                return
            self._outgoing.append(data)
            self._outgoing_size += len(data)
            size = self._outgoing_size
        self._ring(self._has_output.set)
        if size > OUT_BYTES_MAX:
            self.abort()
        elif size > OUT_BYTES_HIGH and self._is_writable and self._connection is not None:
            self._is_writable = False
            self._connection.outgoing.set_writable(False)

    def unsent_bytes(self) -> int:
        return self._outgoing_size

    def unheard_bytes(self) -> int:
        return self._incoming_size

    def has_hung_up(self) -> bool:
        # While its last input waits for room, its end is not awaited.
        return self._below is not None and has_hung_up(self._below)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self._ring(self._has_output.set)

    def abort(self) -> None:
        with self._lock:
            self._is_closed = True
            self._outgoing.clear()
        self._ring(self.is_aborted.set)

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        with self._lock:
            is_due = bool(self._incoming) and not self._is_take_due
            self._is_take_due = self._is_take_due or is_due
        if is_due:
            self._line.tell(self._take)

    def _take(self) -> None:
        """Give the connection what has come."""
        with self._lock:
            self._is_take_due = False
            if self._is_paused or not self._incoming:
                return
            data = b"".join(self._incoming)
            self._incoming.clear()
            self._incoming_size = 0
        self._ring(self._has_room.set)
        if self._connection is not None:
            self._line.server.received(self._connection, data)

    def _drained(self) -> None:
        self._is_writable = True
        if self._connection is not None:
            self._line.server.writable(self._connection, True)

    def _lost(self) -> None:
        connection = self._connection
        self._connection = None
        if connection is not None:
            self._line.server.lost(connection)

    def _ring(self, call: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            # The HTTP server has ended; so has the WebSocket.
            return

    # On the HTTP server's loop.

    async def offer(self, data: bytes) -> None:
        """Input from the peer; waits while the broker does not read."""
        with self._lock:
            self._incoming.append(data)
            self._incoming_size += len(data)
            is_due = not self._is_take_due
            self._is_take_due = True
            if self._incoming_size > IN_BYTES_MAX:
                self._has_room.clear()
        if is_due:
            self._line.tell(self._take)
        await self._has_room.wait()

    async def taken(self) -> bytes:
        """Octets for one message to the peer; empty when there will be no more."""
        while True:
            with self._lock:
                if self._outgoing:
                    return self._next_message()
                if self._is_closed:
                    return b""
                self._has_output.clear()
            await self._has_output.wait()

    def _next_message(self) -> bytes:
        pieces: list[bytes] = []
        room = MESSAGE_BYTES_OUT
        while self._outgoing and room:
            piece = self._outgoing.popleft()
            if len(piece) > room:
                self._outgoing.appendleft(piece[room:])
                piece = piece[:room]
            pieces.append(piece)
            room -= len(piece)
        return b"".join(pieces)

    def sent(self, size: int) -> None:
        """The WebSocket has sent this many bytes."""
        with self._lock:
            before = self._outgoing_size
            self._outgoing_size -= size
            is_drained = self._outgoing_size <= OUT_BYTES_LOW < before
        if is_drained:
            self._line.tell(self._drained)

    def lost(self) -> None:
        """The WebSocket is gone."""
        try:
            self._line.tell(self._lost)
        except BrokerNotResponding:
            return
