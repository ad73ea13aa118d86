"""What left one queue in a tick, as ranges of positions.

A queue that gives out its oldest messages loses a few long ranges. Where consumers share it, or take what
has the highest priority, positions come apart: nearly every message is a range of its own, and yet most of
these lie beside one another, only in another order. So they are sorted and joined. Whoever reads the
ranges does so in any order, and each costs a backup more than a message of a long one.
"""

from typing import Final

from penstock.broker.store import records

# Ranges of up to so many positions are taken apart and sorted; longer ones stay as they are.
SHORT_MAX: Final = 8


class DequeuedRanges:
    """Held by what was dequeued, one for each queue."""

    def __init__(self, position: int) -> None:
        """`position` is any one that leaves the queue."""
        # Positions are sorted as distances from this one, because small numbers are compared faster.
        self._near: int = position
        self._distances: list[int] = []
        self._encoded: list[bytes] = []
        # Octets of the bodies of all.
        self.body_bytes: int = 0

    def add(self, first: int, count: int, body_bytes: int) -> None:
        self.body_bytes += body_bytes
        if count > SHORT_MAX:
            self._encoded.append(records.encode_range(first, count))
            return
        distance = first - self._near
        end = distance + count
        while distance < end:
            self._distances.append(distance)
            distance += 1

    def add_positions(self, positions: list[int], body_bytes: int) -> None:
        self.body_bytes += body_bytes
        near = self._near
        self._distances.extend([position - near for position in positions])

    def encoded(self) -> list[bytes]:
        """Called once."""
        distances = self._distances
        if not distances:
            return self._encoded
        distances.sort()
        first = distances[0]
        following = first
        for distance in distances:
            if distance != following:
                self._encode(first, following)
                first = distance
            following = distance + 1
        self._encode(first, following)
        return self._encoded

    def _encode(self, first: int, end: int) -> None:
        self._encoded.append(records.encode_range(self._near + first, end - first))
