"""How much of each journal segment is still needed."""

from typing import Final

# What a message weighs beside its body: approximately a record's other parts.
RECORD_WEIGHT: Final = 100


class SegmentLife:
    """Of one segment."""

    def __init__(self) -> None:
        # (queue, position) pairs of it that are still in their queues.
        self.live_count: int = 0
        # What all pairs weigh that were written into it, and those that live: about their octets,
        # as if each pair had a record of its own.
        self.total_weight: int = 0
        self.live_weight: int = 0
        # Whether it holds definitions, which a snapshot must repeat before it can go.
        self.has_definitions: bool = False

    def found(self, pair_count: int, body_bytes: int) -> None:
        """At a start: so many of its pairs are still in their queues."""
        self.live_count += pair_count
        self.live_weight += pair_count * RECORD_WEIGHT + body_bytes


class SegmentLives:
    """Held by the message store."""

    def __init__(self) -> None:
        self._lives: dict[int, SegmentLife] = {}

    def of(self, segment: int) -> SegmentLife:
        life = self._lives.get(segment)
        if life is None:
            life = SegmentLife()
            self._lives[segment] = life
        return life

    def wrote(self, segment: int, pair_count: int, body_bytes: int, has_definitions: bool) -> None:
        """`body_bytes` counts each body once per pair."""
        life = self.of(segment)
        weight = pair_count * RECORD_WEIGHT + body_bytes
        life.live_count += pair_count
        life.total_weight += weight
        life.live_weight += weight
        if has_definitions:
            life.has_definitions = True

    def dequeued(self, segment: int, pair_count: int, body_bytes: int) -> None:
        """So many pairs of this segment are not in their queues any more."""
        if pair_count:
            self._take(segment, pair_count, pair_count * RECORD_WEIGHT + body_bytes)

    def dequeued_unread(self, segment: int, count: int = 1) -> None:
        """Messages were dequeued that are not in memory: they are assumed to weigh as much as the
        others.
        """
        life = self.of(segment)
        self._take(segment, count, count * (life.live_weight // max(life.live_count, 1)))

    def _take(self, segment: int, pair_count: int, weight: int) -> None:
        life = self.of(segment)
        life.live_count -= pair_count
        assert life.live_count >= 0, "more was dequeued from a segment than was written into it"
        life.live_weight = max(life.live_weight - weight, 0) if life.live_count else 0

    def removed(self, segment: int) -> None:
        self._lives.pop(segment, None)
