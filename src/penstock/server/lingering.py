"""Sockets that were closed on our side and wait for their peers to close as well.

Closing a socket while the peer still sends makes the kernel answer with a reset, which discards
what the peer has not read yet, including the last frames. So a finished socket is only shut down
for writing; it is read and everything is discarded until the peer closes it too.

Invariants: a lingering socket has no connection any more, so it costs a descriptor and what the
kernel buffers. There are at most `LINGERING_MAX` of them, each for a bounded time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.server.sockets import SocketTransport

# How long a peer may take to close, and to read what was written. A peer that still reads pending
# data gets as long again; any other is disconnected.
LINGER_MS: Final = 10_000
# Each holds a descriptor. At the limit the one that has waited longest is disconnected.
LINGERING_MAX: Final = 1_024


class Lingering:
    """Held by the server, which sweeps it."""

    def __init__(self) -> None:
        # Until when each may wait and how much was pending then, in the order of these times.
        self._sockets: dict[SocketTransport, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._sockets)

    def add(self, transport: SocketTransport, now: int) -> None:
        if len(self._sockets) >= LINGERING_MAX:
            self.cut_oldest()
        self._sockets[transport] = (now + LINGER_MS, transport.unsent_bytes())

    def discard(self, transport: SocketTransport) -> None:
        """The peer has closed it, or it is gone."""
        self._sockets.pop(transport, None)

    def cut_oldest(self) -> bool:
        """Disconnect the one that has waited longest; False when there was none."""
        oldest = next(iter(self._sockets), None)
        if oldest is None:
            return False
        del self._sockets[oldest]
        oldest.abort()
        return True

    def sweep(self, now: int) -> None:
        for transport, (until, pending) in list(self._sockets.items()):
            if until > now:
                return
            del self._sockets[transport]
            left = transport.unsent_bytes()
            if left < pending:
                self._sockets[transport] = (now + LINGER_MS, left)
            else:
                transport.abort()

    def abort_all(self) -> None:
        while self.cut_oldest():
            pass
