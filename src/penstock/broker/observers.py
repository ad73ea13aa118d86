"""The four moments of a message in a queue, for whoever must see them (seeds 001 and 003).

Replication's guards and subscriptions, storage and ledgers attach here; the queue knows none of
them. An unused hook costs one test of an empty list.
"""

from array import array

from mypy_extensions import mypyc_attr

from penstock.broker.entry import QueueEntry


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueObserver:
    """Sees one queue. Must not change it from inside a call."""

    def enqueued(self, entry: QueueEntry) -> None:
        """Accepted by the queue, not yet delivered."""

    def delivered(self, entry: QueueEntry) -> None:
        """Given to a consumer that will acknowledge it."""

    def acknowledged(self, entry: QueueEntry) -> None:
        """Settled by its consumer; `dequeued` follows."""

    def dequeued(self, entry: QueueEntry) -> None:
        """Gone from the queue: acknowledged, dropped, expired, purged or dead-lettered."""

    def requeued(self, entry: QueueEntry) -> None:
        """Its consumer gave it back, or is gone."""

    # The same for many at once; observers that can handle batches faster override these.

    def delivered_many(self, entries: list[QueueEntry]) -> None:
        for entry in entries:
            self.delivered(entry)

    def acknowledged_many(self, entries: list[QueueEntry]) -> None:
        for entry in entries:
            self.acknowledged(entry)
            self.dequeued(entry)

    def leased_many(self, entries: list[QueueEntry]) -> None:
        """Moved out of the queue into a lease; for most observers the same as acknowledged."""
        self.acknowledged_many(entries)

    def taken_many(self, entries: list[QueueEntry]) -> None:
        """Given to a consumer that does not acknowledge, and gone."""
        for entry in entries:
            self.dequeued(entry)

    def purged(self, positions: "array[int]") -> None:
        """Messages that were not in memory are gone."""

    def deleted(self) -> None:
        """The queue is deleted; whatever it held was dropped before."""

    def dropped(self, entry: QueueEntry, reason: str) -> None:
        """Dequeued without a settlement: why it died, or that it was purged."""
        self.dequeued(entry)
