"""Virtual time: it jumps from one event to the next.

Invariants
- events run in order of time, and at the same time in the order they were asked for;
- time never runs backwards, and only `run` moves it.
"""

import heapq
from collections.abc import Callable
from typing import Final

from penstock.world.clock import Clock

# The wall clock when a run begins: 2024-01-01. Any date will do as long as it is always the same.
WALL_START_MS: Final = 1_704_067_200_000
# Where the monotonic clock begins: not at zero, because a real one does not either.
START_US: Final = 1_000_000


class Event:
    """A scheduled event. Held by the code that may cancel it."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class VirtualClock(Clock):
    """Held by all parts of a run. Counts microseconds inside, so that many things can happen in
    one of the milliseconds that nodes see.
    """

    def __init__(self) -> None:
        self.microseconds: int = START_US
        self._heap: list[tuple[int, int, Event]] = []
        self._count: int = 0

    def now(self) -> int:
        return self.microseconds // 1000

    def wall(self) -> int:
        return WALL_START_MS + self.microseconds // 1000

    def after(self, microseconds: int, action: Callable[[], None]) -> Event:
        assert microseconds >= 0, "nothing happens in the past"
        event = Event(action)
        self._count += 1
        heapq.heappush(self._heap, (self.microseconds + microseconds, self._count, event))
        return event

    def run(self, microseconds: int) -> None:
        """Let this much time pass."""
        end = self.microseconds + microseconds
        heap = self._heap
        while heap and heap[0][0] <= end:
            due, _, event = heapq.heappop(heap)
            action = event.action
            if action is not None:
                self.microseconds = due
                action()
        self.microseconds = end
