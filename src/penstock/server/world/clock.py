"""The machine's clocks."""

import time

from penstock.world.clock import Clock

_NANOSECONDS_PER_MILLISECOND = 1_000_000


class MachineClock(Clock):
    """Monotonic time counts from the start of this clock, so that a `now` is a small number."""

    def __init__(self) -> None:
        self._start = time.monotonic_ns()

    def now(self) -> int:
        return (time.monotonic_ns() - self._start) // _NANOSECONDS_PER_MILLISECOND

    def wall(self) -> int:
        return time.time_ns() // _NANOSECONDS_PER_MILLISECOND
