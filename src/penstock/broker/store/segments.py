"""How much of each journal segment is still needed."""


class SegmentLife:
    """Of one segment."""

    def __init__(self) -> None:
        # (queue, position) pairs that were written into it, and those still in their queues.
        self.total_count: int = 0
        self.live_count: int = 0
        # Whether it holds definitions, which a snapshot must repeat before it can go.
        self.has_definitions: bool = False


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

    def wrote(self, segment: int, pair_count: int, has_definitions: bool) -> None:
        life = self.of(segment)
        life.total_count += pair_count
        life.live_count += pair_count
        if has_definitions:
            life.has_definitions = True

    def left(self, segment: int) -> None:
        life = self.of(segment)
        life.live_count -= 1
        assert life.live_count >= 0, "more left a segment than was written into it"

    def moved(self, segment: int, pair_count: int) -> None:
        """Pairs of this segment were copied to another."""
        life = self.of(segment)
        life.live_count -= pair_count
        assert life.live_count >= 0, "more was copied out of a segment than lived in it"

    def removed(self, segment: int) -> None:
        self._lives.pop(segment, None)
