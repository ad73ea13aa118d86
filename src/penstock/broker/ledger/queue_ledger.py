"""What a ledger knows of one queue within a tick: runs of positions, one per event.

Messages come and go in runs, so most calls add to a number. A run ends with the tick, when another
event of the queue needs the order kept, where its positions do not follow one another, and where
another publisher begins.
"""

from array import array
from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Publisher
from penstock.broker.observers import QueueObserver
from penstock.formats import ledger_records as records

# Sequences that one run lists, so that a reader of a part of a file need not look far behind it.
SEQUENCES_MAX: Final = records.SEQUENCE_RECORDS_MAX * records.SEQUENCES_PER_RECORD
# How far a sequence may be ahead of the first of its run; one that was delayed may be behind it.
AHEAD_MAX: Final = 0xFFFF
# Publishers have 16 bits in a record, and 0 is nobody.
PUBLISHERS_MAX: Final = 65_535
_LOW_BITS: Final = 32
# Stands for no sequence: none is so far behind its position.
NOWHERE: Final = -(1 << 60)
# Event and detail in one number, as a record stores them.
ENQUEUED_PERSISTENT: Final = records.ENQUEUED | records.IS_PERSISTENT << 8


class LedgerPages:
    """Where records go; the ledger."""

    def __init__(self) -> None:
        # Queues with an open run in this tick.
        self.open: list[QueueLedger] = []
        # Records of this tick as words, and what stands before them.
        self.words: list[int] = []
        self._pieces: list[bytes] = []
        # Wall clock of the tick.
        self.time: int = 0
        # Number of the present file, and how many publishers have a name in it.
        self.file: int = 0
        self.publisher_count: int = 0
        # Publishers that were ever named since the start.
        self._serial: int = 0

    def has_work(self) -> bool:
        return bool(self.open or self.words or self._pieces)

    def add_name(self, octets: bytes) -> None:
        self._pieces.append(records.packed(self.words))
        self.words.clear()
        self._pieces.append(octets)

    def take(self) -> bytes:
        """All octets that are to be written."""
        octets = records.packed(self.words)
        self.words.clear()
        if self._pieces:
            self._pieces.append(octets)
            octets = b"".join(self._pieces)
            self._pieces.clear()
        return octets

    def publisher_number(self, publisher: Publisher, sequence: int) -> int:
        """In the present file, named if need be; 0 for one without a name."""
        high = sequence >> _LOW_BITS
        page = (self.file << _LOW_BITS) + high
        if publisher.ledger_page == page:
            return publisher.ledger_number
        identity = publisher.identity()
        if not identity or self.publisher_count >= PUBLISHERS_MAX:
            return 0
        if publisher.ledger_serial == 0:
            self._serial += 1
            publisher.ledger_serial = self._serial
        self.publisher_count += 1
        publisher.ledger_number = self.publisher_count
        publisher.ledger_page = page
        text = f"{identity}\0{publisher.ledger_serial}".encode(errors="surrogateescape")
        self.add_name(
            records.name_record(self.time, self.publisher_count, text, records.IS_PUBLISHER, high)
        )
        return self.publisher_count


