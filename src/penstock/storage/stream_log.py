"""A stream on disk: segments of messages, addressed by offset, written once per tick.

`add` only composes (`StreamComposer`); `write` appends what was composed to the log and to the index,
one append each. A replicated stream is composed elsewhere: `append` takes what the root of the cluster
has composed.

Invariants
- offsets count up without gaps from `first_offset` to `end_offset`; composed messages have the
  offsets after that, and are all in one segment;
- `durable_offset` never goes back, and messages before it survive a power loss;
- retention removes whole segments, oldest first, and never the last one.
"""

from typing import Final

from penstock.formats.entry_columns import with_unsynced
from penstock.formats.stream_index import ENTRY_SIZE, STARTS_BATCH, IndexEntry
from penstock.storage.errors import Damaged
from penstock.storage.publisher_notes import entries_crc
from penstock.storage.stream_composer import StreamComposer
from penstock.storage.stream_recovery import recover_segments
from penstock.storage.stream_segment import SegmentStretch, StoredEntry, StreamSegment
from penstock.world.disk import AppendFile, Disk

# A segment is what retention removes and what a bulk reader maps: large enough for few files,
# small enough that a bound on size or age is kept closely.
SEGMENT_BYTES_DEFAULT: Final = 64 * 1024 * 1024
# RabbitMQ's limit. With one batch more, positions still fit 32 bits.
SEGMENT_BYTES_MAX: Final = 3_000_000_000
# Sealed segments whose files stay open for readers, per stream.
OPEN_SEGMENTS_MAX: Final = 4


