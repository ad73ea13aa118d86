"""The messages of one queue number while a journal is read back: where each is, and what left.

A journal may hold ten million messages, and a member's one SYNC-DONE per fail-over, each of which
selects anew what the queue has. So nothing here takes a step per message unless positions came out of
order; stretches of the arrays are cut out, one array after the other.
"""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from penstock.broker.store.locations import BLOCK_COUNT
from penstock.broker.store.segments import SegmentLives
from penstock.storage.segment import segment_of

_HIGHER_HALF: Final = 1 if sys.byteorder == "little" else 0

Slices = list[tuple[int, int]]  # places in the arrays, from and to


class RecoveredQueue:
    """What the journal says of one queue number. Held by the recovery."""

    def __init__(self) -> None:
        # Of messages, as the journal names them: one that was copied comes twice.
        self.positions: array[int] = array("Q")
        self.locations: array[int] = array("Q")
        # Of their bodies.
        self.sizes: array[int] = array("I")
        # Whether the positions grow.
        self._is_growing: bool = True
        # Ranges of positions that left, from and to, as the journal names them.
        self._gone: list[tuple[int, int]] = []
        self.highest_position: int = 0
        self.may_expire: bool = False

    def add(self, position: int, location: int, size: int) -> None:
        positions = self.positions
        if position > self.highest_position:
            self.highest_position = position
        elif len(positions) and position <= positions[len(positions) - 1]:
            self._is_growing = False
        positions.append(position)
        self.locations.append(location)
        self.sizes.append(size)

    def left(self, first: int, end: int) -> None:
        """Everything from the first position to before the end has left the queue."""
        gone = self._gone
        if gone and gone[len(gone) - 1][1] == first:
            gone[len(gone) - 1] = (gone[len(gone) - 1][0], end)
        else:
            gone.append((first, end))
        self.highest_position = max(self.highest_position, end - 1)

    def has_left(self) -> bool:
        return bool(self._gone)

    def settle(self) -> None:
        """What left is dropped and does not count any more; what remains is in order. Of two records
        of one position the later one counts.
        """
        if not self._is_growing:
            self._sort()
        if not self._gone:
            return
        kept: Slices = []
        begin = 0
        for first, end in sorted(self._gone):
            low = bisect_left(self.positions, first, begin)
            high = bisect_left(self.positions, end, low)
            if low < high:
                kept.append((begin, low))
                begin = high
        self._gone = []
        kept.append((begin, len(self.positions)))
        self._select(kept)

    def keep(self, ranges: list[tuple[int, int]]) -> None:
        """Drop what is not in these ranges of first position and count, which grow. It is settled."""
        kept: Slices = []
        begin = 0
        for first, count in ranges:
            low = bisect_left(self.positions, first, begin)
            begin = bisect_left(self.positions, first + count, low)
            kept.append((low, begin))
        self._select(kept)

    def take(self, other: "RecoveredQueue") -> None:
        """Everything that another one has, which is settled as this one is and left to this one."""
        if len(other.positions) and len(self.positions):
            if other.positions[0] <= self.positions[len(self.positions) - 1]:
                self._is_growing = False
            self.positions.extend(other.positions)
            self.locations.extend(other.locations)
            self.sizes.extend(other.sizes)
        elif len(other.positions):
            self.positions = other.positions
            self.locations = other.locations
            self.sizes = other.sizes
        self.highest_position = max(self.highest_position, other.highest_position)
        self.may_expire = self.may_expire or other.may_expire
        self.settle()

    def count_into(self, lives: SegmentLives) -> int:
        """Count what is there for its segments; returns the octets of all bodies."""
        locations = self.locations
        # Compared in blocks, because most of them are of one segment.
        halves = memoryview(locations).cast("B").cast("I")[_HIGHER_HALF::2]
        total = 0
        for begin in range(0, len(locations), BLOCK_COUNT):
            end = min(begin + BLOCK_COUNT, len(locations))
            block = halves[begin:end].tobytes()
            if block == block[:4] * (end - begin):
                octets = sum(self.sizes[begin:end])
                lives.of(segment_of(locations[begin])).found(end - begin, octets)
                total += octets
                continue
            for place in range(begin, end):
                size: int = self.sizes[place]
                lives.of(segment_of(locations[place])).found(1, size)
                total += size
        return total

    def _select(self, kept: Slices) -> None:
        """Keep these stretches, one array after the other so that only one of them is there twice."""
        if sum([end - begin for begin, end in kept]) == len(self.positions):
            return
        self.positions = _cut_out(self.positions, kept)
        self.locations = _cut_out(self.locations, kept)
        self.sizes = _cut_out(self.sizes, kept)

    def _sort(self) -> None:
        positions = self.positions
        kept_positions: array[int] = array("Q")
        kept_locations: array[int] = array("Q")
        kept_sizes: array[int] = array("I")
        indices: Iterable[int] = sorted(range(len(positions)), key=PositionKey(positions))
        last = -1
        for index in indices:
            position: int = positions[index]
            if position == last:
                # Copied by reclaiming: the later record counts.
                kept_locations[len(kept_locations) - 1] = self.locations[index]
                kept_sizes[len(kept_sizes) - 1] = self.sizes[index]
            else:
                kept_positions.append(position)
                kept_locations.append(self.locations[index])
                kept_sizes.append(self.sizes[index])
            last = position
        self.positions = kept_positions
        self.locations = kept_locations
        self.sizes = kept_sizes
        self._is_growing = True


def _cut_out(numbers: "array[int]", kept: Slices) -> "array[int]":
    found: array[int] = array(numbers.typecode)
    for begin, end in kept:
        found.extend(numbers[begin:end])
    return found


class PositionKey:
    """Sorts indices by position, and equal positions by order of writing."""

    def __init__(self, positions: "array[int]") -> None:
        self._positions: array[int] = positions

    def __call__(self, index: int) -> int:
        return self._positions[index]
