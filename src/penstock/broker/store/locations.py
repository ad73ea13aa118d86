"""Questions about many locations or positions at once, answered without a step for each of them.

A purge asks them about a million: looked at one by one they would take a third of a second, during
which no client is served.
"""

import sys
from array import array
from typing import Final

from penstock.storage.segment import segment_of

# Where in the eight octets of a location its highest one and its higher half lie.
_HIGHEST: Final = 7 if sys.byteorder == "little" else 0
_HIGHER_HALF: Final = 1 if sys.byteorder == "little" else 0
_LOCATION_BYTES: Final = 8
_HALF_BYTES: Final = 4
# Compared with one value at once; only a block that holds several is looked at one by one.
BLOCK_COUNT: Final = 1024
# More stretches than this are not worth searching for: most of them would be short.
STRETCHES_MAX: Final = 1024


def may_be_spooled(locations: "array[int]") -> bool:
    """False when none of them has an octet where that of the spool would be set."""
    highest = locations.tobytes()[_HIGHEST::_LOCATION_BYTES]
    return highest.count(0) != len(highest)


def counts_by_segment(locations: "array[int]") -> dict[int, int]:
    """How many of them lie in which segment."""
    halves = memoryview(locations).cast("B").cast("I")[_HIGHER_HALF::2]
    counts: dict[int, int] = {}
    for begin in range(0, len(locations), BLOCK_COUNT):
        end = min(begin + BLOCK_COUNT, len(locations))
        block = halves[begin:end].tobytes()
        if block == block[:_HALF_BYTES] * (end - begin):
            segment = segment_of(locations[begin])
            counts[segment] = counts.get(segment, 0) + end - begin
            continue
        for place in range(begin, end):
            segment = segment_of(locations[place])
            counts[segment] = counts.get(segment, 0) + 1
    return counts


def stretches(positions: "array[int]") -> list[tuple[int, int]] | None:
    """First position and number of those that follow one another without a gap. They grow. None
    when these are too many.
    """
    found: list[tuple[int, int]] = []
    begin = 0
    while begin < len(positions):
        if len(found) == STRETCHES_MAX:
            return None
        first: int = positions[begin]
        # Behind a gap each position is farther from the first than its place is.
        low = begin + 1
        high = len(positions)
        while low < high:
            middle = (low + high) // 2
            position: int = positions[middle]
            if position - first == middle - begin:
                low = middle + 1
            else:
                high = middle
        found.append((first, low - begin))
        begin = low
    return found
