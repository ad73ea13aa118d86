"""A ready list that outgrows memory: the head stays, the tail is two numbers per message.

    head: entries in memory | tail: positions and locations | incoming: entries of this tick
    <- oldest                                                                      newest ->

Entries are taken from the head. When it is empty the next ones are read back from the tail in one
go; what arrives while there is a tail waits in `incoming` and is paged out at the end of the tick.

Invariants
- positions grow from head over tail to incoming;
- what is in the tail was never delivered since it was paged out, so it needs no flags;
- `count` is the number of entries in all three parts.
"""

from array import array
from dataclasses import dataclass
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.message import NOBODY
from penstock.broker.queues.queue_journal import MessagePages
from penstock.broker.queues.ready_list import ReadyList

# Above the first number, or the octets, the tail of the head is paged out until the second number
# is left. A message of 100 octets costs about 400 in memory, so a queue keeps some megabytes.
HEAD_COUNT_MAX: Final = 16_384
HEAD_COUNT_KEPT: Final = 4096
HEAD_BYTES_MAX: Final = 16 * 1024 * 1024
# Read back at once: large enough that reading is cheap, small enough not to be felt.
PAGE_COUNT: Final = 1024
# Numbers of taken tail entries are cut off when they are this many.
COMPACT_COUNT: Final = 65_536


@dataclass(frozen=True, slots=True)
class PagingLimits:
    """How much of a queue stays in memory. Tests make it little."""

    head_count_max: int = HEAD_COUNT_MAX
    head_count_kept: int = HEAD_COUNT_KEPT
    head_bytes_max: int = HEAD_BYTES_MAX
    page_count: int = PAGE_COUNT


