"""The messages of a queue on a backup: their positions as runs, the location of each, and no message.

That is 8 octets for each, and 16 for each run of positions. Once one of them came back or left from the
middle, each has a mark of two octets, too: how often it came back, or that it is gone.

A backup delivers nothing. It learns what was enqueued and which ranges were dequeued, mostly at the
front, and hands everything over to a list that pages when its server becomes the root.

Invariants
- positions grow; what was dequeued from the middle is marked and stays until all before it is gone;
- positions, locations and marks have the same places; there are no marks, or as many as places;
- the first place that counts, if any, is of a message that is there;
- `count` is the number of messages that are there.
"""

from array import array
from collections.abc import Iterator
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.paged_tail import mark_of_count
from penstock.broker.queues.position_runs import (
    NOTHING,
    PositionRuns,
    Ranges,
    progression,
    runs_of,
)
from penstock.broker.queues.ready_list import ReadyList

# Places of what was dequeued are cut off when they are this many, and this part of all: what is
# left is moved then, so that a number is moved three times on average, however long the queue is.
COMPACT_COUNT: Final = 4096
COMPACT_PART: Final = 4
_MARK_BYTES: Final = 2
_HERE: Final = 0
_GONE: Final = 0xFFFF
_GONE_OCTET: Final = b"\xff"
_GONE_OCTETS: Final = b"\xff\xff"
# Of so many the marks are looked at together; what is copied for that is little.
_BLOCK_COUNT: Final = 1024
_GONE_BLOCK: Final = array("H", _GONE_OCTETS * _BLOCK_COUNT)
# So many marks are set one by one; making an array of them costs more.
_FEW: Final = 4


