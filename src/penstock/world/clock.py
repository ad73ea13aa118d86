"""The clock as a node sees it. Time is passed down as `now`, never read below the server."""

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Clock(ABC):
    """Read by the world that drives a node, once per event; the node only ever sees `now`."""

    @abstractmethod
    def now(self) -> int:
        """Monotonic milliseconds from an arbitrary start; what every `now` parameter carries."""

    @abstractmethod
    def wall(self) -> int:
        """Milliseconds since 1970, for timestamps that people and clients read."""