class PagedReadyList(ReadyList):
    """Held by a queue of a broker that has a disk."""

    def __init__(
        self, pages: MessagePages, page_list: list["PagedReadyList"], limits: PagingLimits
    ) -> None:
        super().__init__()
        self.pages: MessagePages = pages
        self._head_count_max: int = limits.head_count_max
        self._head_bytes_max: int = limits.head_bytes_max
        self._limits: PagingLimits = limits
        # Lists that have something to page out at the end of this tick.
        self._page_list: list[PagedReadyList] = page_list
        self._is_listed: bool = False
        self._tail_positions: array[int] = array("Q")
        self._tail_locations: array[int] = array("Q")
        self._tail_taken: int = 0
        self._tail_count: int = 0
        self._incoming: list[QueueEntry] = []
        # Octets of bodies since the last look; an estimate that only ever pages out too early.
        self._bytes: int = 0
        # The highest position ever taken: what is above it was never delivered.
        self._taken_position: int = 0
        # Entries up to here came out of the journal at the start, so somebody may have seen them.
        self._inherited_position: int = 0

    def restore(self, positions: "array[int]", locations: "array[int]") -> None:
        """What the journal held at the start, in order."""
        assert self.count == 0, "restored before anything arrives"
        self._tail_positions = positions
        self._tail_locations = locations
        self._tail_count = len(positions)
        self.count = len(positions)
        if self._tail_count:
            self._inherited_position = positions[len(positions) - 1]

    def tail_count(self) -> int:
        """Messages that are not in memory."""
        return self._tail_count

    def append(self, entry: QueueEntry) -> None:
        self.count += 1
        if self._tail_count or self._incoming:
            self._incoming.append(entry)
        else:
            self._slots.append(entry)
            self._bytes += len(entry.message.body)
            if (
                len(self._slots) - self._head <= self._head_count_max
                and self._bytes <= self._head_bytes_max
            ):
                return
        if not self._is_listed:
            self._is_listed = True
            self._page_list.append(self)

    def page_out(self) -> None:
        """End of a tick: what is too much for memory goes to the tail."""
        self._is_listed = False
        self._bytes = 0
        if self._tail_count == 0:
            kept = self._kept_count()
            surplus = self._slots[kept:]
            del self._slots[kept:]
            for entry in surplus:
                assert entry is not None, "no holes behind the head"
                self._put_into_tail(entry)
        for entry in self._incoming:
            self._put_into_tail(entry)
        self._incoming.clear()
        if self._tail_count == 0 and self._head == len(self._slots):
            self._slots = []
            self._head = 0

    def _kept_count(self) -> int:
        """Slots that stay in memory: some of the head, and all that was ever delivered."""
        end = self._head
        limit = min(len(self._slots), self._head + self._limits.head_count_kept)
        size = 0
        while end < limit and size <= self._head_bytes_max // 4:
            entry = self._slots[end]
            assert entry is not None, "no holes behind the head"
            size += len(entry.message.body)
            end += 1
        while end < len(self._slots):
            entry = self._slots[end]
            assert entry is not None, "no holes behind the head"
            if entry.position > self._taken_position:
                break
            end += 1
        return end

    def _put_into_tail(self, entry: QueueEntry) -> None:
        self._tail_positions.append(entry.position)
        self._tail_locations.append(self.pages.page_out(entry))
        self._tail_count += 1

    def _fill(self) -> None:
        """Read the next entries back; the head is empty."""
        if self._tail_count:
            begin = self._tail_taken
            end = min(begin + self._limits.page_count, len(self._tail_positions))
            positions = self._tail_positions[begin:end].tolist()
            locations = self._tail_locations[begin:end].tolist()
            entries = self.pages.page_in(positions, locations)
            assert entries, "what was paged out can be read back"
            for entry in entries:
                if entry.position <= self._inherited_position:
                    inherit(entry)
                self._slots.append(entry)
            self._tail_taken = begin + len(entries)
            self._tail_count -= len(entries)
            self._trim_tail()
        elif self._incoming:
            self._slots.extend(self._incoming)
            self._incoming = []

    def _trim_tail(self) -> None:
        if self._tail_count == 0:
            self._tail_positions = array("Q")
            self._tail_locations = array("Q")
            self._tail_taken = 0
        elif self._tail_taken >= COMPACT_COUNT:
            del self._tail_positions[: self._tail_taken]
            del self._tail_locations[: self._tail_taken]
            self._tail_taken = 0

    def _head_is_empty(self) -> bool:
        return self._head == len(self._slots)

    def first(self) -> QueueEntry | None:
        if self.count == 0:
            return None
        if self._head_is_empty():
            self._fill()
        return self._slots[self._head]

    def pop_first(self) -> QueueEntry:
        return self.pop_many(1)[0]

    def pop_many(self, count: int) -> list[QueueEntry]:
        if self._head_is_empty():
            self._fill()
        taken = super().pop_many(min(count, len(self._slots) - self._head))
        last = taken[len(taken) - 1].position
        self._taken_position = max(self._taken_position, last)
        return taken

    def at(self, index: int) -> QueueEntry | None:
        if index >= len(self._slots) and (self._tail_count or self._incoming):
            self._fill()
        return super().at(index)

    def remove_at(self, index: int) -> QueueEntry:
        entry = super().remove_at(index)
        self._taken_position = max(self._taken_position, entry.position)
        return entry

    def clear(self) -> list[QueueEntry]:
        """Empty the parts that are in memory; `clear_tail` comes first."""
        assert self._tail_count == 0, "the tail is cleared first"
        incoming = self._incoming
        self._incoming = []
        held = super().clear()
        held.extend(incoming)
        self.count = 0
        return held

    def clear_tail(self) -> tuple["array[int]", "array[int]"]:
        """Empty the tail; returns positions and locations of what it held."""
        positions = self._tail_positions[self._tail_taken :]
        locations = self._tail_locations[self._tail_taken :]
        self.count -= self._tail_count
        self._tail_count = 0
        self._trim_tail()
        return positions, locations

    def moved(self, position: int, location: int) -> bool:
        """The message of this position was copied elsewhere; False when it is not in the tail."""
        index = self._tail_index(position)
        if index < 0:
            return False
        self._tail_locations[index] = location
        return True

    def _tail_index(self, position: int) -> int:
        """Where a position stands in the tail; -1 when it does not."""
        low = self._tail_taken
        high = len(self._tail_positions)
        while low < high:
            middle = (low + high) // 2
            if self._tail_positions[middle] < position:
                low = middle + 1
            else:
                high = middle
        if low < len(self._tail_positions) and self._tail_positions[low] == position:
            return low
        return -1

    def positions(self) -> list[int]:
        """Of everything it holds, in order, for whoever checks it."""
        found = [entry.position for entry in self._slots if entry is not None]
        found.extend(self._tail_positions[self._tail_taken :].tolist())
        found.extend([entry.position for entry in self._incoming])
        return found

    def location_of(self, position: int) -> int:
        """Where the message of this position was paged out to; -1 when it is in memory or gone."""
        index = self._tail_index(position)
        return self._tail_locations[index] if index >= 0 else -1


def inherit(entry: QueueEntry) -> None:
    """It was there before the last start: somebody may have seen it, and who sent it is gone."""
    entry.is_redelivered = True
    entry.message.origin = NOBODY
