"""What was dequeued in this tick: ranges of positions for the journal, and segments that hold less."""

from array import array

from penstock.broker.entry import QueueEntry
from penstock.broker.store import records
from penstock.broker.store.dequeued_ranges import DequeuedRanges
from penstock.broker.store.enqueued_entries import NOT_WRITTEN
from penstock.broker.store.locations import stretches
from penstock.broker.store.prepared_records import StoredRecords
from penstock.broker.store.segments import SegmentLives
from penstock.storage.segment import segment_of


class DequeuedEntries:
    """Held by the message store; empty again after every tick."""

    def __init__(self) -> None:
        self._entries: list[QueueEntry] = []
        self._numbers: list[int] = []
        # By queue number: what is known by position or range.
        self._ranges: dict[int, DequeuedRanges] = {}
        # Segment, pairs and octets of bodies: of what `encode` has written, until it is counted.
        self._segments: list[tuple[int, int, int]] = []
        # Whether an entry was dequeued that is not written, so that prepared entries may be gone.
        self._has_unwritten: bool = False

    def is_empty(self) -> bool:
        return not (self._entries or self._ranges)

    def add(self, number: int, entry: QueueEntry) -> None:
        # Checked here and not when the tick is written: the caller at fault must get the exception.
        assert not entry.is_gone, "an entry is dequeued once"
        # One that was enqueued in this very tick need not be written at all, and one that is
        # written need not be copied.
        entry.is_gone = True
        # Nor is one that is not persistent.
        if entry.message.location == NOT_WRITTEN:
            self._has_unwritten = True
            return
        self._entries.append(entry)
        self._numbers.append(number)

    def add_many(self, number: int, entries: list[QueueEntry]) -> None:
        """As `add`, written out for every acknowledgement of a run."""
        known = self._entries
        numbers = self._numbers
        for entry in entries:
            assert not entry.is_gone, "an entry is dequeued once"
            entry.is_gone = True
            if entry.message.location == NOT_WRITTEN:
                self._has_unwritten = True
            else:
                known.append(entry)
                numbers.append(number)

    def add_positions(self, number: int, positions: list[int], body_bytes: int) -> None:
        self._of(number, positions[0]).add_positions(positions, body_bytes)

    def _of(self, number: int, position: int) -> DequeuedRanges:
        """Of a queue, for a position that left it."""
        ranges = self._ranges.get(number)
        if ranges is None:
            ranges = DequeuedRanges(position)
            self._ranges[number] = ranges
        return ranges

    def add_tail(self, number: int, positions: "array[int]", body_bytes: int) -> None:
        """Everything that a queue had paged out is gone, in order."""
        found = stretches(positions)
        if found is None:
            self.add_positions(number, positions.tolist(), body_bytes)
        elif found:
            ranges = self._of(number, positions[0])
            ranges.body_bytes += body_bytes
            for first, count in found:
                ranges.add(first, count, 0)

    def add_gone(self, prepared: list[StoredRecords]) -> None:
        """Of what was prepared, some may have been dequeued before it was written."""
        if self._has_unwritten:
            self._has_unwritten = False
            for stored in prepared:
                gone = stored.gone_positions()
                if gone:
                    # They may be few of many, so the records are written as they are.
                    self.add_positions(stored.number, gone, stored.gone_bytes())

    def encode(self, pieces: list[bytes]) -> int:
        """Append a record for each queue; returns their size."""
        # A queue's entries are dequeued one after the other mostly: such a run is one range. And
        # mostly all of them lie in one segment, or in two.
        number = 0
        ranges: DequeuedRanges | None = None
        first = 0
        following = -1
        body_bytes = 0
        segment = 0
        segment_start = 0
        segment_bytes = 0
        for index, entry in enumerate(self._entries):
            message = entry.message
            if segment_of(message.location) != segment:
                self._left(segment, index - segment_start, segment_bytes)
                segment = segment_of(message.location)
                segment_start = index
                segment_bytes = 0
            octets = len(message.body)
            segment_bytes += octets
            position = entry.position
            if position == following and self._numbers[index] == number:
                following += 1
                body_bytes += octets
                continue
            if ranges is not None:
                ranges.add(first, following - first, body_bytes)
            if self._numbers[index] != number:
                number = self._numbers[index]
                ranges = self._of(number, position)
            first = position
            following = position + 1
            body_bytes = octets
        self._left(segment, len(self._entries) - segment_start, segment_bytes)
        if ranges is not None:
            ranges.add(first, following - first, body_bytes)
        size = 0
        for number, left in self._ranges.items():
            size += records.append_dequeued(pieces, number, left.body_bytes, left.encoded())
        self._ranges = {}
        self._entries = []
        self._numbers = []
        return size

    def _left(self, segment: int, count: int, body_bytes: int) -> None:
        if count:
            self._segments.append((segment, count, body_bytes))

    def count_into(self, lives: SegmentLives) -> None:
        """Count off in the segments what was dequeued; called once the batch is written."""
        for segment, count, body_bytes in self._segments:
            lives.dequeued(segment, count, body_bytes)
        self._segments = []
