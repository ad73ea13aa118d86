"""The messages of a queue that are not in memory: position, location and a mark of each.

A mark is what the queue knows beside the message: whether somebody may have seen it, and how often
it came back. So flags survive paging at two octets per message.

Invariants
- positions grow; what was taken out of the middle is marked and stays until all before it is gone;
- the first number that was not read yet, if any, is of a message that is there.
"""

from array import array
from bisect import bisect_left
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.queue_journal import MessagePages

# Numbers of what was read are cut off when they are this many, and this part of all: what is left
# is moved then, so that a number is moved three times on average, however long the queue is.
COMPACT_COUNT: Final = 65_536
COMPACT_PART: Final = 4
NOTHING: Final = -1
_MARK_BYTES: Final = 2
_SEEN: Final = 1
_GONE: Final = 0xFFFF
_GONE_OCTETS: Final = b"\xff\xff"
# A delivery count above this is kept as this; limits of deliveries are a few dozen.
_DELIVERIES_MAX: Final = 0x7FFE


class PagedTail:
    """Held by a paged list."""

    def __init__(self, pages: MessagePages, page_count: int) -> None:
        self._pages: MessagePages = pages
        self._page_count: int = page_count
        self._positions: array[int] = array("Q")
        self._locations: array[int] = array("Q")
        self._marks: array[int] = array("H")
        # How many numbers at the front are no longer valid.
        self._taken: int = 0
        self.count: int = 0
        # What was looked at last, in order; some of it may be gone meanwhile.
        self._window: list[QueueEntry] = []

    def restore(self, positions: "array[int]", locations: "array[int]") -> None:
        self._positions = positions
        self._locations = locations
        self._marks = array("H", bytes(_MARK_BYTES * len(positions)))
        self.count = len(positions)

    def extend(self, entries: list[QueueEntry]) -> None:
        """Page entries out."""
        self._locations.fromlist(self._pages.page_out(entries))
        positions: list[int] = []
        is_marked = False
        for entry in entries:
            positions.append(entry.position)
            if entry.is_redelivered or entry.delivery_count:
                is_marked = True
        self._positions.fromlist(positions)
        if is_marked:
            self._marks.fromlist([_mark_of(entry) for entry in entries])
        else:
            self._marks.frombytes(bytes(_MARK_BYTES * len(entries)))
        self.count += len(entries)

    def first_position(self) -> int:
        """NOTHING when it is empty."""
        return self._positions[self._taken] if self.count else NOTHING

    def last_position(self) -> int:
        """The position of the last one that was paged out, whether it is still there or not."""
        return self._positions[len(self._positions) - 1]

    def read(self) -> list[QueueEntry]:
        """Take the first ones, as many as are good to have in memory at once."""
        first = self._taken
        end = min(first + self._page_count, len(self._positions))
        if self._marks[first:end].tobytes() == bytes(_MARK_BYTES * (end - first)):
            # Nothing was taken out, and nobody has seen any: most queues are like that.
            locations = self._locations[first:end].tolist()
            entries = self._pages.page_in(self._positions[first:end].tolist(), locations)
            assert entries, "what was paged out can be read back"
            self._pages.forget(locations[: len(entries)])
            self._taken = first + len(entries)
        else:
            places = self._places_from(first)
            entries = self._page_in(places)
            self._pages.forget([self._locations[place] for place in places[: len(entries)]])
            self._taken = places[len(entries) - 1] + 1
        self.count -= len(entries)
        self._window = []
        self._trim()
        return entries

    def _places_from(self, place: int) -> list[int]:
        """The places of the next page of messages that are still there."""
        places: list[int] = []
        while place < len(self._positions) and len(places) < self._page_count:
            if self._marks[place] != _GONE:
                places.append(place)
            place += 1
        return places

    def _page_in(self, places: list[int]) -> list[QueueEntry]:
        first = places[0]
        end = places[len(places) - 1] + 1
        if end - first == len(places):
            positions = self._positions[first:end].tolist()
            locations = self._locations[first:end].tolist()
        else:
            positions = [self._positions[place] for place in places]
            locations = [self._locations[place] for place in places]
        entries = self._pages.page_in(positions, locations)
        assert entries, "what was paged out can be read back"
        for index, entry in enumerate(entries):
            mark: int = self._marks[places[index]]
            if mark:
                entry.is_redelivered = mark & _SEEN != 0
                entry.delivery_count = mark >> 1
        return entries

    def _trim(self) -> None:
        if self.count == 0:
            self._positions = array("Q")
            self._locations = array("Q")
            self._marks = array("H")
            self._taken = 0
            self._window = []
            return
        while self._marks[self._taken] == _GONE:
            self._taken += 1
        if self._taken >= max(COMPACT_COUNT, len(self._positions) // COMPACT_PART):
            del self._positions[: self._taken]
            del self._locations[: self._taken]
            del self._marks[: self._taken]
            self._taken = 0

    # For whoever chooses.

    def next_position(self, position: int) -> int:
        """The first position at or after one, or NOTHING."""
        place = bisect_left(self._positions, position, self._taken)
        while place < len(self._positions):
            if self._marks[place] != _GONE:
                found: int = self._positions[place]
                return found
            place += 1
        return NOTHING

    def positions_from(self, position: int, count: int) -> list[int]:
        """The first positions at or after one, so many at the most."""
        found: list[int] = []
        place = bisect_left(self._positions, position, self._taken)
        while place < len(self._positions) and len(found) < count:
            if self._marks[place] != _GONE:
                found.append(self._positions[place])
            place += 1
        return found

    def look(self, position: int) -> QueueEntry:
        """The message of a position that is here; it stays. Others behind it are read along."""
        known = self._looked_at(position)
        if known is None:
            place = bisect_left(self._positions, position, self._taken)
            self._window = self._page_in(self._places_from(place))
            known = self._window[0]
        return known

    def _looked_at(self, position: int) -> QueueEntry | None:
        low = 0
        high = len(self._window)
        while low < high:
            middle = (low + high) // 2
            if self._window[middle].position < position:
                low = middle + 1
            else:
                high = middle
        if low < len(self._window) and self._window[low].position == position:
            return self._window[low]
        return None

    def take(self, position: int) -> QueueEntry:
        """Take out a message that is here."""
        entry = self.look(position)
        place = self._place_of(position)
        location: int = self._locations[place]
        if entry.message.is_journalled:
            # Reclaiming may have copied it since it was looked at.
            entry.message.location = location
        self._pages.forget([location])
        self._marks[place] = _GONE
        self.count -= 1
        self._trim()
        return entry

    # For the store.

    def _place_of(self, position: int) -> int:
        place = bisect_left(self._positions, position, self._taken)
        if place == len(self._positions) or self._positions[place] != position:
            return NOTHING
        return NOTHING if self._marks[place] == _GONE else place

    def location_of(self, position: int) -> int:
        place = self._place_of(position)
        return NOTHING if place < 0 else self._locations[place]

    def moved(self, position: int, location: int) -> bool:
        place = self._place_of(position)
        if place < 0:
            return False
        self._locations[place] = location
        return True

    def locations_from(self, position: int, count: int) -> list[int]:
        """See `ReadyList.locations_from`."""
        place = self._place_of(position)
        if place < 0:
            return []
        end = min(place + count, len(self._positions))
        # Mostly none is missing.
        while self._positions[end - 1] - position != end - 1 - place or self._has_gone(place, end):
            end = place + (end - place) // 2
        return self._locations[place:end].tolist()

    def _has_gone(self, place: int, end: int) -> bool:
        """Whether one between two places is gone; perhaps also if none is."""
        return _GONE_OCTETS in self._marks[place:end].tobytes()

    def holds_row(self, position: int, locations: "array[int]") -> bool:
        """See `ReadyList.holds_row`."""
        place = self._place_of(position)
        end = place + len(locations)
        return (
            place >= 0
            and end <= len(self._positions)
            and self._positions[end - 1] - position == end - 1 - place
            and self._locations[place:end] == locations
            and not self._has_gone(place, end)
        )

    def moved_row(self, position: int, locations: "array[int]") -> None:
        place = self._place_of(position)
        assert place >= 0, "it was found a moment ago"
        self._locations[place : place + len(locations)] = locations

    def count_deliveries(self, position: int, deliveries: int) -> None:
        place = self._place_of(position)
        if place >= 0:
            self._marks[place] = mark_of_count(deliveries) | (self._marks[place] & _SEEN)

    def delivery_counts(self) -> list[tuple[int, int]]:
        return counts_in(self._positions, self._marks, self._taken)

    def clear(self) -> tuple["array[int]", "array[int]"]:
        """Returns positions and locations of what it held."""
        kept = self.held()
        self.count = 0
        self._trim()
        return kept

    def held(self) -> tuple["array[int]", "array[int]"]:
        """Positions and locations; it keeps them."""
        if not self._has_gone(self._taken, len(self._marks)):
            # The common case, without a step for each: nothing was taken out of the middle.
            return self._positions[self._taken :], self._locations[self._taken :]
        positions: array[int] = array("Q")
        locations: array[int] = array("Q")
        for place in range(self._taken, len(self._positions)):
            if self._marks[place] != _GONE:
                positions.append(self._positions[place])
                locations.append(self._locations[place])
        return positions, locations

    def positions(self) -> list[int]:
        found: list[int] = []
        for place in range(self._taken, len(self._positions)):
            if self._marks[place] != _GONE:
                found.append(self._positions[place])
        return found


def _mark_of(entry: QueueEntry) -> int:
    mark = mark_of_count(entry.delivery_count)
    return mark | _SEEN if entry.is_redelivered else mark


def mark_of_count(deliveries: int) -> int:
    """Of a message that came back so often."""
    return min(deliveries, _DELIVERIES_MAX) << 1


def counts_in(positions: "array[int]", marks: "array[int]", begin: int) -> list[tuple[int, int]]:
    """Position and deliveries of the messages from a place on that came back."""
    if marks[begin:].tobytes() == bytes(_MARK_BYTES * (len(marks) - begin)):
        # The common case, without a step for each.
        return []
    found: list[tuple[int, int]] = []
    for place in range(begin, len(marks)):
        mark: int = marks[place]
        if mark > _SEEN and mark != _GONE:
            found.append((positions[place], mark >> 1))
    return found