class StreamLog(StreamComposer):
    """Held by one stream."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        names: list[str],
        segment_bytes_max: int,
        timestamp: int,
        first_offset: int = 0,
        safe_end: int = 0,
    ) -> None:
        """`names` are the disk's files in the folder, `first_offset` is where an empty log begins,
        and all before `safe_end` was durable. Raises a `StorageError`.
        """
        self._disk: Disk = disk
        self._folder: str = folder
        recovered = recover_segments(disk, folder, names, first_offset, safe_end)
        self.segments: list[StreamSegment] = recovered.segments
        durable_offset = recovered.durable_offset
        if not self.segments:
            durable_offset = max(recovered.next_offset, first_offset)
            self._create_segment(durable_offset)
        self.first_offset: int = self.segments[0].first_offset
        self._active: StreamSegment = self.segments[-1]
        super().__init__(
            segment_bytes_max,
            self._active.first_offset,
            self._active.end_offset(),
            self._active.log_size,
            max([timestamp] + [s.last_timestamp for s in self.segments]),
        )
        self.durable_offset = durable_offset
        self.sealed_bytes: int = sum([segment.size() for segment in self.segments[:-1]])
        # Whether readers may see what is not durable here, because other servers have it too.
        self.is_committed: bool = False

        # Sealed segments that no flush was asked for yet, and those that one is at work on.
        # A killed process may have left several only in the page cache.
        self._unflushed: list[StreamSegment] = [
            segment for segment in self.segments[:-1] if segment.end_offset() > self.durable_offset
        ]
        self._closing: list[StreamSegment] = []

    def _create_segment(self, first_offset: int) -> StreamSegment:
        segment = StreamSegment(self._disk, self._folder, first_offset)
        segment.create()
        self.segments.append(segment)
        return segment

    # Writing.

    def roll(self) -> None:
        """Begin a segment, unless the last one is empty. Called before `add` if `must_roll`."""
        if self._active.count == 0:
            return
        self.begin_segment()
        self._unflushed.append(self._active)
        self.sealed_bytes += self._active.size()
        self._active = self._create_segment(self.end_offset)

    def write(self) -> None:
        """Append what was composed. Not durable before a flush covers `dirty_files`."""
        if not self.composed_count:
            return
        taken = self.take()
        self._active.append(
            b"".join(taken.payloads),
            b"".join(taken.entries),
            taken.first_timestamp,
            taken.last_timestamp,
        )

    def append(self, segment_first: int, entries: bytes, payloads: bytes) -> None:
        """Append messages that another server has composed, unchanged but for what is known to be
        durable here. They begin a segment if that server began one with them.
        """
        if segment_first != self._active.first_offset:
            assert segment_first == self.end_offset, "a segment begins with its first message"
            self.roll()
        assert IndexEntry(entries, 0).position == self._active.log_size, "what was before is here"
        count = len(entries) // ENTRY_SIZE
        first = IndexEntry(entries, 0).timestamp
        last = IndexEntry(entries, len(entries) - ENTRY_SIZE).timestamp
        unsynced = self.end_offset - self.durable_offset
        self._active.append(payloads, with_unsynced(entries, unsynced), first, last)
        self.end_offset += count
        self.log_size += len(payloads)
        self._position = self.log_size
        self._run_position = self.log_size
        self.last_timestamp = max(self.last_timestamp, last)

    def entries_crc(self, begin: int) -> int:
        """CRC32 of the index entries from an offset of the last segment on, as written."""
        return entries_crc(self._active, begin, self.end_offset)

    def dirty_files(self) -> list[AppendFile]:
        """The files that a flush must cover to make everything written so far durable."""
        files: list[AppendFile] = []
        for segment in self._unflushed:
            files.append(segment.log())
            files.append(segment.index())
        files.append(self._active.log())
        files.append(self._active.index())
        return files

    def flush_requested(self) -> None:
        """The flush of `dirty_files` was requested; none of them is closed before it is done."""
        self._closing.extend(self._unflushed)
        self._unflushed = []

    def became_durable(self, offset: int) -> None:
        """A flush that was requested when `end_offset` was `offset` is done."""
        self.durable_offset = max(self.durable_offset, offset)
        while self._closing and self._closing[0].end_offset() <= self.durable_offset:
            self._closing.pop(0).close()

    def readable_offset(self) -> int:
        """Readers may see the messages before it."""
        return self.end_offset if self.is_committed else self.durable_offset

    # Reading.

    def read(self, offset: int, count_max: int, bytes_max: int) -> list[StoredEntry]:
        """Messages from an offset on, out of one segment; at least one when there is one."""
        assert self.first_offset <= offset < self.end_offset, "an offset that is there"
        segment = self.segments[self._segment_of(offset)]
        self._keep_open(segment)
        found: list[StoredEntry] = []
        place = offset - segment.first_offset
        if not segment.read(place, count_max, bytes_max, found) and not found:
            raise Damaged(
                segment.log_name, segment.entry(place).position, f"message {offset} is damaged"
            )
        return found

    def stretch(self, offset: int, count_max: int, bytes_max: int) -> SegmentStretch:
        """Entries and payloads from an offset on as they are stored, checked, out of one segment; at
        least one message.
        """
        assert self.first_offset <= offset < self.end_offset, "an offset that is there"
        segment = self.segments[self._segment_of(offset)]
        self._keep_open(segment)
        return segment.stretch(offset - segment.first_offset, count_max, bytes_max)

    def _segment_of(self, offset: int) -> int:
        """Index of the segment that an offset belongs to."""
        low = 0
        high = len(self.segments) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.segments[middle].first_offset <= offset:
                low = middle
            else:
                high = middle - 1
        return low

    def _keep_open(self, segment: StreamSegment) -> None:
        if segment.is_open():
            return
        opened = [
            other
            for other in self.segments[:-1]
            if other.is_open() and other.end_offset() <= self.durable_offset
        ]
        if len(opened) >= OPEN_SEGMENTS_MAX:
            opened[0].close()

    def offset_at(self, timestamp: int) -> int:
        """Offset of the first message that is not older; `end_offset` when all are."""
        for segment in self.segments:
            if segment.count and segment.last_timestamp >= timestamp:
                self._keep_open(segment)
                return segment.first_offset + segment.place_at(timestamp)
        return self.end_offset

    def last_batch_offset(self) -> int:
        """Offset of the first message of the last append."""
        for segment in reversed(self.segments):
            for place in range(segment.count - 1, -1, -1):
                if segment.entry(place).flags & STARTS_BATCH:
                    return segment.first_offset + place
        return self.first_offset

    def size(self) -> int:
        return self.sealed_bytes + self._active.size()

    # Removing.

    def take_doomed(self, bytes_max: int, oldest_timestamp: int) -> list[StreamSegment]:
        """Give up the oldest segments while all of it is larger than `bytes_max`, or while their
        last message is older than `oldest_timestamp`; -1 is no bound. The caller removes them when
        its note of `first_offset` is durable: files that a power loss restores are then not taken
        for a gap.
        """
        doomed: list[StreamSegment] = []
        while len(self.segments) > 1:
            oldest = self.segments[0]
            is_too_much = 0 <= bytes_max < self.size()
            if not is_too_much and not 0 <= oldest.last_timestamp < oldest_timestamp:
                break
            if oldest.end_offset() > self.durable_offset:
                # A publisher still waits for a confirm of it; the next round takes it.
                break
            self.segments.pop(0)
            self.sealed_bytes -= oldest.size()
            self.first_offset = self.segments[0].first_offset
            doomed.append(oldest)
        return doomed

    def take_before(self, offset: int) -> list[StreamSegment]:
        """Give up the segments whose messages are all before an offset: another server has decided
        so. The caller removes them, or puts them back.
        """
        taken: list[StreamSegment] = []
        while len(self.segments) > 1 and self.segments[0].end_offset() <= offset:
            oldest = self.segments.pop(0)
            self.sealed_bytes -= oldest.size()
            self.first_offset = self.segments[0].first_offset
            taken.append(oldest)
        return taken

    def put_back(self, segment: StreamSegment) -> None:
        """One that was given up last."""
        assert segment.end_offset() == self.first_offset, "the one before the first"
        self.segments.insert(0, segment)
        self.sealed_bytes += segment.size()
        self.first_offset = segment.first_offset
