"""Timers in order of due time. They read no clock: the world asks when to wake the broker.

Invariants: a timer is in the heap at most once per due time; moving or cancelling it leaves a
stale heap item behind that is skipped when it surfaces.
"""

import heapq
from typing import Final

from mypy_extensions import mypyc_attr

NEVER: Final = -1


@mypyc_attr(allow_interpreted_subclasses=True)
class Timer:
    """Something due once. Subclasses say what happens in `fire`."""

    def __init__(self) -> None:
        self.due: int = NEVER
        # The number of the connection that a defect met in `fire` is put down to; 0 for none.
        self.connection: int = 0

    def fire(self, now: int) -> None:
        raise NotImplementedError


class Timers:
    """All timers of one broker. Held by the broker, driven by the node's `tick`."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        # Breaks ties in order of scheduling, so that a run is the same every time.
        self._count: int = 0
        # The last one that fired; when `fire_due` raises it is the one that did.
        self.fired: Timer | None = None

    def schedule(self, timer: Timer, due: int) -> None:
        """Arm the timer, or move it when it was armed."""
        assert due >= 0, "a due time is a `now` of the future"
        if timer.due == due:
            return
        timer.due = due
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, timer))

    def cancel(self, timer: Timer) -> None:
        timer.due = NEVER

    def next_due(self) -> int:
        """When the next timer is due, or NEVER."""
        heap = self._heap
        while heap:
            due, _, timer = heap[0]
            if timer.due == due:
                return due
            heapq.heappop(heap)
        return NEVER

    def fire_due(self, now: int) -> None:
        heap = self._heap
        while heap and heap[0][0] <= now:
            due, _, timer = heapq.heappop(heap)
            if timer.due == due:
                timer.due = NEVER
                self.fired = timer
                timer.fire(now)
        self.fired = None


class WallClock:
    """What people's clocks show, for times that outlive the process. Kept true by the node."""

    def __init__(self) -> None:
        # What the wall clock shows when `now` is zero.
        self.offset_ms: int = 0

    def at(self, now: int) -> int:
        """Milliseconds since 1970."""
        return now + self.offset_ms
