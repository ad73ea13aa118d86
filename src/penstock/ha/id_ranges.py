"""Sets of replication ids as ranges, in memory and on the wire.

    sets:  queue count(4) | queue*
    queue: number(8) | range count(4) | (first(8) | count(4))*

*Invariants*: ranges are disjoint, not adjacent, not empty and ascending, and so are queue numbers.
On the wire adjacent ranges are allowed, because a range may have more ids than its count can say,
and a queue may continue in the next message.
"""

from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final

from penstock.formats.octets import read_u32, read_u64
from penstock.formats.peer_limits import BadPeerMessage

# Ids have 62 bits.
ID_MAX: Final = (1 << 62) - 1
# The count of a range has four octets on the wire.
RANGE_COUNT_MAX: Final = 0xFFFF_FFFF

_U32: Final = Struct(">I")
_QUEUE: Final = Struct(">QI")
_RANGE: Final = Struct(">QI")
_QUEUE_SIZE: Final = 12
_RANGE_SIZE: Final = 12


class IdRanges:
    """Ids of one queue. 16 bytes per range."""

    __slots__ = ("ends", "firsts")

    def __init__(self) -> None:
        # A range is [first, end).
        self.firsts: array[int] = array("q")
        self.ends: array[int] = array("q")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IdRanges):
            return False
        return self.firsts == other.firsts and self.ends == other.ends

    def __hash__(self) -> int:
        raise TypeError("ranges change, so they have no hash")

    def __repr__(self) -> str:
        return f"IdRanges({self.ranges()})"

    def count(self) -> int:
        """Of ids."""
        return sum(self.ends) - sum(self.firsts)

    def is_empty(self) -> bool:
        return not self.firsts

    def first(self) -> int:
        """The lowest id; 0 if there is none."""
        return self.firsts[0] if self.firsts else 0

    def ranges(self) -> list[tuple[int, int]]:
        """First id and count of each."""
        return [(first, end - first) for first, end in zip(self.firsts, self.ends, strict=True)]

    def copy(self) -> "IdRanges":
        made = IdRanges()
        made.firsts = self.firsts[:]
        made.ends = self.ends[:]
        return made

    def contains(self, number: int) -> bool:
        at = bisect_right(self.firsts, number) - 1
        return at >= 0 and number < self.ends[at]

    def add_range(self, first: int, count: int) -> None:
        assert count > 0, "a range has ids"
        end = first + count
        firsts = self.firsts
        ends = self.ends
        # The usual case: ids are added in ascending order.
        if not ends or first > ends[-1]:
            firsts.append(first)
            ends.append(end)
            return
        if first == ends[-1]:
            ends[-1] = end
            return
        # Those that it touches become one with it.
        low = bisect_left(ends, first)
        high = bisect_right(firsts, end)
        if low < high:
            first = min(first, firsts[low])
            end = max(end, ends[high - 1])
        firsts[low:high] = array("q", (first,))
        ends[low:high] = array("q", (end,))

    def remove_range(self, first: int, count: int) -> None:
        end = first + count
        firsts = self.firsts
        ends = self.ends
        low = bisect_right(ends, first)
        high = bisect_left(firsts, end)
        if low >= high:
            return
        left = array("q")
        right = array("q")
        if firsts[low] < first:
            left.append(firsts[low])
            right.append(first)
        if ends[high - 1] > end:
            left.append(end)
            right.append(ends[high - 1])
        firsts[low:high] = left
        ends[low:high] = right

    def remove_below(self, end: int) -> None:
        first = self.first()
        if first and first < end:
            self.remove_range(first, end - first)

    def union(self, other: "IdRanges") -> "IdRanges":
        made = IdRanges()
        mine, theirs = 0, 0
        while mine < len(self.firsts) or theirs < len(other.firsts):
            if theirs == len(other.firsts) or (
                mine < len(self.firsts) and self.firsts[mine] <= other.firsts[theirs]
            ):
                made._append_touching(self.firsts[mine], self.ends[mine])
                mine += 1
            else:
                made._append_touching(other.firsts[theirs], other.ends[theirs])
                theirs += 1
        return made

    def minus(self, other: "IdRanges") -> "IdRanges":
        made = IdRanges()
        at = 0
        others = len(other.firsts)
        for mine in range(len(self.firsts)):
            first = self.firsts[mine]
            end = self.ends[mine]
            while at < others and other.ends[at] <= first:
                at += 1
            # The other's last range may reach into our next one, so `at` stays there.
            look = at
            while look < others and other.firsts[look] < end:
                if other.firsts[look] > first:
                    made.add_range(first, other.firsts[look] - first)
                first = other.ends[look]
                look += 1
            if first < end:
                made.add_range(first, end - first)
        return made

    def _append_touching(self, first: int, end: int) -> None:
        """A range that begins at or behind the last one's beginning."""
        if self.ends and first <= self.ends[-1]:
            self.ends[-1] = max(self.ends[-1], end)
        else:
            self.firsts.append(first)
            self.ends.append(end)


