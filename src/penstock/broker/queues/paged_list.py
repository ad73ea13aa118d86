"""A ready list that outgrows memory: the head stays, the tail is three numbers per message.

    head: entries in memory | tail: `PagedTail` | incoming: entries of this tick
    <- oldest                                                         newest ->

Entries are taken from the head. When it is empty the next ones are read back from the tail in one
go; what arrives while there is a tail waits in `incoming` and is paged out at the end of the tick.
Selective consumers look at the tail page by page and leave it where it is.

Invariants
- positions grow from head over tail to incoming;
- `returned` holds entries in memory whose positions lie within the tail: they were chosen out of
  it and came back. Without a tail it is empty;
- `count` is the number of entries in all parts.
"""

from array import array
from dataclasses import dataclass
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.message import NOBODY
from penstock.broker.queues.paged_tail import PagedTail
from penstock.broker.queues.queue_journal import MessagePages
from penstock.broker.queues.ready_list import ReadyList, counts_of, merged, places_of

# Above the first number, or the octets, the end of the head is paged out until the second number is
# left. A message of 100 octets costs about 400 in memory, so a queue keeps some megabytes.
HEAD_COUNT_MAX: Final = 16_384
HEAD_COUNT_KEPT: Final = 4096
HEAD_BYTES_MAX: Final = 16 * 1024 * 1024
# Of entries that arrived together in a great number so many are paged out in one tick, and with
# them freed: about five milliseconds. The others stay in memory for some ticks.
PAGE_OUT_COUNT: Final = 16_384
# The most that are read back at once: as many small messages as are in a block of the disk, which
# is read and checked as a whole. Few enough not to delay a tick noticeably.
PAGE_COUNT: Final = 2048


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
        self._tail: PagedTail = PagedTail(pages, limits.page_count)
        self._returned: list[QueueEntry] = []
        self._incoming: list[QueueEntry] = []
        # Entries that arrived together and may wait for later ticks.
        self._patient: int = 0
        # Octets of bodies since the last look; an estimate that only ever pages out too early.
        self._bytes: int = 0
        # Entries up to here came out of the journal at the start, so somebody may have seen them.
        self.inherited_position: int = 0

    def restore(self, positions: "array[int]", locations: "array[int]") -> None:
        """What the journal held at the start, in order."""
        assert self.count == 0, "restored before anything arrives"
        self._tail.restore(positions, locations)
        self.count = len(positions)
        if self.count:
            self.inherited_position = positions[len(positions) - 1]

    def restore_counts(self, counts: list[tuple[int, int]]) -> None:
        """Position and deliveries of what has come back before; not all of it need be here."""
        for position, deliveries in counts:
            entry = self.entry_of(position)
            if entry is not None:
                entry.delivery_count = deliveries
            else:
                self._tail.count_deliveries(position, deliveries)

    def tail_count(self) -> int:
        """Messages that are not in memory."""
        return self._tail.count

    def oldest_position(self) -> int:
        if self._head < len(self._slots):
            return super().oldest_position()
        oldest = self._tail.first_position()
        if self._returned and (oldest < 0 or self._returned[0].position < oldest):
            oldest = self._returned[0].position
        if oldest < 0 and self._incoming:
            oldest = self._incoming[0].position
        return oldest

    def in_memory_count(self) -> int:
        return self.count - self._tail.count

    def append(self, entry: QueueEntry) -> None:
        self.count += 1
        if self._tail.count or self._incoming:
            self._incoming.append(entry)
        else:
            self._slots.append(entry)
            self._bytes += len(entry.message.body)
            if (
                len(self._slots) - self._head <= self._head_count_max
                and self._bytes <= self._head_bytes_max
            ):
                return
        self._list()

    def extend(self, entries: list[QueueEntry]) -> None:
        self.count += len(entries)
        if self._tail.count or self._incoming:
            self._incoming.extend(entries)
        else:
            # No more than may stay in memory: paging them out again costs a step for each.
            room = max(self._limits.head_count_kept - (len(self._slots) - self._head), 0)
            if len(entries) <= room:
                # The usual case: what every tick of a replicated queue brings, while it is short.
                self._slots.extend(entries)
                for entry in entries:
                    self._bytes += len(entry.message.body)
                if self._bytes > self._head_bytes_max:
                    self._list()
                return
            self._slots.extend(entries[:room])
            self._incoming = entries[room:]
        self._patient += len(entries)
        self._list()

    def _list(self) -> None:
        if not self._is_listed:
            self._is_listed = True
            self._page_list.append(self)

    def page_out(self) -> None:
        """End of a tick: what is too much for memory goes to the tail."""
        self._is_listed = False
        self._bytes = 0
        if self._tail.count == 0:
            kept = self._kept_count()
            surplus: list[QueueEntry] = []
            for entry in self._slots[kept:]:
                assert entry is not None, "no holes behind the head"
                surplus.append(entry)
            del self._slots[kept:]
            self._incoming[0:0] = surplus
        if self._patient:
            self._page_out_patiently()
        else:
            self._tail.extend(self._incoming)
            self._incoming.clear()
        if self._tail.count == 0 and self._head == len(self._slots):
            self._slots = []
            self._head = 0

    def _page_out_patiently(self) -> None:
        """Page out as many as in other ticks, and some of those that arrived together."""
        self._patient = max(min(self._patient, len(self._incoming)) - PAGE_OUT_COUNT, 0)
        count = len(self._incoming) - self._patient
        self._tail.extend(self._incoming[:count])
        del self._incoming[:count]
        if self._patient:
            self._list()

    def _kept_count(self) -> int:
        """Slots that stay in memory: some of the head."""
        end = self._head
        limit = min(len(self._slots), self._head + self._limits.head_count_kept)
        size = 0
        while end < limit and size <= self._head_bytes_max // 4:
            entry = self._slots[end]
            assert entry is not None, "no holes behind the head"
            size += len(entry.message.body)
            end += 1
        return end

    def _fill(self) -> None:
        """Read the next entries back; the head is empty."""
        if self._tail.count:
            entries = self._tail.read()
            if not self._returned and entries[0].position > self.inherited_position:
                self._slots.extend(entries)
                return
            for entry in entries:
                if entry.position <= self.inherited_position:
                    inherit(entry)
                while self._returned and self._returned[0].position < entry.position:
                    self._slots.append(self._returned.pop(0))
                self._slots.append(entry)
            self._tail_shrank()
        elif self._incoming:
            self._slots.extend(self._incoming)
            self._incoming = []

    def _tail_shrank(self) -> None:
        """Requeued entries whose positions are not within the tail any more belong to the head."""
        first = self._tail.first_position()
        while self._returned and (first < 0 or self._returned[0].position < first):
            self._slots.append(self._returned.pop(0))

    def _head_is_empty(self) -> bool:
        return self._head == len(self._slots)

    def first(self) -> QueueEntry | None:
        if self.count == 0:
            return None
        if self._head_is_empty():
            self._fill()
        return self._slots[self._head]

    def pop_first(self) -> QueueEntry:
        if self._head_is_empty():
            self._fill()
        return super().pop_first()

    def pop_many(self, count: int) -> list[QueueEntry]:
        if self._head_is_empty():
            self._fill()
        return super().pop_many(min(count, len(self._slots) - self._head))

    def insert(self, entry: QueueEntry) -> None:
        position = entry.position
        if self._tail.count and position > self._tail.first_position():
            # The last one itself may be the one that was taken out. Paged out once more, it would
            # follow its own mark as removed, and never be found.
            if position <= self._tail.last_position():
                self._returned.insert(place_of(self._returned, position), entry)
            else:
                self._incoming.insert(place_of(self._incoming, position), entry)
                self._list()
            self.count += 1
        elif self._incoming and position > self._incoming[0].position:
            self._incoming.insert(place_of(self._incoming, position), entry)
            self.count += 1
        else:
            super().insert(entry)
            if self._tail.count == 0 and len(self._slots) - self._head > self._head_count_max:
                self._list()

    # For whoever chooses.

    def next_from(self, position: int) -> QueueEntry | None:
        found = super().next_from(position)
        if found is not None:
            return found
        place = place_of(self._returned, position)
        if place < len(self._returned):
            found = self._returned[place]
        following = self._tail.next_position(position)
        if following >= 0 and (found is None or following < found.position):
            found = self._tail.look(following)
            if following <= self.inherited_position:
                inherit(found)
        if found is not None:
            return found
        place = place_of(self._incoming, position)
        return self._incoming[place] if place < len(self._incoming) else None

    def positions_from(self, position: int, count: int) -> list[int]:
        found = super().positions_from(position, count)
        if len(found) < count:
            behind = self._tail.positions_from(position, count)
            place = place_of(self._returned, position)
            behind.extend([entry.position for entry in self._returned[place : place + count]])
            behind.sort()
            place = place_of(self._incoming, position)
            behind.extend([entry.position for entry in self._incoming[place : place + count]])
            found.extend(behind[: count - len(found)])
        return found

    def take(self, position: int) -> QueueEntry:
        index = self.index_from(position)
        if index < len(self._slots):
            return self.remove_at(index)
        self.count -= 1
        if self._tail.location_of(position) >= 0:
            entry = self._tail.take(position)
            if position <= self.inherited_position:
                inherit(entry)
            self._tail_shrank()
            return entry
        if found_in(self._returned, position) is not None:
            return self._returned.pop(place_of(self._returned, position))
        return self._incoming.pop(place_of(self._incoming, position))

    # For the store.

    def entry_of(self, position: int) -> QueueEntry | None:
        entry = super().entry_of(position)
        if entry is None and self._returned:
            entry = found_in(self._returned, position)
        if entry is None and self._incoming:
            entry = found_in(self._incoming, position)
        return entry

    def delivery_counts(self) -> list[tuple[int, int]]:
        found = super().delivery_counts()
        found.extend(self._tail.delivery_counts())
        found.extend(counts_of(self._returned))
        found.extend(counts_of(self._incoming))
        return found

    def location_of(self, position: int) -> int:
        return self._tail.location_of(position)

    def moved(self, position: int, location: int) -> bool:
        return self._tail.moved(position, location)

    def locations_from(self, position: int, count: int) -> list[int]:
        return self._tail.locations_from(position, count)

    def holds_row(self, position: int, locations: "array[int]") -> bool:
        return self._tail.holds_row(position, locations)

    def moved_row(self, position: int, locations: "array[int]") -> None:
        self._tail.moved_row(position, locations)

    def journalled(self) -> tuple["array[int]", "array[int]"]:
        found = merged(self._tail.held(), places_of(self._returned))
        return merged(merged(super().journalled(), found), places_of(self._incoming))

    def clear(self) -> list[QueueEntry]:
        assert self._tail.count == 0, "the tail is cleared first"
        incoming = self._incoming
        self._incoming = []
        held = super().clear()
        held.extend(incoming)
        return held

    def clear_tail(self) -> tuple["array[int]", "array[int]"]:
        self.count -= self._tail.count
        cleared = self._tail.clear()
        self._tail_shrank()
        return cleared

    def positions(self) -> list[int]:
        behind = self._tail.positions()
        behind.extend([entry.position for entry in self._returned])
        behind.sort()
        found = [entry.position for entry in self._slots if entry is not None]
        found.extend(behind)
        found.extend([entry.position for entry in self._incoming])
        return found


def place_of(entries: list[QueueEntry], position: int) -> int:
    """Where the first entry at or after a position stands, or would."""
    low = 0
    high = len(entries)
    while low < high:
        middle = (low + high) // 2
        if entries[middle].position < position:
            low = middle + 1
        else:
            high = middle
    return low


def found_in(entries: list[QueueEntry], position: int) -> QueueEntry | None:
    place = place_of(entries, position)
    if place < len(entries) and entries[place].position == position:
        return entries[place]
    return None


def inherit(entry: QueueEntry) -> None:
    """It was there before the last start: a client may have seen it, and its publisher is gone."""
    entry.is_redelivered = True
    entry.message.origin = NOBODY