class QueueLedger(QueueObserver):
    """Held by its queue among its observers, and by the ledger."""

    def __init__(self, pages: LedgerPages, name: int) -> None:
        self._pages: LedgerPages = pages
        # Its number in the present file.
        self.name: int = name
        # Event and detail of the present run.
        self._what: int = 0
        self._first: int = 0
        # Where the run would go on; -1 while there is none.
        self._next: int = -1
        self._is_listed: bool = False
        # Of a run that was enqueued: who published it, the first sequence, and how far sequences
        # are ahead of positions; or how far each is ahead of the first, once they do not follow one
        # another.
        self._publisher: Publisher | None = None
        self._sequence: int = 0
        self._ahead: int = 0
        self._listed: list[int] | None = None

    def enqueued(self, entry: QueueEntry) -> None:
        position = entry.position
        message = entry.message
        publisher = message.publisher
        what = ENQUEUED_PERSISTENT if message.properties.persistent else records.ENQUEUED
        if position == self._next and publisher is self._publisher and what == self._what:
            if publisher is None or message.sequence - position == self._ahead:
                self._next = position + 1
                return
            if self._list_sequence(position, message.sequence):
                self._next = position + 1
                return
        self._begin(what, position, 1)
        self._publisher = publisher
        self._sequence = message.sequence
        self._ahead = message.sequence - position

    def delivered(self, entry: QueueEntry) -> None:
        self._add(records.DELIVERED, entry.position, 1)

    def acknowledged(self, entry: QueueEntry) -> None:
        self._add(records.ACKNOWLEDGED, entry.position, 1)

    def delivered_many(self, entries: list[QueueEntry]) -> None:
        self._add_all(records.DELIVERED, entries)

    def acknowledged_many(self, entries: list[QueueEntry]) -> None:
        self._add_all(records.ACKNOWLEDGED, entries)

    def leased_many(self, entries: list[QueueEntry]) -> None:
        self._add_all(records.LEASED, entries)

    def taken_many(self, entries: list[QueueEntry]) -> None:
        self._add_all(records.TAKEN, entries)

    def requeued(self, entry: QueueEntry) -> None:
        self._add(records.REQUEUED, entry.position, 1)

    def dropped(self, entry: QueueEntry, reason: str) -> None:
        self._add(_dropped(reason), entry.position, 1)

    def purged(self, positions: "array[int]") -> None:
        what = _dropped("purged")
        for index in range(len(positions)):
            self._add(what, positions[index], 1)

    def restored(self, positions: list[int]) -> None:
        """What it held when the broker started."""
        for position in positions:
            self._add(records.RESTORED, position, 1)

    def _list_sequence(self, position: int, sequence: int) -> bool:
        """Sequences do not follow one another. False when the run has listed enough of them."""
        ahead = sequence - self._sequence
        if not 0 < ahead <= AHEAD_MAX:
            return False
        listed = self._listed
        if listed is None:
            count = position - self._first
            if count >= SEQUENCES_MAX:
                return False
            listed = [0]
            for number in range(1, count):
                listed.append(number)
            self._listed = listed
            # From here on every message comes this way.
            self._ahead = NOWHERE
        elif len(listed) >= SEQUENCES_MAX:
            return False
        listed.append(ahead)
        return True

    def _add_all(self, what: int, entries: list[QueueEntry]) -> None:
        first = entries[0].position
        count = len(entries)
        if count == 1 or entries[count - 1].position - first == count - 1:
            # Positions only grow within a batch, so there is no gap.
            self._add(what, first, count)
            return
        for entry in entries:
            self._add(what, entry.position, 1)

    def _add(self, what: int, first: int, count: int) -> None:
        if first == self._next and what == self._what:
            self._next = first + count
        else:
            self._begin(what, first, count)

    def _begin(self, what: int, first: int, count: int) -> None:
        if self._next >= 0:
            self.close_run()
        if not self._is_listed:
            self._is_listed = True
            self._pages.open.append(self)
        self._what = what
        self._first = first
        self._next = first + count

    def close_run(self) -> None:
        if self._next < 0:
            return
        count = self._next - self._first
        self._next = -1
        if self._publisher is not None:
            self._close_published(self._publisher, count)
            return
        pages = self._pages
        what = self._what
        records.add_record(
            pages.words, pages.time, what & 0xFF, what >> 8, self.name, self._first, count
        )

    def _close_published(self, publisher: Publisher, count: int) -> None:
        pages = self._pages
        sequence = self._sequence
        number = pages.publisher_number(publisher, sequence)
        detail = self._what >> 8
        listed = self._listed
        if listed is not None:
            self._listed = None
            if number:
                detail |= records.HAS_SEQUENCES
        records.add_enqueued(
            pages.words, pages.time, detail, number, self.name, self._first, count, sequence
        )
        if listed is not None and number:
            records.add_sequences(pages.words, listed)
        # Queues must not keep a closed channel alive that has published to them; and what follows
        # is not a publish.
        self._publisher = None

    def end_of_tick(self) -> None:
        self.close_run()
        self._is_listed = False


def _dropped(reason: str) -> int:
    return records.DROPPED | records.REASONS.index(reason) << 8
