"""Entries ready for delivery, in order of position.

A list with a moving head: append at the tail and take from the head cost a few nanoseconds
compiled, and a requeued entry goes back to its place by moving the few entries in front of it.

Invariants: positions strictly increase from head to tail; slots before the head are None.
"""

from typing import Final

from penstock.broker.entry import QueueEntry

# Dead slots before the head are cut off when they are this many and at least half of the list.
COMPACT_SLOTS_MIN: Final = 1024
# An emptied list keeps its slots up to this many, so that a queue that goes empty with every
# message does not allocate each time; more would add up over ten thousand idle queues.
KEEP_SLOTS_MAX: Final = 64


class ReadyList:
    """First in, first out. Held by one queue; `PriorityReadyList` refines it."""

    def __init__(self) -> None:
        self._slots: list[QueueEntry | None] = []
        self._head: int = 0
        self.count: int = 0

    def append(self, entry: QueueEntry) -> None:
        self._slots.append(entry)
        self.count += 1

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
        while low < high:
            middle = (low + high) // 2
            entry = self._slots[middle]
            assert entry is not None, "no holes behind the head"
            if entry.position < position:
                low = middle + 1
            else:
                high = middle
        return low

    def at(self, index: int) -> QueueEntry | None:
        """Entry in a slot given by `index_from`, or None behind the tail."""
        if index >= len(self._slots):
            return None
        return self._slots[index]

    def remove_at(self, index: int) -> QueueEntry:
        """Take an entry out of the middle, for consumers that choose."""
        entry = self._slots[index]
        assert entry is not None, "only a slot that holds an entry is removed"
        head = self._head
        for slot in range(index, head, -1):
            self._slots[slot] = self._slots[slot - 1]
        self._slots[head] = None
        self._head = head + 1
        self.count -= 1
        return entry

    def entry_of(self, position: int) -> QueueEntry | None:
        """The entry in memory with this position."""
        entry = ReadyList.at(self, self.index_from(position))
        return entry if entry is not None and entry.position == position else None

    def clear(self) -> list[QueueEntry]:
        """Empty the list and return what it held, in order."""
        held = [entry for entry in self._slots if entry is not None]
        self._slots = []
        self._head = 0
        self.count = 0
        return held
