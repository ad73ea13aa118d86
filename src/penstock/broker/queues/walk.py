"""How far a browser or a selective consumer has looked through a queue."""

from bisect import insort
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.ready_list import ReadyList

# Entries that one browser may skip in one tick, so that others do not wait long: a page.
PASSED_OVER_MAX: Final = 1024
# Requeued entries that are to be looked at once more; above it all after the first one are.
RETURNED_MAX: Final = 1024


class Walk:
    """Goes through a queue in its order, seeing every entry once. Nothing is taken by it."""

    def __init__(self, first_level: int = 0, position: int = 0) -> None:
        """Begins anywhere: at a position of one level, with those before it left out."""
        self._first_level: int = first_level
        # By level of the list: what lies before these positions was seen.
        self._positions: list[int] = [0] * first_level + [position]
        # Of the entry that was seen last.
        self.level: ReadyList | None = None
        self.level_number: int = first_level
        # Of a queue whose messages stay: what was read along with the last one.
        self.ahead: list[QueueEntry] = []

    def next(self, ready: ReadyList) -> QueueEntry | None:
        """The next entry there is, or None at the end for now."""
        for number in range(self._first_level, ready.level_count()):
            level = ready.level(number)
            if level is None or level.count == 0:
                continue
            while number >= len(self._positions):
                self._positions.append(0)
            entry = level.next_from(self._positions[number])
            if entry is not None:
                self._positions[number] = entry.position + 1
                self.level = level
                self.level_number = number
                return entry
        return None

    def position(self) -> int:
        """What lies before it was seen, in the level of the entry that was seen last."""
        return self._positions[self.level_number]

    def seen(self, entry: QueueEntry) -> None:
        """For whoever finds the next one in another way."""
        self._positions[0] = entry.position + 1


class Offered(Walk):
    """What was offered to one consumer of a queue that has selective consumers."""

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
