"""A ready list with priorities: higher first, and in order of position within one priority."""

from array import array
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.paged_list import PagedReadyList, PagingLimits
from penstock.broker.queues.queue_journal import MessagePages
from penstock.broker.queues.ready_list import ReadyList, merged

# Entries of one level that stay in memory however many levels there are: reading fewer back at
# once costs more than it saves.
SHARE_MIN: Final = 64


class PriorityReadyList(ReadyList):
    """One list per priority that was used. Held by a queue declared with `x-max-priority`."""

    def __init__(self, max_priority: int) -> None:
        super().__init__()
        # The highest first.
        self._levels: list[ReadyList | None] = [None] * (max_priority + 1)

    def _make_level(self) -> ReadyList:
        return ReadyList()

    def _level_of(self, entry: QueueEntry) -> ReadyList:
        highest = len(self._levels) - 1
        number = highest - min(max(entry.message.properties.priority, 0), highest)
        level = self._levels[number]
        if level is None:
            level = self._make_level()
            self._levels[number] = level
        return level

    def _highest(self) -> ReadyList | None:
        for level in self._levels:
            if level is not None and level.count:
                return level
        return None

    def append(self, entry: QueueEntry) -> None:
        self._level_of(entry).append(entry)
        self.count += 1

    def extend(self, entries: list[QueueEntry]) -> None:
        for entry in entries:
            self.append(entry)

    def first(self) -> QueueEntry | None:
        level = self._highest()
        return None if level is None else level.first()

    def pop_first(self) -> QueueEntry:
        level = self._highest()
        assert level is not None, "asked for while count is above zero"
        self.count -= 1
        return level.pop_first()

    def pop_many(self, count: int) -> list[QueueEntry]:
        return [self.pop_first() for _ in range(count)]

    def insert(self, entry: QueueEntry) -> None:
        self._level_of(entry).insert(entry)
        self.count += 1

    # For whoever chooses.

    def level_count(self) -> int:
        return len(self._levels)

    def level(self, number: int) -> ReadyList | None:
        return self._levels[number]

    def positions_from(self, position: int, count: int) -> list[int]:
        found: list[int] = []
        for level in self._levels:
            if level is not None:
                found.extend(level.positions_from(position, count))
        found.sort()
        return found[:count]

    def take_from(self, level: ReadyList, position: int) -> QueueEntry:
        self.count -= 1
        return level.take(position)

    def oldest_position(self) -> int:
        oldest = -1
        for level in self._levels:
            position = -1 if level is None else level.oldest_position()
            if position >= 0 and (oldest < 0 or position < oldest):
                oldest = position
        return oldest

    def head_in_memory(self) -> QueueEntry | None:
        level = self._highest()
        return None if level is None else level.head_in_memory()

    def in_memory_count(self) -> int:
        count = 0
        for level in self._levels:
            if level is not None:
                count += level.in_memory_count()
        return count

    # For the store.

    def entry_of(self, position: int) -> QueueEntry | None:
        for level in self._levels:
            entry = None if level is None else level.entry_of(position)
            if entry is not None:
                return entry
        return None

    def delivery_counts(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for level in self._levels:
            if level is not None:
                found.extend(level.delivery_counts())
        return found

    def location_of(self, position: int) -> int:
        for level in self._levels:
            if level is not None:
                location = level.location_of(position)
                if location >= 0:
                    return location
        return -1

    def moved(self, position: int, location: int) -> bool:
        used = [level for level in self._levels if level is not None]
        return any([level.moved(position, location) for level in used])

    def journalled(self) -> tuple["array[int]", "array[int]"]:
        found: tuple[array[int], array[int]] = (array("Q"), array("Q"))
        for level in self._levels:
            if level is not None:
                found = merged(found, level.journalled())
        return found

    def clear_tail(self) -> tuple["array[int]", "array[int]"]:
        cleared: tuple[array[int], array[int]] = (array("Q"), array("Q"))
        for level in self._levels:
            if level is not None:
                cleared = merged(cleared, level.clear_tail())
        self.count -= len(cleared[0])
        return cleared

    def clear(self) -> list[QueueEntry]:
        held: list[QueueEntry] = []
        for level in self._levels:
            if level is not None:
                held.extend(level.clear())
        self.count = 0
        return held

    def positions(self) -> list[int]:
        found: list[int] = []
        for level in self._levels:
            if level is not None:
                found.extend(level.positions())
        return found


class PagedPriorityList(PriorityReadyList):
    """A priority list in which each level can outgrow memory. The levels share one queue's
    limits.
    """

    def __init__(
        self,
        max_priority: int,
        pages: MessagePages,
        page_list: list[PagedReadyList],
        limits: PagingLimits,
    ) -> None:
        super().__init__(max_priority)
        self.pages: MessagePages = pages
        self._page_list: list[PagedReadyList] = page_list
        share = len(self._levels)
        self._limits: PagingLimits = PagingLimits(
            share_of(limits.head_count_max, share),
            share_of(limits.head_count_kept, share),
            max(limits.head_bytes_max // share, 1),
            share_of(limits.page_count, share),
        )
        # Entries up to here came out of the journal at the start.
        self._inherited_position: int = 0

    def _make_level(self) -> ReadyList:
        level = PagedReadyList(self.pages, self._page_list, self._limits)
        level.inherited_position = self._inherited_position
        return level

    def inherits(self, highest_position: int) -> None:
        """What it is given next was found in the journal, up to this position."""
        assert self.count == 0, "restored before anything arrives"
        self._inherited_position = highest_position

    def restore_counts(self, counts: list[tuple[int, int]]) -> None:
        """As of one level; each takes those that are its own."""
        for level in self._levels:
            if isinstance(level, PagedReadyList):
                level.restore_counts(counts)

    def page_out_all(self) -> None:
        """Keep memory small while much is restored."""
        for ready in self._page_list:
            ready.page_out()
        self._page_list.clear()


def share_of(count: int, levels: int) -> int:
    return max(count // levels, min(count, SHARE_MIN))
