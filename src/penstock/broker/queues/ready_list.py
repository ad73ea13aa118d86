"""Entries ready for delivery, in order of position.

A list with a moving head: append at the tail and take from the head cost a few nanoseconds
compiled, and a requeued entry goes back to its place by moving the few entries in front of it.

Invariants: positions strictly increase from head to tail; slots before the head are None.
"""

from array import array
from typing import Final, cast

from penstock.broker.entry import QueueEntry

# Dead slots before the head are cut off when they are this many and at least half of the list.
COMPACT_SLOTS_MIN: Final = 1024
# So many entries are moved one by one when one is taken out of the middle; further from the head
# all behind it are moved at once, which costs little for each.
SHIFT_MAX: Final = 64
# An emptied list keeps its slots up to this many, so that a queue that goes empty with every
# message does not allocate each time; more would add up over ten thousand idle queues.
KEEP_SLOTS_MAX: Final = 64


class ReadyList:
    """First in, first out. Held by one queue; `PagedReadyList` and `PriorityReadyList` refine it."""

    def __init__(self) -> None:
        self._slots: list[QueueEntry | None] = []
        self._head: int = 0
        self.count: int = 0

    def append(self, entry: QueueEntry) -> None:
        self._slots.append(entry)
        self.count += 1

    def extend(self, entries: list[QueueEntry]) -> None:
        """Append many that arrive together."""
        self._slots.extend(entries)
        self.count += len(entries)

    def first(self) -> QueueEntry | None:
        if self.count == 0:
            return None
        return self._slots[self._head]

    def pop_first(self) -> QueueEntry:
        head = self._head
        entry = self._slots[head]
        assert entry is not None, "the head slot holds an entry while count is above zero"
        self.count -= 1
        if self.count == 0 and head >= KEEP_SLOTS_MAX:
            self._slots = []
            self._head = 0
            return entry
        self._slots[head] = None
        self._head = head + 1
        if head >= COMPACT_SLOTS_MIN and head * 2 >= len(self._slots):
            del self._slots[: head + 1]
            self._head = 0
        return entry

    def pop_many(self, count: int) -> list[QueueEntry]:
        """Take several from the head: at least one, perhaps fewer than asked for."""
        head = self._head
        end = head + count
        taken = [entry for entry in self._slots[head:end] if entry is not None]
        assert len(taken) == count, "no holes behind the head"
        self.count -= count
        if self.count == 0 and end >= KEEP_SLOTS_MAX:
            self._slots = []
            self._head = 0
        elif end >= COMPACT_SLOTS_MIN and end * 2 >= len(self._slots):
            del self._slots[:end]
            self._head = 0
        else:
            self._slots[head:end] = [None] * count
            self._head = end
        return taken

    def insert(self, entry: QueueEntry) -> None:
        """Put a requeued entry back where its position belongs."""
        slots = self._slots
        if self._head == 0:
            # Room for a run of requeues, so that each costs no shift of the whole list.
            room = max(16, len(slots) // 8)
            slots[0:0] = [None] * room
            self._head = room
        place = self.index_from(entry.position)
        head = self._head - 1
        for index in range(head, place - 1):
            slots[index] = slots[index + 1]
        slots[place - 1] = entry
        self._head = head
        self.count += 1

    def index_from(self, position: int) -> int:
        """Slot of the first entry at or after a position (the end when there is none)."""
        low = self._head
        high = len(self._slots)
        if low < high:
            first = self._slots[low]
            assert first is not None, "no holes behind the head"
            if first.position >= position:
                return low
        while low < high:
            middle = (low + high) // 2
            entry = self._slots[middle]
            assert entry is not None, "no holes behind the head"
            if entry.position < position:
                low = middle + 1
            else:
                high = middle
        return low

    def remove_at(self, index: int) -> QueueEntry:
        """Take out the entry of a slot given by `index_from`."""
        slots = self._slots
        entry = slots[index]
        assert entry is not None, "only a slot that holds an entry is removed"
        head = self._head
        if index - head > SHIFT_MAX:
            del slots[index]
            self.count -= 1
            return entry
        if index > head:
            slots[head + 1 : index + 1] = slots[head:index]
            slots[head] = entry
        # Dead slots are cut off there.
        return ReadyList.pop_first(self)

    # For whoever chooses: looked at one after the other, taken by position.

    def next_from(self, position: int) -> QueueEntry | None:
        """The first entry at or after a position; it stays."""
        index = self.index_from(position)
        return self._slots[index] if index < len(self._slots) else None

    def positions_from(self, position: int, count: int) -> list[int]:
        """Positions of the first entries at or after one, so many at the most, in order; nothing is
        read back for it.
        """
        begin = self.index_from(position)
        entries = cast("list[QueueEntry]", self._slots[begin : begin + count])
        return [entry.position for entry in entries]

    def take(self, position: int) -> QueueEntry:
        """Take out an entry that was looked at."""
        return self.remove_at(self.index_from(position))

    def level_count(self) -> int:
        """Lists that it is made of, each in order of position; a plain one is its only level."""
        return 1

    def level(self, number: int) -> "ReadyList | None":
        """The levels come one after the other; None for one that was never used."""
        return self

    def take_from(self, level: "ReadyList", position: int) -> QueueEntry:
        """Take out an entry of one of its levels."""
        return level.take(position)

    def level_with(self, position: int) -> "ReadyList | None":
        """The level that has an entry of this position."""
        for number in range(self.level_count()):
            level = self.level(number)
            found = None if level is None else level.next_from(position)
            if found is not None and found.position == position:
                return level
        return None

    def oldest_position(self) -> int:
        """The lowest one, without reading anything back; -1 when the list is empty."""
        entry = self._slots[self._head] if self.count else None
        return -1 if entry is None else entry.position

    def head_in_memory(self) -> QueueEntry | None:
        """The first entry, where it need not be read back; it stays."""
        return self._slots[self._head] if self._head < len(self._slots) else None

    def in_memory_count(self) -> int:
        """Entries that were not paged out."""
        return self.count

    # For the store.

    def entry_of(self, position: int) -> QueueEntry | None:
        """The entry in memory with this position."""
        index = self.index_from(position)
        entry = self._slots[index] if index < len(self._slots) else None
        return entry if entry is not None and entry.position == position else None

    def delivery_counts(self) -> list[tuple[int, int]]:
        """Position and count of every message that was delivered and came back."""
        return counts_of([entry for entry in self._slots if entry is not None])

    def location_of(self, position: int) -> int:
        """Where the message of this position was paged out to; -1 when it is in memory or gone."""
        return -1

    def moved(self, position: int, location: int) -> bool:
        """The message of this position was copied elsewhere; False when it was not paged out."""
        return False

    def locations_from(self, position: int, count: int) -> list[int]:
        """Where messages were paged out to, from the one of this position on, as far as positions follow
        one another; so many at the most. Empty when the first one is in memory or gone.
        """
        return []

    def holds_row(self, position: int, locations: "array[int]") -> bool:
        """Whether the messages from this position on were paged out to these locations, all of them."""
        return False

    def moved_row(self, position: int, locations: "array[int]") -> None:
        """Messages that `holds_row` has found were copied to these locations."""
        raise AssertionError("only what was paged out is copied in rows")

    def journalled(self) -> tuple["array[int]", "array[int]"]:
        """Positions and locations of everything that has a location, in order."""
        return places_of([entry for entry in self._slots if entry is not None])

    def clear_tail(self) -> tuple["array[int]", "array[int]"]:
        """Empty what is not in memory; returns positions and locations of what that held, in order."""
        return array("Q"), array("Q")

    def clear(self) -> list[QueueEntry]:
        """Empty what is in memory, after `clear_tail`; returns what it held, in order."""
        # There are no holes behind the head. Not looked at one by one: there may be a million.
        held = cast("list[QueueEntry]", self._slots[self._head :])
        self._slots = []
        self._head = 0
        self.count = 0
        return held

    def positions(self) -> list[int]:
        """Of everything it holds, level by level in order, for whoever checks it."""
        return [entry.position for entry in self._slots if entry is not None]


def places_of(entries: list[QueueEntry]) -> tuple["array[int]", "array[int]"]:
    """Positions and locations of those whose messages have a location."""
    positions: array[int] = array("Q")
    locations: array[int] = array("Q")
    for entry in entries:
        location = entry.message.location
        if location >= 0:
            positions.append(entry.position)
            locations.append(location)
    return positions, locations


def merged(
    some: tuple["array[int]", "array[int]"], others: tuple["array[int]", "array[int]"]
) -> tuple["array[int]", "array[int]"]:
    """Two lists of positions and locations as one, in order. No position is in both."""
    if not len(some[0]):
        return others
    if not len(others[0]):
        return some
    if some[0][0] > others[0][0]:
        some, others = others, some
    if some[0][len(some[0]) - 1] < others[0][0]:
        return some[0] + others[0], some[1] + others[1]
    positions: array[int] = array("Q")
    locations: array[int] = array("Q")
    place = 0
    for index in range(len(some[0])):
        position: int = some[0][index]
        while place < len(others[0]) and others[0][place] < position:
            positions.append(others[0][place])
            locations.append(others[1][place])
            place += 1
        positions.append(position)
        locations.append(some[1][index])
    positions.extend(others[0][place:])
    locations.extend(others[1][place:])
    return positions, locations


def counts_of(entries: list[QueueEntry]) -> list[tuple[int, int]]:
    return [(entry.position, entry.delivery_count) for entry in entries if entry.delivery_count]
