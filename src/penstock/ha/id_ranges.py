"""Sets of replication ids as ranges.

*Invariant*: ranges are disjoint, not adjacent, not empty and ascending.
"""

from array import array
from bisect import bisect_left, bisect_right


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

    def contains_range(self, first: int, count: int) -> bool:
        at = bisect_right(self.firsts, first) - 1
        return at >= 0 and first + count <= self.ends[at]

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
