"""The messages of a queue on a backup: position and location of each, 16 octets, and no message.

Once one of them came back or left from the middle, each has a mark of two octets, too: how often it came
back, or that it is gone.

A backup delivers nothing. It learns what was enqueued and which ranges were dequeued, mostly at the
front, and hands both arrays over to a list that pages when its server becomes the root.

Invariants
- positions grow; what was dequeued from the middle is marked and stays until all before it is gone;
- the first number that counts, if any, is of a message that is there;
- `count` is the number of messages that are there;
- there are no marks, or as many as positions.
"""

import sys
from array import array
from bisect import bisect_left
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.paged_tail import counts_in, mark_of_count
from penstock.broker.queues.ready_list import ReadyList, merged

# Numbers of what was dequeued are cut off when they are this many, and this part of all: what is
# left is moved then, so that a number is moved three times on average, however long the queue is.
COMPACT_COUNT: Final = 4096
COMPACT_PART: Final = 4
NOTHING: Final = -1
_MARK_BYTES: Final = 2
_HERE: Final = 0
_GONE: Final = 0xFFFF
_GONE_OCTETS: Final = b"\xff\xff"

# Numbers of a progression that are made at once; as many as a run has at most.
_BLOCK_COUNT: Final = 256
_NUMBER_BITS: Final = 64
_NUMBER_BYTES: Final = 8
_BLOCK_BYTES: Final = _BLOCK_COUNT * _NUMBER_BYTES
# Fewer numbers cost less one by one.
_BLOCK_COUNT_MIN: Final = 48
# Two numbers with a place of 64 bits for each of a block: in every place 1, and in each place its index.
_ONES: Final = sum([1 << place * _NUMBER_BITS for place in range(_BLOCK_COUNT)])
_INDICES: Final = sum([place << place * _NUMBER_BITS for place in range(_BLOCK_COUNT)])

Ranges = list[tuple[int, int]]  # first position and how many follow it, itself included


