"""How fast a SYNC may go while clients publish: so that they keep most of their rate.

Pieces cost the root, the backup that joins, and the disks of both as much as operations do. While
operations are made, pieces have a rate of their own; once none was made for a moment, a SYNC goes as
fast as the line takes it.
"""

from typing import Final

# An operation stands for clients that will go on: as long as a publisher that waits for its confirm
# needs to publish again.
BUSY_MS: Final = 50
UNLIMITED: Final = 1 << 61


class PiecePace:
    """Held by a `Primary`, for all backups that catch up."""

    def __init__(self, bytes_per_ms: int, burst_bytes: int) -> None:
        self._bytes_per_ms: int = bytes_per_ms
        # What may be sent at once.
        self._burst_bytes: int = burst_bytes
        self._bytes: int = burst_bytes
        self._counted_at: int = 0
        self._busy_until: int = 0

    def operation_made(self, now: int) -> None:
        if now >= self._busy_until:
            self._bytes = self._burst_bytes
            self._counted_at = now
        self._busy_until = now + BUSY_MS

    def allowance(self, now: int) -> int:
        """How many octets of pieces may be sent; a piece may exceed it."""
        if now >= self._busy_until:
            return UNLIMITED
        saved = self._bytes + (now - self._counted_at) * self._bytes_per_ms
        self._bytes = min(saved, self._burst_bytes)
        self._counted_at = now
        return self._bytes

    def sent(self, size: int) -> None:
        self._bytes -= size
