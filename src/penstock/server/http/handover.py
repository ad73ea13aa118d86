"""Passes sockets from the front door to the HTTP server's loop."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


class Handover:
    """Held by the front door's thread, which gives, and by the HTTP server's loop, which takes."""

    def __init__(self, begin: Callable[[], None]) -> None:
        """`begin` is called once, when the first socket is given."""
        self._begin: Callable[[], None] | None = begin
        self._lock = threading.Lock()
        self._given: list[tuple[socket.socket, bytes]] = []
        self._ring: Callable[[], None] | None = None
        self.is_over = False

    def give(self, accepted: socket.socket, said: bytes) -> None:
        """`said` is what was already read from it. After `end` it is closed."""
        with self._lock:
            is_over = self.is_over
            if not is_over:
                self._given.append((accepted, said))
            begin, self._begin = self._begin, None
        if is_over:
            accepted.close()
        elif begin is not None:
            begin()
        else:
            self._tell()

    def attend(self, ring: Callable[[], None]) -> None:
        """The receiver is ready: `ring` is called, on any thread, when there is a socket to take or
        it is over.
        """
        with self._lock:
            self._ring = ring
        self._tell()

    def take(self) -> list[tuple[socket.socket, bytes]]:
        with self._lock:
            given, self._given = self._given, []
        return given

    def end(self) -> None:
        """Nothing more is given. Sockets that were not taken are closed."""
        with self._lock:
            self.is_over = True
        for accepted, _ in self.take():
            accepted.close()
        self._tell()

    def _tell(self) -> None:
        ring = self._ring
        if ring is not None:
            try:
                ring()
            except RuntimeError:
                # The receiving loop has ended.
                self._ring = None
