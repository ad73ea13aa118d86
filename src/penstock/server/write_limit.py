"""How much may wait to be sent on one connection.

A peer that does not read while replies pile up is disconnected, so that it cannot make the broker's memory
grow. But one message may be longer than that limit, and whatever a broker has accepted it must be able to
deliver. So beside the limit the longest write that still waits is permitted: at most one long message waits
at a time, because deliveries stop while a socket is full.
"""

from typing import Final

WRITE_BYTES_MAX: Final = 64 * 1024 * 1024


class WriteLimit:
    """Held by a socket; hears of every write."""

    __slots__ = ("_longest",)

    def __init__(self) -> None:
        # Of the writes since less than the limit waited.
        self._longest = 0

    def is_exceeded(self, written: int, waiting: int) -> bool:
        """After a write of so many octets, of which, with earlier ones, so many were not sent yet."""
        if waiting <= WRITE_BYTES_MAX:
            self._longest = 0
            return False
        self._longest = max(self._longest, written)
        return waiting > WRITE_BYTES_MAX + self._longest
