"""When the root of a cluster ends a tick: while an operation is under way, the next one is gathered.

A tick of the root is one operation, which every server of the in-sync set writes, flushes and
acknowledges. What that costs hardly depends on how much is in it. So, as with any group commit, what
arrives while an operation is on its way waits for it and goes together. The wait is bounded by time,
for backups that are slow, and by size.

A publisher that waits for each confirm never waits here: its message is the operation under way. A tick
that continues deliveries does not wait either: a connection gets so much per tick, and if ticks were
as rare as operations, a queue that is long would stay long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle
    from collections.abc import Callable

# About what three disks need for an operation. Where they need longer, several are under way at a time.
GATHERING_MS_MAX: Final = 3
# Less makes more operations, and each has a price: wake-ups, flushes and acknowledgements of all servers.
# More takes longer on its way than it saves.
GATHERED_BYTES_MAX: Final = 1024 * 1024


class Gathering:
    """Held by the server, which asks it before each tick."""

    def __init__(
        self,
        is_committing: Callable[[], bool],
        loop: AbstractEventLoop,
        wake: Callable[[], None],
    ) -> None:
        # Whether an operation of this server is under way.
        self._is_committing = is_committing
        self._loop = loop
        # Schedules a tick. One that is held back must end although nothing else happens.
        self._wake = wake
        self._timer: TimerHandle | None = None
        # What was received in this tick.
        self._bytes = 0
        # Whether the tick waits for an operation that is under way.
        self.is_holding = False
        # Whether more is to be done than a tick may do at once.
        self._is_pressed = False

    def received(self, size: int) -> None:
        self._bytes += size

    def press(self) -> None:
        """What the last tick did not complete can continue now."""
        self._is_pressed = True

    def holds_back(self, began: int, now: int) -> bool:
        """Whether the tick that began then is not to end yet."""
        self.is_holding = (
            not self._is_pressed
            and self._bytes < GATHERED_BYTES_MAX
            and now - began < GATHERING_MS_MAX
            and self._is_committing()
        )
        if not self.is_holding:
            self._bytes = 0
            self._is_pressed = False
        elif self._timer is None:
            self._timer = self._loop.call_later(GATHERING_MS_MAX / 1000, self._ring)
        return self.is_holding

    def _ring(self) -> None:
        self._timer = None
        self._wake()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
