"""What systemd wants to hear from a service of `Type=notify`: ready, reloading, stopping, alive.

Messages go as datagrams to the socket that NOTIFY_SOCKET names, as sd_notify(3) describes; where it is
not set nothing is sent. The watchdog is fed while ticks are completed and flushes are reported, as
`server.health` says. A broker that hangs is killed and started again by systemd.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# systemd says after how long it gives up; it is fed twice in that time, as sd_watchdog_enabled(3)
# recommends.
_FEEDS_PER_LIMIT: Final = 2
_READY: Final = "READY=1"


class Systemd:
    """Held by `serve`; used on the broker's loop."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            # In Linux's abstract namespace.
            self._address = "\0" + self._address[1:]
        self._feed_ms = _feed_ms(environment)
        self._feed_due = 0

    def ready(self) -> None:
        self._tell(f"{_READY}\nMAINPID={os.getpid()}")

    def reloading(self, now_microseconds: int) -> None:
        """Followed by `ready` when it is done. The time is of the monotonic clock."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={now_microseconds}")

    def stopping(self) -> None:
        self._tell("STOPPING=1")

    def watcher(self, stall: Callable[[], str]) -> Callable[[int], None] | None:
        """To be called with every sweep; None where systemd does not watch. `stall` says why
        nothing goes on there, or nothing.
        """
        if not self._address or not self._feed_ms:
            return None

        def feed(now: int) -> None:
            if now >= self._feed_due and not stall():
                self._feed_due = now + self._feed_ms
                self._tell("WATCHDOG=1")

        return feed

    def _tell(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sending:
                sending.sendto(message.encode(), self._address)
        except OSError:
            # Nobody reads it any more; the broker has no use for that.
            return


def _feed_ms(environment: Mapping[str, str]) -> int:
    """0 where the watchdog is off, or meant for another process."""
    limit = environment.get("WATCHDOG_USEC", "")
    process = environment.get("WATCHDOG_PID", "")
    if not limit.isdigit() or (process and process != str(os.getpid())):
        return 0
    return max(int(limit) // 1000 // _FEEDS_PER_LIMIT, 1)
