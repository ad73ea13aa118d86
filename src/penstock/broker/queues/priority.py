"""A ready list with priorities: higher first, and in order of position within one priority."""

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.ready_list import ReadyList


class PriorityReadyList(ReadyList):
    """One plain list per priority level. Held by a queue declared with `x-max-priority`."""

    def __init__(self, max_priority: int) -> None:
        super().__init__()
        self._levels: list[ReadyList] = [ReadyList() for _ in range(max_priority + 1)]

    def _level_of(self, entry: QueueEntry) -> ReadyList:
        priority = entry.message.properties.priority
        return self._levels[min(max(priority, 0), len(self._levels) - 1)]

    def _highest(self) -> ReadyList:
        for level in reversed(self._levels):
            if level.count:
                return level
        return self._levels[0]

    def append(self, entry: QueueEntry) -> None:
        self._level_of(entry).append(entry)
        self.count += 1

    def first(self) -> QueueEntry | None:
        return self._highest().first()

    def pop_first(self) -> QueueEntry:
        entry = self._highest().pop_first()
        self.count -= 1
        return entry

    def pop_many(self, count: int) -> list[QueueEntry]:
        return [self.pop_first() for _ in range(count)]

    def insert(self, entry: QueueEntry) -> None:
        self._level_of(entry).insert(entry)
        self.count += 1

    def index_from(self, position: int) -> int:
        """Slots are counted over all levels, highest first; a priority list has no order by
        position, so a choosing consumer starts from the front.
        """
        return 0

    def at(self, index: int) -> QueueEntry | None:
        for level in reversed(self._levels):
            if index < level.count:
                return level.at(level.index_from(0) + index)
            index -= level.count
        return None

    def remove_at(self, index: int) -> QueueEntry:
        self.count -= 1
        for level in reversed(self._levels):
            if index < level.count:
                return level.remove_at(level.index_from(0) + index)
            index -= level.count
        raise IndexError(index)

    def entry_of(self, position: int) -> QueueEntry | None:
        for level in self._levels:
            entry = level.entry_of(position)
            if entry is not None:
                return entry
        return None

    def clear(self) -> list[QueueEntry]:
        held: list[QueueEntry] = []
        for level in reversed(self._levels):
            held.extend(level.clear())
        self.count = 0
        return held
