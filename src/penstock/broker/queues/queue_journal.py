"""What a durable queue tells the store, and how it reads back what it does not keep in memory."""

from array import array

from mypy_extensions import mypyc_attr

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.ready_list import ReadyList


@mypyc_attr(allow_interpreted_subclasses=True)
class PreparedRecords:
    """Records of entries that will be enqueued together, made beforehand. Held by a prepared
    run.
    """

    def add(self, entries: list[QueueEntry]) -> None:
        raise NotImplementedError

    def arrived(self, are_moved: bool) -> None:
        """They were enqueued, and must survive from the end of this tick on. `are_moved` says that
        their positions have changed since they were added.
        """
        raise NotImplementedError

    def forget(self) -> None:
        """They are not enqueued."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueJournal:
    """The message store as one queue sees it."""

    def prepare(self) -> PreparedRecords:
        """For entries that do not expire."""
        raise NotImplementedError

    def enqueued(self, entry: QueueEntry) -> None:
        """A persistent message was accepted; it must survive from the end of this tick on."""
        raise NotImplementedError

    def dequeued(self, entry: QueueEntry) -> None:
        """A persistent message is gone from the queue."""
        raise NotImplementedError

    def dequeued_many(self, entries: list[QueueEntry]) -> None:
        raise NotImplementedError

    def dequeued_tail(
        self, positions: "array[int]", locations: "array[int]", body_bytes: int
    ) -> None:
        """Messages that were paged out are gone, persistent ones and others; `body_bytes` are the
        octets of all their bodies.
        """
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class JournalledMessages:
    """What the journal had of one queue when the broker started."""

    def __init__(self, highest_position: int, may_expire: bool) -> None:
        # Of all that the journal knows, also of messages that are gone.
        self.highest_position: int = highest_position
        self.may_expire: bool = may_expire

    def entries(self) -> list[QueueEntry]:
        """All of them, read into memory, in order."""
        raise NotImplementedError

    def fill(self, ready: ReadyList) -> int:
        """Put them into an empty list that can outgrow memory; returns the octets of the bodies."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class ReadyLists:
    """Makes the ready lists of a broker that has a disk."""

    def make(self, max_priority: int) -> ReadyList:
        raise NotImplementedError

    def gone(self, locations: "array[int]") -> None:
        """Messages that were paged out were purged with their queue."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class MessagePages:
    """Where messages go that a queue does not keep in memory."""

    def page_out(self, entries: list[QueueEntry]) -> list[int]:
        """Write those messages that are not on disk yet, and return the location of each."""
        raise NotImplementedError

    def page_in(self, positions: list[int], locations: list[int]) -> list[QueueEntry]:
        """Read messages back, as entries with these positions: the first of them, as many as are
        good to have in memory at once. They can be read again until they are forgotten.
        """
        raise NotImplementedError

    def forget(self, locations: list[int]) -> None:
        """Messages that were paged out are in memory, or gone."""
        raise NotImplementedError
