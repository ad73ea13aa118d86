"""A stream on disk: segments of messages, addressed by offset, written once per tick.

`add` only composes; `write` appends what was composed to the log and to the index, one append each.
Most messages repeat the one before them in all but the body, so what address and header make of an
entry is kept with its checksum, and a repeat costs one checksum over its body and twelve octets.

Invariants
- offsets count up without gaps from `first_offset` to `end_offset`; composed messages have the
  offsets after that, and are all in one segment;
- `durable_offset` never goes back, and messages before it survive a power loss;
- retention removes whole segments, oldest first, and never the last one.
"""

import zlib
from typing import Final

from penstock.formats.stream_index import (
    FIXED,
    STARTS_BATCH,
    UNSYNCED_MAX,
    VARIED,
)
from penstock.formats.stream_payload import FRAMING_SIZE, encode_opening
from penstock.storage.errors import Damaged
from penstock.storage.publisher_notes import entries_crc
from penstock.storage.stream_recovery import recover_segments
from penstock.storage.stream_segment import StoredEntry, StreamSegment
from penstock.world.disk import AppendFile, Disk

# A segment is what retention removes and what a bulk reader maps: large enough for few files,
# small enough that a bound on size or age is kept closely.
SEGMENT_BYTES_DEFAULT: Final = 64 * 1024 * 1024
# RabbitMQ's limit. With one batch more, positions still fit 32 bits.
SEGMENT_BYTES_MAX: Final = 3_000_000_000
# What is composed is written early beyond this, so that no tick collects without bound.
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
# Sealed segments whose files stay open for readers, per stream.
OPEN_SEGMENTS_MAX: Final = 4


