"""Who takes messages from a queue. The dialects subclass it and encode what they take.

Seed 002: "Consumers are registered with the queue", "all consumers of a queue acquire messages
synchronously", "the consumer's code must not block".
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.entry import BROKER_ITSELF, QueueEntry

# Credit of a consumer without a prefetch limit: never reached by counting down.
UNLIMITED: Final = 1 << 60
# Of consumers that came without any; never changed.
NO_ARGUMENTS: Final[dict[str, object]] = {}


@mypyc_attr(allow_interpreted_subclasses=True)
class Consumer:
    """One subscription to one queue. Held by its queue and by the dialect's channel or link."""

    def __init__(self, tag: str, priority: int, exclusive: bool, takes_ownership: bool) -> None:
        self.tag: str = tag
        self.priority: int = priority
        self.exclusive: bool = exclusive
        # True for automatic acknowledgement: the queue forgets the message as it is taken.
        self.takes_ownership: bool = takes_ownership
        # True when it does not want every message; the queue then asks `wants` for each.
        self.selective: bool = False
        # The number that the queue notes as the holder of what it takes; set by the dialect.
        self.holder: int = BROKER_ITSELF
        # What its client asked for, for whoever looks at it.
        self.prefetch_count: int = 0
        self.arguments: dict[str, object] = NO_ARGUMENTS

    def can_take(self) -> bool:
        """Whether credit, and room in the peer's buffer, allow one more message now."""
        raise NotImplementedError

    def credit_count(self) -> int:
        """How many more it could take as far as credit goes; asked after `can_take` said yes."""
        return 1

    def wants(self, entry: QueueEntry) -> bool:
        """Whether a selective consumer wants this message (no-local, selectors)."""
        return True

    def take(self, entry: QueueEntry) -> None:
        """Deliver one message. Must not block and must not call back into the queue."""
        raise NotImplementedError

    def take_many(self, entries: list[QueueEntry]) -> None:
        """Deliver several, no more than `credit_count` said."""
        for entry in entries:
            self.take(entry)

    def cancelled(self) -> None:
        """The queue is gone; tell the client."""
        raise NotImplementedError

    def activated(self, active: bool) -> None:
        """Single active consumer: whether this one is now the active one."""
