"""Random numbers that a seed fixes. Every part of a run has its own, so that one part's draws do
not change another's.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

Item = TypeVar("Item")
# Makes a stream of numbers in [0, 1) from a name; the same name gives the same stream.
SourceFactory = Callable[[str], Callable[[], float]]

# Octets are drawn six at a time: a float holds 53 random bits.
_DRAWN_OCTETS: Final = 6


class Dice:
    """Held by one part of the run; `fork` makes those of its parts."""

    def __init__(self, make_source: SourceFactory, name: str) -> None:
        self._make_source: SourceFactory = make_source
        self._name: str = name
        self._source: Callable[[], float] = make_source(name)

    def fork(self, name: str) -> "Dice":
        return Dice(self._make_source, f"{self._name}/{name}")

    def fraction(self) -> float:
        return self._source()

    def chance(self, probability: float) -> bool:
        return self._source() < probability

    def between(self, low: int, high: int) -> int:
        """Both ends included."""
        return low + int(self._source() * (high - low + 1))

    def choose(self, items: Sequence[Item]) -> Item:
        return items[int(self._source() * len(items))]

    def weighted(self, items: Sequence[tuple[Item, int]]) -> Item:
        """One of the items, as often as its weight says."""
        left = self.between(1, sum(weight for _, weight in items))
        for item, weight in items:
            left -= weight
            if left <= 0:
                return item
        raise AssertionError("the weights add up")

    def octets(self, count: int) -> bytes:
        drawn = b""
        while len(drawn) < count:
            drawn += int(self._source() * (1 << 8 * _DRAWN_OCTETS)).to_bytes(_DRAWN_OCTETS, "big")
        return drawn[:count]