class StreamLog:
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
        # At least one octet, so that every segment takes a batch.
        self.segment_bytes_max: int = max(segment_bytes_max, 1)
        self.first_offset: int = 0
        recovered = recover_segments(disk, folder, names, first_offset, safe_end)
        self.segments: list[StreamSegment] = recovered.segments
        self.durable_offset: int = recovered.durable_offset
        if not self.segments:
            self.durable_offset = max(recovered.next_offset, first_offset)
            self._begin_segment(self.durable_offset)
        self.first_offset = self.segments[0].first_offset
        self._active: StreamSegment = self.segments[-1]
        self.end_offset: int = self._active.end_offset()
        self.sealed_bytes: int = sum([segment.size() for segment in self.segments[:-1]])
        # It never decreases, whatever the wall clock does.
        self._timestamp: int = max([timestamp] + [s.last_timestamp for s in self.segments])

        # What was composed since the last write.
        self._payloads: list[bytes] = []
        self._entries: list[bytes] = []
        self._position: int = self._active.log_size
        self.composed_count: int = 0
        self._composed_timestamp: int = 0

        # Of the last message, for those that repeat it.
        self._address: bytes = b""
        self._openinger: bytes = b""
        self._body_size: int = -1
        self._flags: int = -1
        self._fixed: bytes = b""
        self._opening: bytes = b""
        self._opening_crc: int = 0
        self._fixed_timestamp: int = -1

        # Sealed segments that no flush was asked for yet, and those that one is at work on.
        # A killed process may have left several only in the page cache.
        self._unflushed: list[StreamSegment] = [
            segment for segment in self.segments[:-1] if segment.end_offset() > self.durable_offset
        ]
        self._closing: list[StreamSegment] = []

    def _begin_segment(self, first_offset: int) -> StreamSegment:
        segment = StreamSegment(self._disk, self._folder, first_offset)
        segment.create()
        self.segments.append(segment)
        return segment

    # Writing.

    def must_roll(self) -> bool:
        """Whether the next message begins a segment; asked, and `roll` called, before `add`."""
        return not self._entries and self._active.size() >= self.segment_bytes_max

    def roll(self) -> None:
        assert not self._entries, "what is composed belongs to the segment before"
        if self._active.count == 0:
            return
        self._unflushed.append(self._active)
        self.sealed_bytes += self._active.size()
        self._active = self._begin_segment(self.end_offset)
        self._position = self._active.log_size

    def add(self, address: bytes, header: bytes, body: bytes, flags: int, timestamp: int) -> int:
        """Compose one message; returns its offset. `address` holds exchange and routing key, each
        behind an octet with its length.
        """
        timestamp = max(timestamp, self._timestamp)
        self._timestamp = timestamp
        if not self._entries:
            flags |= STARTS_BATCH
            self._composed_timestamp = timestamp
        if (
            address is not self._address
            or header is not self._openinger
            or len(body) != self._body_size
            or flags != self._flags
            or timestamp != self._fixed_timestamp
        ):
            self._begin_repeats(address, header, len(body), flags, timestamp)
        offset = self.end_offset + self.composed_count
        unsynced = min(offset - self.durable_offset, UNSYNCED_MAX)
        self._entries.append(self._fixed)
        self._entries.append(
            VARIED.pack(self._position, zlib.crc32(body, self._opening_crc), unsynced)
        )
        self._payloads.append(self._opening)
        self._payloads.append(body)
        self._position += len(self._opening) + len(body)
        self.composed_count += 1
        return offset

    def add_repeats(
        self, address: bytes, header: bytes, payloads: bytes, count: int, flags: int, timestamp: int
    ) -> int:
        """Compose messages that repeat one another. `payloads` are their payloads for the log, one
        after the other; returns the offset of the first.
        """
        size = len(payloads) // count
        opening_size = FRAMING_SIZE - 2 + len(address) + len(header)
        offset = self.add(address, header, payloads[opening_size:size], flags, timestamp)
        if count == 1:
            return offset
        timestamp = self._timestamp
        if self._flags != flags or self._fixed_timestamp != timestamp:
            self._begin_repeats(address, header, size - opening_size, flags, timestamp)
        assert len(payloads) == size * count, "payloads of one size"
        fixed = self._fixed
        opening_crc = self._opening_crc
        entries = self._entries
        position = self._position
        unsynced = offset - self.durable_offset
        at = size
        for _ in range(count - 1):
            unsynced += 1
            crc = zlib.crc32(payloads[at + opening_size : at + size], opening_crc)
            entries.append(fixed)
            entries.append(VARIED.pack(position, crc, min(unsynced, UNSYNCED_MAX)))
            position += size
            at += size
        self._payloads.append(payloads[size:])
        self._position = position
        self.composed_count += count - 1
        return offset

    def _begin_repeats(
        self, address: bytes, header: bytes, body_size: int, flags: int, timestamp: int
    ) -> None:
        exchange_size = address[0]
        key_size = address[1 + exchange_size]
        assert len(address) == 2 + exchange_size + key_size, "two names with their lengths"
        self._fixed = FIXED.pack(timestamp, len(header), body_size, exchange_size, key_size, flags)
        self._opening = encode_opening(address, header, body_size)
        assert len(self._opening) == FRAMING_SIZE + exchange_size + key_size + len(header)
        self._opening_crc = zlib.crc32(self._opening, zlib.crc32(self._fixed))
        self._address = address
        self._openinger = header
        self._body_size = body_size
        self._flags = flags
        self._fixed_timestamp = timestamp

    def is_full_batch(self) -> bool:
        """Whether what is composed should be written now rather than at the end of the tick."""
        return self._position - self._active.log_size >= BATCH_BYTES_MAX

    def write(self) -> None:
        """Append what was composed. Not durable before a flush covers `dirty_files`."""
        if not self._entries:
            return
        self._active.append(
            b"".join(self._payloads),
            b"".join(self._entries),
            self._composed_timestamp,
            self._timestamp,
        )
        self._payloads = []
        self._entries = []
        self.end_offset += self.composed_count
        self.composed_count = 0

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
