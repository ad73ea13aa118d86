"""Standard error, for a log that must not block the broker: when the pipe behind it is not read,
lines are dropped and counted.
"""

from __future__ import annotations

import os
import select
from typing import Final

# A pipe that is ready takes this much without waiting (PIPE_BUF).
PIECE_BYTES: Final = 4096


class LogFile:
    """Held by the loggers. It implements the part of a file that they need."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._dropped = 0

    def write(self, text: str) -> int:
        if self._dropped:
            self._tell_dropped()
        if self._dropped or not self._put(text.encode("ascii", "backslashreplace")):
            self._dropped += 1
        return len(text)

    def flush(self) -> None:
        """There is no buffer to flush."""

    def _tell_dropped(self) -> None:
        note = f"({self._dropped} log lines were dropped, because the output was not read)\n"
        if self._put(note.encode()):
            self._dropped = 0

    def _put(self, octets: bytes) -> bool:
        for start in range(0, len(octets), PIECE_BYTES):
            if not self._is_ready():
                return False
            try:
                os.write(self._descriptor, octets[start : start + PIECE_BYTES])
            except OSError:
                # Closed at the other end, or a full disk: there is nowhere to report it.
                return False
        return True

    def _is_ready(self) -> bool:
        return any(found & select.POLLOUT for _, found in self._poll.poll(0))