# By queue number.
IdSets = dict[int, IdRanges]


def ranges_of(pairs: list[tuple[int, int]]) -> IdRanges:
    """From pairs of first id and count."""
    made = IdRanges()
    for first, count in pairs:
        made.add_range(first, count)
    return made


def count_of_ids(sets: IdSets) -> int:
    total = 0
    for ids in sets.values():
        total += ids.count()
    return total


def add_ids(sets: IdSets, number: int, first: int, count: int) -> None:
    ids = sets.get(number)
    if ids is None:
        ids = IdRanges()
        sets[number] = ids
    ids.add_range(first, count)


def remove_ids(sets: IdSets, number: int, first: int, count: int) -> None:
    ids = sets.get(number)
    if ids is not None:
        ids.remove_range(first, count)
        if ids.is_empty():
            del sets[number]


def minus_sets(left: IdSets, right: IdSets) -> IdSets:
    """What only the left side has; queues without ids are left out."""
    made: IdSets = {}
    for number, ids in left.items():
        other = right.get(number)
        rest = ids.copy() if other is None else ids.minus(other)
        if not rest.is_empty():
            made[number] = rest
    return made


def union_sets(left: IdSets, right: IdSets) -> IdSets:
    made: IdSets = {}
    for number, ids in left.items():
        other = right.get(number)
        made[number] = ids.copy() if other is None else ids.union(other)
    for number, ids in right.items():
        if number not in left:
            made[number] = ids.copy()
    return made


def encode_in_parts(sets: IdSets, ranges_max: int) -> list[bytes]:
    """Each of at most so many ranges (0: without a limit); at least one part."""
    parts: list[bytes] = []
    fields: list[bytes] = []
    queues = 0
    room = ranges_max
    for number in sorted(sets):
        rows = _rows(sets[number])
        at = 0
        while at < len(rows):
            taken = len(rows) - at if ranges_max == 0 else min(room, len(rows) - at)
            queues += 1
            fields.append(_QUEUE.pack(number, taken))
            fields.extend(rows[at : at + taken])
            at += taken
            room -= taken
            if ranges_max and room == 0:
                parts.append(_U32.pack(queues) + b"".join(fields))
                fields = []
                queues = 0
                room = ranges_max
    if fields or not parts:
        parts.append(_U32.pack(queues) + b"".join(fields))
    return parts


def _rows(ids: IdRanges) -> list[bytes]:
    rows: list[bytes] = []
    for first, count in ids.ranges():
        left = count
        while left > RANGE_COUNT_MAX:
            rows.append(_RANGE.pack(first + count - left, RANGE_COUNT_MAX))
            left -= RANGE_COUNT_MAX
        rows.append(_RANGE.pack(first + count - left, left))
    return rows


class IdSetsReader:
    """Puts sets together that arrive in parts. A set that is unordered, overlaps itself or is too
    large is refused.
    """

    def __init__(self, ranges_max: int) -> None:
        self.sets: IdSets = {}
        self._ranges_left: int = ranges_max
        self._ranges_max: int = ranges_max
        self._number: int = 0
        self._end: int = 0

    def read(self, data: bytes, at: int) -> int:
        """One part; returns the position behind it."""
        if len(data) < at + 4:
            raise BadPeerMessage("a set of ids is cut short")
        queues = read_u32(data, at)
        at += 4
        for _ in range(queues):
            if len(data) < at + _QUEUE_SIZE:
                raise BadPeerMessage("a set of ids is cut short")
            number = read_u64(data, at)
            count = read_u32(data, at + 8)
            at += _QUEUE_SIZE
            if len(data) < at + count * _RANGE_SIZE:
                raise BadPeerMessage(f"the ids of queue {number} are cut short")
            self._read_queue(number, count, data, at)
            at += count * _RANGE_SIZE
        return at

    def _read_queue(self, number: int, count: int, data: bytes, at: int) -> None:
        if number == 0 or number > ID_MAX:
            raise BadPeerMessage(f"{number} is not a valid queue number")
        if number < self._number:
            raise BadPeerMessage(
                f"queue {number} stands behind queue {self._number} in a set of ids"
            )
        if number > self._number:
            self._number = number
            self._end = 0
        if count == 0:
            raise BadPeerMessage(f"queue {number} has no ranges in a set of ids")
        self._ranges_left -= count
        if self._ranges_left < 0:
            raise BadPeerMessage(f"a set of ids has more than {self._ranges_max} ranges")
        ids = self.sets.get(number)
        if ids is None:
            ids = IdRanges()
            self.sets[number] = ids
        for _ in range(count):
            first = read_u64(data, at)
            size = read_u32(data, at + 8)
            at += _RANGE_SIZE
            if first == 0 or size == 0 or first + size - 1 > ID_MAX:
                raise BadPeerMessage(f"{size} ids from {first} on are not a valid range")
            if first < self._end:
                raise BadPeerMessage(
                    f"the ids of queue {number} are not in order: {first} after {self._end - 1}"
                )
            self._end = first + size
            ids.add_range(first, size)
