"""What publishing needs of a virtual host: names, where delayed messages wait, a count of changes."""

from penstock.broker.definition_log import DefinitionLog
from penstock.broker.delays.delay_line import DelayLine
from penstock.broker.exchanges.exchange import Exchange
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.shared_services import QueueWatcher, SharedServices
from penstock.broker.timers import Timers


class RoutingTable:
    """Held by its virtual host, which changes it; routing, delays and dead letters read it."""

    def __init__(self, name: str, shared: SharedServices) -> None:
        # Of the virtual host.
        self.name: str = name
        self.shared: SharedServices = shared
        self.timers: Timers = shared.timers
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, MessageQueue] = {}
        # Goes up with every change that can alter a route; a cached route carries its own.
        self.generation: int = 0
        # What waits in delayed exchanges.
        self.delay_line: DelayLine = DelayLine()
        self.delay_line.journals_all = shared.is_replicated

    @property
    def definitions(self) -> DefinitionLog:
        """Where definitions that must outlive the process are recorded."""
        return self.shared.definitions

    @property
    def watcher(self) -> QueueWatcher | None:
        """Counts what is published where; None when nobody does."""
        return self.shared.watcher

    def changed(self) -> None:
        """Routes that were resolved before are no longer valid."""
        self.generation += 1

    def wall(self, now: int) -> int:
        """Milliseconds since 1970, for timestamps that people and clients read."""
        return self.shared.wall.at(now)
