"""How far somebody has looked through a queue without taking everything: browsers and choosers."""

from bisect import insort
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.ready_list import ReadyList

# Entries that one who looks may pass over in one tick, so that nobody else waits long: a page.
PASSED_OVER_MAX: Final = 1024
# Entries that came back and are to be looked at once more; above it all behind the first are.
RETURNED_MAX: Final = 1024


class Walk:
    """Goes through a queue in its order, seeing every entry once. Nothing is taken by it."""

    def __init__(self) -> None:
        # By level of the list: what lies before these positions was seen.
        self._positions: list[int] = [0]
        # Of the entry that was seen last.
        self.level: ReadyList | None = None

    def next(self, ready: ReadyList) -> QueueEntry | None:
        """The next entry there is, or None at the end for now."""
        for number in range(ready.level_count()):
            level = ready.level(number)
            if level is None or level.count == 0:
                continue
            while number >= len(self._positions):
                self._positions.append(0)
            entry = level.next_from(self._positions[number])
            if entry is not None:
                self._positions[number] = entry.position + 1
                self.level = level
                return entry
        return None


class Offered(Walk):
    """What was offered to one consumer of a queue with some that choose."""

    def __init__(self) -> None:
        super().__init__()
        # Positions that came back after they were offered, in order.
        self.returned: list[int] = []
        # How many more it may pass over in this tick.
        self.budget: int = PASSED_OVER_MAX

    def came_back(self, position: int) -> None:
        """An entry was given back: it may be wanted now."""
        if position >= max(self._positions):
            return
        if len(self.returned) < RETURNED_MAX:
            insort(self.returned, position)
            return
        first = min(position, self.returned[0])
        self.returned = []
        for number, offered in enumerate(self._positions):
            self._positions[number] = min(offered, first)

    def next_returned(self, ready: ReadyList) -> QueueEntry | None:
        """The next one that came back and is still there."""
        while self.returned:
            position = self.returned.pop(0)
            for number in range(ready.level_count()):
                level = ready.level(number)
                entry = None if level is None else level.next_from(position)
                if entry is not None and entry.position == position:
                    self.level = level
                    return entry
        return None


def walked(ready: ReadyList, limit: int) -> list[QueueEntry]:
    """The first entries, up to `limit` of them."""
    found: list[QueueEntry] = []
    walk = Walk()
    while len(found) < limit:
        entry = walk.next(ready)
        if entry is None:
            break
        found.append(entry)
    return found
