"""How much of each journal segment is still needed."""

from typing import Final

# What a message weighs beside its body: approximately a record's other parts.
RECORD_WEIGHT: Final = 100


class SegmentLife:
    """Of one segment."""

    def __init__(self) -> None:
        # (queue, position) pairs of it that are still in their queues.
        self.live_count: int = 0
        # How many of them are appends to streams: these wait for a flush of the stream's files and
        # are never copied.
        self.block_count: int = 0
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

    def found_block(self, octets: int) -> None:
        """At a start: the files of a stream do not have one of its appends."""
        self.found(1, octets)
        self.block_count += 1

    def may_be_copied(self) -> bool:
        """Whether anything lives that copying would save."""
        return self.live_count > self.block_count


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

    def wrote_blocks(self, segment: int, count: int, octets: int, has_definitions: bool) -> None:
        """Appends to streams."""
        self.wrote(segment, count, octets, has_definitions)
        self.of(segment).block_count += count

    def released_block(self, segment: int, octets: int) -> None:
        """The files of the stream have it, or it is void."""
        self.dequeued(segment, 1, octets)
        self.of(segment).block_count -= 1

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
