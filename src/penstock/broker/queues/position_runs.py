"""Growing positions as runs. The positions of a queue follow one another but for a few gaps, so those of
ten million messages are mostly one run or a few, 16 octets each, instead of a number for each message.

Whoever holds the runs has one place for each position, in the same order: 0, 1, 2 ...

Invariants
- positions grow, and so do places; a run ends where the next one begins, the last one at `count`;
- two runs do not touch: they would be one.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

NOTHING: Final = -1
Ranges = list[tuple[int, int]]  # first position and how many follow it, itself included

# Numbers of a progression that are made at once; as many as a run of records has at most.
_BLOCK_COUNT: Final = 256
_NUMBER_BITS: Final = 64
_NUMBER_BYTES: Final = 8
_BLOCK_BYTES: Final = _BLOCK_COUNT * _NUMBER_BYTES
# Fewer numbers cost less one by one.
_BLOCK_COUNT_MIN: Final = 48
# Two numbers with a place of 64 bits for each of a block: in every place 1, and in each place its index.
_ONES: Final = sum([1 << place * _NUMBER_BITS for place in range(_BLOCK_COUNT)])
_INDICES: Final = sum([place << place * _NUMBER_BITS for place in range(_BLOCK_COUNT)])
# Positions are made in parts, since each part is there twice for a moment.
_PART_COUNT: Final = 1 << 16


class PositionRuns:
    """Held by the list of a queue of a backup."""

    def __init__(self) -> None:
        # Of positions.
        self.count: int = 0
        # The position that would continue the last run; NOTHING without one.
        self._following: int = NOTHING
        self._firsts: array[int] = array("Q")
        # Where each run begins, counted with all that were ever cut off at the front: so nothing is
        # changed in those that stay.
        self._begins: array[int] = array("Q")
        self._cut: int = 0
        # The run that was looked at last, since the next question is mostly about it, too: its first
        # position, the one behind it, and its place. The last run may have grown since.
        self._near_first: int = 0
        self._near_end: int = NOTHING
        self._near_place: int = 0

    # Changes.

    def append(self, first: int, count: int) -> None:
        """Positions from the first on, behind all others."""
        if first != self._following:
            self._firsts.append(first)
            self._begins.append(self._cut + self.count)
        self._following = first + count
        self.count += count

    def extend(self, other: "PositionRuns") -> None:
        """All positions of another one, behind the own ones."""
        for run in range(other.run_count()):
            self.append(other.first_of(run), other.end_of(run) - other.first_of(run))

    def clear(self) -> None:
        self.count = 0
        self._following = NOTHING
        self._firsts = array("Q")
        self._begins = array("Q")
        self._cut = 0
        self._forget_near()

    def cut_front(self, count: int) -> None:
        """Drop so many."""
        if count >= self.count:
            self.clear()
            return
        first = self.position_at(count)
        self._cut += count
        self.count -= count
        run = bisect_right(self._begins, self._cut) - 1
        del self._firsts[:run]
        del self._begins[:run]
        self._firsts[0] = first
        self._begins[0] = self._cut
        self._forget_near()

    def cut_tail(self, place: int) -> None:
        """Drop everything from a place on."""
        if place >= self.count:
            return
        if place == 0:
            self.clear()
            return
        self._following = self.position_at(place - 1) + 1
        run = bisect_left(self._begins, self._cut + place)
        del self._firsts[run:]
        del self._begins[run:]
        self.count = place
        self._forget_near()

    def _forget_near(self) -> None:
        self._near_first = 0
        self._near_end = NOTHING

    # Questions.

    def run_count(self) -> int:
        return len(self._firsts)

    def first_of(self, run: int) -> int:
        """The first position of a run."""
        found: int = self._firsts[run]
        return found

    def end_of(self, run: int) -> int:
        """The position behind a run."""
        if run == len(self._firsts) - 1:
            return self._following
        begin: int = self._begins[run]
        end: int = self._begins[run + 1]
        first: int = self._firsts[run]
        return first + end - begin

    def last(self) -> int:
        """The last position; there is one."""
        return self._following - 1

    def _look_at(self, run: int) -> None:
        self._near_first = self.first_of(run)
        self._near_end = self.end_of(run)
        begin: int = self._begins[run]
        self._near_place = begin - self._cut

    def place_of(self, position: int) -> int:
        """The first place whose position is not lower; `count` if all are."""
        if not self._near_first <= position <= self._near_end:
            run = bisect_right(self._firsts, position) - 1
            if run < 0:
                return 0
            self._look_at(run)
        return self._near_place + min(position, self._near_end) - self._near_first

    def find(self, position: int) -> int:
        """The place of a position; NOTHING if it is not here."""
        if not self._near_first <= position < self._near_end:
            run = bisect_right(self._firsts, position) - 1
            if run < 0:
                return NOTHING
            self._look_at(run)
            if position >= self._near_end:
                return NOTHING
        return self._near_place + position - self._near_first

    def position_at(self, place: int) -> int:
        """Of a place that is here."""
        length = self._near_end - self._near_first
        if not self._near_place <= place < self._near_place + length:
            self._look_at(bisect_right(self._begins, self._cut + place) - 1)
        return self._near_first + place - self._near_place

    def copy_into(self, other: "PositionRuns", place: int, end: int) -> None:
        """Append the positions between two places to another one."""
        while place < end:
            first = self.position_at(place)
            count = min(self._near_end - first, end - place)
            other.append(first, count)
            place += count

    def ranges(self, place: int) -> Ranges:
        """Of everything from a place on."""
        # The last run may have grown since it was looked at, and is one range.
        self._forget_near()
        found: Ranges = []
        while place < self.count:
            first = self.position_at(place)
            found.append((first, self._near_end - first))
            place += self._near_end - first
        return found

    def positions(self) -> "array[int]":
        """One number for each."""
        found: array[int] = array("Q")
        for first, count in self.ranges(0):
            for begin in range(0, count, _PART_COUNT):
                found.extend(progression(first + begin, min(_PART_COUNT, count - begin), 1))
        return found


def runs_of(positions: "array[int]") -> PositionRuns:
    """Of positions that grow. A long run costs a few steps, not one for each position."""
    found = PositionRuns()
    begin = 0
    total = len(positions)
    while begin < total:
        first: int = positions[begin]
        # Behind a gap each position is farther from the first than its place is. The step doubles
        # until it is behind a gap, so that many short runs cost little each, too.
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
        found.append(first, low - begin)
        begin = low
    return found


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
