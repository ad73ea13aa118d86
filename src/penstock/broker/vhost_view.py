"""A virtual host as routing and dead-lettering see it: names, and a count of changes."""

from mypy_extensions import mypyc_attr

from penstock.broker.exchanges.exchange import Exchange
from penstock.broker.queues.queue import Queue, QueueOwner
from penstock.broker.timers import Timers


@mypyc_attr(allow_interpreted_subclasses=True)
class VirtualHostView(QueueOwner):
    """What `resolve` and `dead_letter` read. `VirtualHost` is the one that changes it."""

    def __init__(self, name: str, timers: Timers) -> None:
        super().__init__(name, timers)
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, Queue] = {}
        # Goes up with every change that can alter a route; a cached route carries its own.
        self.generation: int = 0
        # Wall clock minus `now`, in milliseconds; the node keeps it true.
        self.wall_offset_ms: int = 0

    def wall(self, now: int) -> int:
        """Milliseconds since 1970, for timestamps that people and clients read."""
        return now + self.wall_offset_ms
