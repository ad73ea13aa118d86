"""Long work of the HTTP server's threads, done so that the broker's thread is not held up.

All threads of the process share one interpreter, and a thread that never waits keeps it for five
milliseconds at a time. Making the rows of ten thousand queues takes some hundred milliseconds, so
whoever does it stops after each millisecond for long enough that the broker's thread can go on.
"""

from __future__ import annotations

import json
import time
from typing import Final, TypeVar

Thing = TypeVar("Thing")

# How long it works before it stops, and for how long it stops: a thread that waits for the
# interpreter wakes up within a few tens of microseconds, and later on a machine with much else to do.
WORK_SECONDS: Final = 0.001
REST_SECONDS: Final = 0.000_2
# Sorting is one call that cannot rest, so lists are sorted in parts of this length and merged.
SORTED_AT_ONCE: Final = 1_000
# Freeing ten thousand records is one call as well, if their list is dropped as a whole.
FREED_AT_ONCE: Final = 100


class Pace:
    """Held by one piece of work, in a thread that is not a loop's."""

    def __init__(self) -> None:
        self._rest_at = time.perf_counter() + WORK_SECONDS

    def rest_if_due(self) -> None:
        if time.perf_counter() >= self._rest_at:
            time.sleep(REST_SECONDS)
            self._rest_at = time.perf_counter() + WORK_SECONDS

    def free(self, things: list[Thing]) -> None:
        """Empty a list that nobody else uses, with rests."""
        while things:
            del things[-FREED_AT_ONCE:]
            self.rest_if_due()


def encoded(value: object) -> bytes:
    """JSON. Not for long lists: it is one call, which cannot rest."""
    return _ENCODER.encode(value).encode("ascii")


# As `JsonAnswer`: names may have octets that are not UTF-8, which JSON's escapes carry.
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
