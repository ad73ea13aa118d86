"""What the wall clock shows when `now` is zero, for times that outlive the process."""


class WallClock:
    """Held by the broker's state, kept true by the node, read by whoever writes or reads times."""

    def __init__(self) -> None:
        self.offset_ms: int = 0