class ReplicaList(ReadyList):
    """Held by a queue of a backup, by its delay lines, and by its store for what is staged."""

    def __init__(self) -> None:
        super().__init__()
        self._positions: array[int] = array("Q")
        self._locations: array[int] = array("Q")
        self._marks: array[int] = array("H")
        # How many numbers at the front do not count any more.
        self._taken: int = 0
        # Of all that were ever added.
        self.highest_position: int = 0
        # Whether any message that was added has a time to live.
        self.may_expire: bool = False
        # Deliveries of messages that are yet to be added: first position, how many, deliveries.
        self._expected: list[tuple[int, int, int]] = []

    # Changes.

    def add(self, position: int, location: int) -> None:
        """A message was enqueued; nearly always behind all others."""
        positions = self._positions
        if position <= self.highest_position:
            self.add_many(array("Q", [position]), array("Q", [location]))
            return
        self.highest_position = position
        positions.append(position)
        self._locations.append(location)
        if len(self._marks):
            self._marks.append(_HERE)
        self.count += 1

    def add_run(self, first: int, count: int, location: int, step: int) -> None:
        """Messages with positions from the first on, whose locations are `step` apart."""
        positions = progression(first, count, 1)
        locations = progression(location, count, step)
        if first <= self.highest_position:
            self.add_many(positions, locations)
            return
        self.highest_position = first + count - 1
        self._positions.extend(positions)
        self._locations.extend(locations)
        if len(self._marks):
            self._marks.frombytes(bytes(_MARK_BYTES * count))
        self.count += count

    def add_many(self, positions: "array[int]", locations: "array[int]") -> None:
        """Messages that are not here yet, in order of position. The arrays may be kept, so that ten
        million messages are not there twice.
        """
        if not len(positions):
            return
        self.highest_position = max(self.highest_position, positions[len(positions) - 1])
        if not len(self._positions):
            self._positions = positions
            self._locations = locations
            self.count = len(positions)
        else:
            self._merge(positions, locations)
        if self._expected:
            expected = self._expected
            self._expected = []
            for first, count, deliveries in expected:
                self.note_returns(first, count, deliveries)

    def _merge(self, positions: "array[int]", locations: "array[int]") -> None:
        place = bisect_left(self._positions, positions[0], self._taken)
        added = len(positions)
        if place < len(self._positions):
            # Some that are here belong behind the first: these are merged with the new ones.
            if len(self._marks):
                for position, deliveries in counts_in(self._positions, self._marks, place):
                    self._expected.append((position, 1, deliveries))
            positions, locations = merged(
                (positions, locations), self._living(place, len(self._positions))
            )
            del self._positions[place:]
            del self._locations[place:]
            del self._marks[place:]
        has_marks = bool(len(self._marks))
        self._positions.extend(positions)
        self._locations.extend(locations)
        if has_marks:
            self._marks.frombytes(bytes(_MARK_BYTES * len(positions)))
        self.count += added

    def _make_marks(self) -> None:
        if not len(self._marks):
            self._marks = array("H", bytes(_MARK_BYTES * len(self._positions)))

    def note_returns(self, first: int, count: int, deliveries: int) -> None:
        """Messages from a position on came back, each after so many deliveries. When a replica is read
        back, or made anew, this is known before the messages are added.
        """
        mark = mark_of_count(deliveries)
        end = first + count
        place = bisect_left(self._positions, first, self._taken)
        last = bisect_left(self._positions, end, place)
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
        if not len(self._marks):
            return []
        return counts_in(self._positions, self._marks, self._taken)

    def remove_range(self, first: int, count: int) -> "array[int]":
        """Messages were dequeued; returns the locations of those that were here."""
        place = bisect_left(self._positions, first, self._taken)
        end = bisect_left(self._positions, first + count, place)
        if place == end:
            return array("Q")
        _, gone = self._living(place, end)
        self.count -= len(gone)
        if place == self._taken:
            self._taken = end
        else:
            self._make_marks()
            self._marks[place:end] = array("H", _GONE_OCTETS * (end - place))
        self._trim()
        return gone

    def _trim(self) -> None:
        if self.count == 0:
            self._positions = array("Q")
            self._locations = array("Q")
            self._marks = array("H")
            self._taken = 0
            return
        if len(self._marks):
            while self._marks[self._taken] == _GONE:
                self._taken += 1
        if self._taken >= max(COMPACT_COUNT, len(self._positions) // COMPACT_PART):
            del self._positions[: self._taken]
            del self._locations[: self._taken]
            del self._marks[: self._taken]
            self._taken = 0

    def take_all(self) -> tuple["array[int]", "array[int]"]:
        """Empty it; returns positions and locations in order, for `PagedReadyList.restore`."""
        if self._taken == 0 and self.count == len(self._positions):
            # The common case: nothing is copied.
            found = self._positions, self._locations
        else:
            found = self._living(self._taken, len(self._positions))
        self.count = 0
        self._trim()
        return found

    # Questions.

    def _living(self, place: int, end: int) -> tuple["array[int]", "array[int]"]:
        """Positions and locations of the messages between two places."""
        positions = self._positions[place:end]
        locations = self._locations[place:end]
        if not self._has_gone(place, end):
            return positions, locations
        kept_positions: array[int] = array("Q")
        kept_locations: array[int] = array("Q")
        for index in range(end - place):
            if self._marks[place + index] != _GONE:
                kept_positions.append(positions[index])
                kept_locations.append(locations[index])
        return kept_positions, kept_locations

    def _has_gone(self, place: int, end: int) -> bool:
        if self.count == len(self._positions) - self._taken:
            return False
        # Without a step for each: most are as they came.
        return self._marks[place:end].tobytes() != bytes(_MARK_BYTES * (end - place))

    def between(self, first: int, count: int) -> tuple["array[int]", "array[int]"]:
        """Positions and locations of what it has of a range."""
        place = bisect_left(self._positions, first, self._taken)
        end = bisect_left(self._positions, first + count, place)
        return self._living(place, end)

    def _place_of(self, position: int) -> int:
        place = bisect_left(self._positions, position, self._taken)
        if place == len(self._positions) or self._positions[place] != position:
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

    def journalled(self) -> tuple["array[int]", "array[int]"]:
        return self._living(self._taken, len(self._positions))

    def ranges(self) -> Ranges:
        if self._taken == 0 and not self._has_gone(0, len(self._positions)):
            # Nothing is copied.
            return ranges_of(self._positions)
        return ranges_of(self.journalled()[0])

    def count_in(self, ranges: Ranges) -> int:
        """How many of its messages lie in these ranges, which grow."""
        total = 0
        place = self._taken
        for first, count in ranges:
            low = bisect_left(self._positions, first, place)
            place = bisect_left(self._positions, first + count, low)
            total += place - low
            if self._has_gone(low, place):
                total -= self._marks[low:place].count(_GONE)
        return total

    def locations(self) -> "array[int]":
        """Of its messages, in order; to be looked at in this moment and left as it is."""
        if self._taken == 0 and not self._has_gone(0, len(self._positions)):
            return self._locations
        return self.journalled()[1]

    def positions(self) -> list[int]:
        return self.journalled()[0].tolist()

    def oldest_position(self) -> int:
        return self._positions[self._taken] if self.count else NOTHING

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


def progression(first: int, count: int, step: int) -> "array[int]":
    """`count` numbers from the first on, each `step` more than the one before. Positions and locations
    are below 2**63, and so are those that a block has beyond them. So one multiplication makes a whole
    block: no place overflows into the next.
    """
    if count < _BLOCK_COUNT_MIN:
        return array("Q", range(first, first + count * step, step))
    found: array[int] = array("Q")
    while count > 0:
        # All of a block are made, since cutting off costs less than making fewer.
        numbers = (first * _ONES + step * _INDICES).to_bytes(_BLOCK_BYTES, "little")
        if count < _BLOCK_COUNT:
            numbers = numbers[: count * _NUMBER_BYTES]
        found.frombytes(numbers)
        first += _BLOCK_COUNT * step
        count -= _BLOCK_COUNT
    if sys.byteorder == "big":
        found.byteswap()
    return found


def ranges_of(positions: "array[int]") -> Ranges:
    """Growing positions as ranges. A long stretch costs a few steps, not one for each position."""
    found: Ranges = []
    begin = 0
    total = len(positions)
    while begin < total:
        first: int = positions[begin]
        # Behind a gap each position is farther from the first than its place is. The step doubles
        # until it is behind a gap, so that many short stretches cost little each, too.
        step = 1
        low = begin + 1
        while begin + step < total and positions[begin + step] - first == step:
            low = begin + step + 1
            step *= 2
        high = min(begin + step, total)
        while low < high:
            middle = (low + high) // 2
            if positions[middle] - first == middle - begin:
                low = middle + 1
            else:
                high = middle
        found.append((first, low - begin))
        begin = low
    return found
