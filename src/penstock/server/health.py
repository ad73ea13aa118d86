"""Whether the broker is healthy: it has completed a tick recently, its last flush was reported in
time, and it had no recent internal error outside of a single connection.

The server's loop writes it. Other threads only read it, without waiting for that loop: a broker
that hangs is recognised because nothing is written here any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.world.clock import Clock

# A tick is due with every sweep, four times a second. A broker that has not completed one for this
# long serves nobody: its clients' own time-outs begin at about ten seconds.
TICK_MS_MAX: Final = 10_000
# A flush mostly takes milliseconds. A disk that other programs use, or a controller that resets, has
# been seen to take several seconds; one that takes this long holds back every confirm.
FLUSH_MS_MAX: Final = 30_000
# The broker is unhealthy for this long after a failure, even when the ticks after it succeed: a
# monitor asks a few times a minute and must not miss it.
FAILURE_SHOWN_MS: Final = 60_000

NOT_FLUSHING: Final = -1
_NOT_FAILED: Final = -1


class Health:
    """Held by the server, which writes it, and read by the pages of HTTP."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._completed_at = clock.now()
        self._failed_at = _NOT_FAILED
        self._failure = ""
        # Returns since when the oldest unfinished flush runs, or NOT_FLUSHING; asked of the disk.
        self.flushing_since: Callable[[], int] | None = None

    def tick_completed(self, now: int) -> None:
        self._completed_at = now

    def failed(self, doing: str, now: int) -> None:
        """An internal error, which may have damaged what all connections share."""
        self._failure = doing
        self._failed_at = now

    def problem(self) -> str:
        """Why the broker is not healthy; empty when it is. From any thread."""
        now = self._clock.now()
        failed_at = self._failed_at
        if failed_at != _NOT_FAILED and now - failed_at < FAILURE_SHOWN_MS:
            return (
                f"the broker had an internal error {_seconds(now - failed_at)} ago, while "
                f"{self._failure}; see its log"
            )
        return self.stall()

    def stall(self) -> str:
        """Why nothing goes on; empty when it does. A failure that the broker has survived is none:
        to restart it would help nobody.
        """
        now = self._clock.now()
        silent = now - self._completed_at
        if silent > TICK_MS_MAX:
            return f"the broker's event loop has not completed a tick for {_seconds(silent)}"
        since = NOT_FLUSHING if self.flushing_since is None else self.flushing_since()
        if since != NOT_FLUSHING and now - since > FLUSH_MS_MAX:
            return f"a flush to disk has been running for {_seconds(now - since)}"
        return ""


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000} s"
