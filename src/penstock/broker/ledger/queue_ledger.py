"""What a ledger knows of one queue within a tick: runs of positions, one per event.

Messages come and go in runs, so most calls add to a number. A run ends with the tick, when another
event of the queue needs the order kept, or where its positions do not follow one another.
"""

from array import array

from penstock.broker.entry import QueueEntry
from penstock.broker.ledger import records
from penstock.broker.observers import QueueObserver


class LedgerPages:
    """Where records go; the ledger."""

    def __init__(self) -> None:
        # Queues with an open run in this tick.
        self.open: list[QueueLedger] = []
        self.pieces: list[bytes] = []
        # Wall clock of the tick.
        self.time: int = 0


class QueueLedger(QueueObserver):
    """Held by its queue among its observers, and by the ledger."""

    def __init__(self, pages: LedgerPages, name: int) -> None:
        self._pages: LedgerPages = pages
        # Its number in the present file.
        self.name: int = name
        self._event: int = 0
        self._detail: int = 0
        self._first: int = 0
        # Where the run would go on; -1 while there is none.
        self._next: int = -1
        self._is_listed: bool = False

    def enqueued(self, entry: QueueEntry) -> None:
        position = entry.position
        detail = 1 if entry.message.properties.persistent else 0
        if position == self._next and self._event == records.ENQUEUED and self._detail == detail:
            self._next = position + 1
        else:
            self._begin(records.ENQUEUED, detail, position, 1)

    def delivered(self, entry: QueueEntry) -> None:
        self._add(records.DELIVERED, 0, entry.position, 1)

    def acknowledged(self, entry: QueueEntry) -> None:
        self._add(records.ACKNOWLEDGED, 0, entry.position, 1)

    def delivered_many(self, entries: list[QueueEntry]) -> None:
        self._add_all(records.DELIVERED, 0, entries)

    def acknowledged_many(self, entries: list[QueueEntry]) -> None:
        self._add_all(records.ACKNOWLEDGED, 0, entries)

    def taken_many(self, entries: list[QueueEntry]) -> None:
        self._add_all(records.TAKEN, 0, entries)

    def requeued(self, entry: QueueEntry) -> None:
        self._add(records.REQUEUED, 0, entry.position, 1)

    def dropped(self, entry: QueueEntry, reason: str) -> None:
        self._add(records.DROPPED, records.REASONS.index(reason), entry.position, 1)

    def purged(self, positions: "array[int]") -> None:
        detail = records.REASONS.index("purged")
        for index in range(len(positions)):
            self._add(records.DROPPED, detail, positions[index], 1)

    def restored(self, positions: list[int]) -> None:
        """What it held when the broker started."""
        for position in positions:
            self._add(records.RESTORED, 0, position, 1)

    def _add_all(self, event: int, detail: int, entries: list[QueueEntry]) -> None:
        first = entries[0].position
        count = len(entries)
        if entries[count - 1].position - first == count - 1:
            # Positions only grow within a batch, so there is no gap.
            self._add(event, detail, first, count)
            return
        for entry in entries:
            self._add(event, detail, entry.position, 1)

    def _add(self, event: int, detail: int, first: int, count: int) -> None:
        if first == self._next and event == self._event and detail == self._detail:
            self._next = first + count
        else:
            self._begin(event, detail, first, count)

    def _begin(self, event: int, detail: int, first: int, count: int) -> None:
        if self._next >= 0:
            self.close_run()
        if not self._is_listed:
            self._is_listed = True
            self._pages.open.append(self)
        self._event = event
        self._detail = detail
        self._first = first
        self._next = first + count

    def close_run(self) -> None:
        if self._next >= 0:
            self._pages.pieces.append(
                records.record(
                    self._pages.time,
                    self._event,
                    self._detail,
                    self.name,
                    self._first,
                    self._next - self._first,
                )
            )
            self._next = -1

    def end_of_tick(self) -> None:
        self.close_run()
        self._is_listed = False