class ReplicaList(ReadyList):
    """Held by a queue of a backup, by its delay lines, and by its store for what is staged."""

    def __init__(self) -> None:
        super().__init__()
        self._runs: PositionRuns = PositionRuns()
        self._locations: array[int] = array("Q")
        self._marks: array[int] = array("H")
        # How many places at the front do not count any more.
        self._taken: int = 0
        # Of all that were ever added.
        self.highest_position: int = 0
        # Whether any message that was added has a time to live.
        self.may_expire: bool = False
        # Deliveries of messages that are yet to be added: first position, how many, deliveries.
        self._expected: list[tuple[int, int, int]] = []

    # Messages come.

    def add(self, position: int, location: int) -> None:
        """A message was enqueued; nearly always behind all others."""
        if position <= self.highest_position:
            self.add_many(array("Q", [position]), array("Q", [location]))
            return
        self.highest_position = position
        self._runs.append(position, 1)
        self._locations.append(location)
        if len(self._marks):
            self._marks.append(_HERE)
        self.count += 1

    def add_run(self, first: int, count: int, location: int, step: int) -> None:
        """Messages with positions from the first on, whose locations are `step` apart."""
        locations = progression(location, count, step)
        if first <= self.highest_position:
            runs = PositionRuns()
            runs.append(first, count)
            self._add(runs, locations)
            return
        self.highest_position = first + count - 1
        self._runs.append(first, count)
        self._locations.extend(locations)
        if len(self._marks):
            self._marks.frombytes(bytes(_MARK_BYTES * count))
        self.count += count

    def add_many(self, positions: "array[int]", locations: "array[int]") -> None:
        """Messages that are not here yet, in order of position. The locations may be kept, so that
        those of ten million messages are not there twice.
        """
        self._add(runs_of(positions), locations)

    def absorb(self, other: "ReplicaList") -> None:
        """Take all messages of another list, which are not here yet; how often they came back is
        forgotten.
        """
        runs, locations = other.drain()
        self._add(runs, locations)

    def _add(self, runs: PositionRuns, locations: "array[int]") -> None:
        if not runs.count:
            return
        self.highest_position = max(self.highest_position, runs.last())
        if not self.count:
            self.count = runs.count
            self._runs = runs
            self._locations = locations
        else:
            self._merge(runs, locations)
        if self._expected:
            expected = self._expected
            self._expected = []
            for first, count, deliveries in expected:
                self.note_returns(first, count, deliveries)

    def _merge(self, runs: PositionRuns, locations: "array[int]") -> None:
        self._cut_taken()
        place = self._runs.place_of(runs.first_of(0))
        if place == self._runs.count:
            self._append(runs, locations)
        elif self._runs.position_at(place) > runs.last():
            self._insert(place, runs, locations)
        else:
            self._expected.extend(
                [(position, 1, count) for position, count in self._delivery_counts(place)]
            )
            tail = self._living_runs(place)
            tail_locations = self._living_locations(place, self._runs.count)
            self.count -= tail.count
            self._runs.cut_tail(place)
            del self._locations[place:]
            del self._marks[place:]
            self._append(*woven(runs, locations, tail, tail_locations))

    def _insert(self, place: int, runs: PositionRuns, locations: "array[int]") -> None:
        """Between two that are here."""
        behind = PositionRuns()
        self._runs.copy_into(behind, place, self._runs.count)
        self._runs.cut_tail(place)
        self._runs.extend(runs)
        self._runs.extend(behind)
        self._locations[place:place] = locations
        if len(self._marks):
            self._marks[place:place] = array("H", bytes(_MARK_BYTES * runs.count))
        self.count += runs.count

    def _append(self, runs: PositionRuns, locations: "array[int]") -> None:
        self._locations.extend(locations)
        if len(self._marks):
            self._marks.frombytes(bytes(_MARK_BYTES * runs.count))
        self.count += runs.count
        self._runs.extend(runs)

    # Messages come back.

    def _make_marks(self) -> None:
        if not len(self._marks):
            self._marks = array("H", bytes(_MARK_BYTES * len(self._locations)))

    def note_returns(self, first: int, count: int, deliveries: int) -> None:
        """Messages from a position on came back, each after so many deliveries. When a replica is read
        back, or made anew, this is known before the messages are added.
        """
        mark = mark_of_count(deliveries)
        end = first + count
        place = max(self._runs.place_of(first), self._taken)
        last = self._runs.place_of(end)
        if place < last:
            self._make_marks()
        for index in range(place, last):
            if self._marks[index] != _GONE:
                self._marks[index] = mark
        # Not one by one: a range may say more than there will ever be.
        begin = max(first, self.highest_position + 1)
        if begin < end:
            self._expected.append((begin, end - begin, deliveries))

    def delivery_counts(self) -> list[tuple[int, int]]:
        return self._delivery_counts(self._taken)

    def _delivery_counts(self, place: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for begin in range(place, len(self._marks), _BLOCK_COUNT):
            marks = self._marks[begin : begin + _BLOCK_COUNT]
            if marks.count(_HERE) == len(marks):
                # The common case, without a step for each.
                continue
            for index, mark in enumerate(marks):
                if mark not in (_HERE, _GONE):
                    found.append((self._runs.position_at(begin + index), mark >> 1))
        return found

    # Messages leave.

    def remove_ranges(self, ranges: Ranges) -> "array[int]":
        """Messages were dequeued; returns the locations of those that were here."""
        gone: array[int] = array("Q")
        for first, count in ranges:
            place = max(self._runs.place_of(first), self._taken)
            end = self._runs.place_of(first + count)
            if place < end:
                self._remove(place, end, gone)
        if len(gone):
            self._trim()
        return gone

    def keep(self, ranges: Ranges) -> "array[int]":
        """Only what lies in these ranges stays, which grow; returns the locations of the rest."""
        gone: array[int] = array("Q")
        place = self._taken
        for first, count in ranges:
            begin = self._runs.place_of(first)
            if place < begin:
                self._remove(place, begin, gone)
            place = max(self._runs.place_of(first + count), self._taken)
        if place < self._runs.count:
            self._remove(place, self._runs.count, gone)
        if len(gone):
            self._trim()
        return gone

    def _remove(self, place: int, end: int, gone: "array[int]") -> None:
        """The places are not taken. Locations of what was there are appended."""
        count = end - place
        if count == 1 and len(self._marks):
            if self._marks[place] == _GONE:
                return
            gone.append(self._locations[place])
        else:
            locations = self._living_locations(place, end)
            gone.extend(locations)
            count = len(locations)
        self.count -= count
        if place == self._taken:
            self._taken = end
            return
        self._make_marks()
        if end - place <= _FEW:
            for index in range(place, end):
                self._marks[index] = _GONE
        elif end - place <= _BLOCK_COUNT:
            self._marks[place:end] = _GONE_BLOCK[: end - place]
        else:
            self._marks[place:end] = array("H", _GONE_OCTETS * (end - place))

    def _trim(self) -> None:
        """Restore the invariants after something was removed."""
        if self.count == 0:
            self._runs = PositionRuns()
            self._locations = array("Q")
            self._marks = array("H")
            self._taken = 0
            return
        if len(self._marks):
            self._skip_gone()
        if self._taken >= max(COMPACT_COUNT, len(self._locations) // COMPACT_PART):
            self._cut_taken()

    def _skip_gone(self) -> None:
        while True:
            marks = self._marks[self._taken : self._taken + _BLOCK_COUNT].tobytes()
            # No other mark has this octet in its lower half.
            gone = (len(marks) - len(marks.lstrip(_GONE_OCTET))) // _MARK_BYTES
            self._taken += gone
            if gone < _BLOCK_COUNT:
                return

    def _cut_taken(self) -> None:
        if self._taken:
            self._runs.cut_front(self._taken)
            del self._locations[: self._taken]
            del self._marks[: self._taken]
            self._taken = 0

    def drain(self) -> tuple[PositionRuns, "array[int]"]:
        """Empty it; returns positions and locations in order. Mostly nothing is copied."""
        runs = self._runs
        locations = self._locations
        if self.count == len(locations) - self._taken:
            self._cut_taken()
        else:
            runs = self._living_runs(self._taken)
            locations = self._living_locations(self._taken, len(locations))
        self.count = 0
        self._trim()
        return runs, locations

    def take_all(self) -> tuple["array[int]", "array[int]"]:
        """Empty it; returns one position for each message, too, for `PagedReadyList.restore`."""
        runs, locations = self.drain()
        return runs.positions(), locations

    # Questions.

    def _living_runs(self, place: int) -> PositionRuns:
        """Positions of the messages from a place on."""
        found = PositionRuns()
        total = self._runs.count
        for begin in range(place, total, _BLOCK_COUNT):
            end = min(begin + _BLOCK_COUNT, total)
            for low, high in self._living_places(begin, end):
                self._runs.copy_into(found, low, high)
        return found

    def _living_locations(self, place: int, end: int) -> "array[int]":
        """Locations of the messages between two places."""
        if self.count == len(self._locations) - self._taken:
            return self._locations[place:end]
        if end - place <= _BLOCK_COUNT and _GONE_OCTETS not in self._marks[place:end].tobytes():
            # What is dequeued is here, but for rare cases.
            return self._locations[place:end]
        found: array[int] = array("Q")
        for begin in range(place, end, _BLOCK_COUNT):
            for low, high in self._living_places(begin, min(begin + _BLOCK_COUNT, end)):
                found.extend(self._locations[low:high])
        return found

    def _living_places(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Stretches of places whose messages are here, between two that are not far apart."""
        marks = self._marks[begin:end].tobytes()
        if _GONE_OCTETS not in marks:
            return [(begin, end)]
        found: list[tuple[int, int]] = []
        low = begin
        for place in range(begin, end):
            at = (place - begin) * _MARK_BYTES
            if marks[at] == _GONE_OCTETS[0] and marks[at + 1] == _GONE_OCTETS[1]:
                if low < place:
                    found.append((low, place))
                low = place + 1
        if low < end:
            found.append((low, end))
        return found

    def _place_of(self, position: int) -> int:
        place = self._runs.find(position)
        if place < self._taken:
            return NOTHING
        is_gone = bool(len(self._marks)) and self._marks[place] == _GONE
        return NOTHING if is_gone else place

    def location_of(self, position: int) -> int:
        place = self._place_of(position)
        return NOTHING if place < 0 else self._locations[place]

    def moved(self, position: int, location: int) -> bool:
        place = self._place_of(position)
        if place < 0:
            return False
        self._locations[place] = location
        return True

    def holds_row(self, position: int, locations: "array[int]") -> bool:
        place = self._place_of(position)
        end = place + len(locations)
        last = position + len(locations) - 1
        return (
            place >= 0
            and self._locations[place:end] == locations
            and self._place_of(last) == end - 1
            and self.count_in([(position, len(locations))]) == len(locations)
        )

    def moved_row(self, position: int, locations: "array[int]") -> None:
        place = self._place_of(position)
        assert place >= 0, "it was found a moment ago"
        self._locations[place : place + len(locations)] = locations

    def journalled(self) -> tuple["array[int]", "array[int]"]:
        runs = self._living_runs(self._taken)
        return runs.positions(), self._living_locations(self._taken, len(self._locations))

    def ranges(self) -> Ranges:
        if self.count == len(self._locations) - self._taken:
            return self._runs.ranges(self._taken)
        return self._living_runs(self._taken).ranges(0)

    def count_in(self, ranges: Ranges) -> int:
        """How many of its messages lie in these ranges, which grow."""
        total = 0
        has_gone = self.count < len(self._locations) - self._taken
        for first, count in ranges:
            low = max(self._runs.place_of(first), self._taken)
            high = max(self._runs.place_of(first + count), low)
            total += high - low
            if has_gone:
                total -= self._marks[low:high].count(_GONE)
        return total

    def location_blocks(self) -> Iterator["array[int]"]:
        """All locations in order, not so many at once that their copies would take memory."""
        for begin in range(self._taken, len(self._locations), _BLOCK_COUNT):
            end = min(begin + _BLOCK_COUNT, len(self._locations))
            yield self._living_locations(begin, end)

    def positions(self) -> list[int]:
        return self.journalled()[0].tolist()

    def oldest_position(self) -> int:
        return self._runs.position_at(self._taken) if self.count else NOTHING

    def in_memory_count(self) -> int:
        return 0

    def entry_of(self, position: int) -> QueueEntry | None:
        return None

    # Nothing of it can be delivered, nor looked at.

    def first(self) -> QueueEntry | None:
        return None

    def next_from(self, position: int) -> QueueEntry | None:
        return None

    def append(self, entry: QueueEntry) -> None:
        raise AssertionError("a backup enqueues what its root says, and nothing else")

    def extend(self, entries: list[QueueEntry]) -> None:
        raise AssertionError("a backup enqueues what its root says, and nothing else")

    def insert(self, entry: QueueEntry) -> None:
        raise AssertionError("a backup delivers nothing, so nothing comes back")

    def clear_tail(self) -> tuple["array[int]", "array[int]"]:
        return self.take_all()


def woven(
    some: PositionRuns,
    some_locations: "array[int]",
    others: PositionRuns,
    other_locations: "array[int]",
) -> tuple[PositionRuns, "array[int]"]:
    """Two lists of positions with their locations as one, in order. No position is in both."""
    runs = PositionRuns()
    locations: array[int] = array("Q")
    place = 0
    behind = 0
    while place < some.count and behind < others.count:
        # What of each comes before the next of the other.
        end = some.place_of(others.position_at(behind))
        some.copy_into(runs, place, end)
        locations.extend(some_locations[place:end])
        place = end
        if place < some.count:
            end = others.place_of(some.position_at(place))
            others.copy_into(runs, behind, end)
            locations.extend(other_locations[behind:end])
            behind = end
    some.copy_into(runs, place, some.count)
    locations.extend(some_locations[place:])
    others.copy_into(runs, behind, others.count)
    locations.extend(other_locations[behind:])
    return runs, locations
