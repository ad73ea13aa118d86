"""How many messages may die in one tick because time or a limit says so.

A queue may hold millions that expire at the same moment, or that a new policy does not permit any more,
and each may have to go to another queue. What one tick does is one step of the event loop, one batch of the
journal, and in a cluster one operation. So beyond a number the rest dies in the next ticks; nobody gets
it meanwhile.
"""

from typing import Final

# About forty milliseconds with dead-lettering.
DEATHS_MAX: Final = 8_192
# A larger body counts more, because a dead letter is written again: 32 MiB in all.
OCTETS_PER_DEATH: Final = 4_096


class DeathBudget:
    """Shared by all queues of a broker."""

    def __init__(self, deaths_max: int = DEATHS_MAX) -> None:
        self._deaths_max: int = deaths_max
        self._left: int = deaths_max
        # A tick has one time, or few.
        self._time: int = -1

    def takes(self, octets: int, now: int) -> bool:
        """Whether one more with a body of this size may die at this time; then it is counted."""
        if now != self._time:
            self._time = now
            self._left = self._deaths_max
        if self._left <= 0:
            return False
        self._left -= 1 + octets // OCTETS_PER_DEATH
        return True
