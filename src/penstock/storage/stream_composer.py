"""Composing the messages of a stream: entries of the index and payloads of the log, not written yet.

Most messages repeat the one before them in all but the body, so what address and header make of an
entry is kept with its checksum, and a repeat costs one checksum over its body. The entries of a run of
repeats are made together when it ends (`formats/entry_columns`).

Invariant: composed messages have the offsets from `end_offset` on, and are all in one segment.
"""

import zlib
from typing import Final

from penstock.formats.entry_columns import COLUMN_COUNT_MIN, repeated_entries
from penstock.formats.stream_index import (
    ENTRY_SIZE,
    FIXED,
    STARTS_BATCH,
    UNSYNCED_MAX,
    VARIED,
)
from penstock.formats.stream_payload import FRAMING_SIZE, encode_opening

# What is composed is written early beyond this, so that no tick collects without bound.
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024


class ComposedMessages:
    """What was composed for one append. Held until it is written."""

    def __init__(
        self,
        segment_first: int,
        first_offset: int,
        count: int,
        entries: list[bytes],
        payloads: list[bytes],
        first_timestamp: int,
        last_timestamp: int,
    ) -> None:
        # First offset of the segment that it belongs to.
        self.segment_first: int = segment_first
        self.first_offset: int = first_offset
        self.count: int = count
        # In pieces, in order.
        self.entries: list[bytes] = entries
        self.payloads: list[bytes] = payloads
        self.first_timestamp: int = first_timestamp
        self.last_timestamp: int = last_timestamp


class StreamComposer:
    """Held by a replicated stream; a `StreamLog` is one."""

    def __init__(
        self,
        segment_bytes_max: int,
        segment_first: int,
        end_offset: int,
        position: int,
        timestamp: int,
    ) -> None:
        """The last segment begins with `segment_first`, and its log has `position` octets."""
        # At least one octet, so that every segment takes a batch.
        self.segment_bytes_max: int = max(segment_bytes_max, 1)
        self.segment_first: int = segment_first
        self.end_offset: int = end_offset
        self.durable_offset: int = 0
        # It never decreases, whatever the wall clock does.
        self.last_timestamp: int = timestamp

        # What was composed since the last write: entries of the runs that have ended.
        self._payloads: list[bytes] = []
        self._entries: list[bytes] = []
        # Of the run that has not: the checksums, the place of the first payload, and its size.
        self._checksums: list[int] = []
        self._run_position: int = position
        self._run_size: int = 0
        self._position: int = position
        # Of the log without what was composed.
        self.log_size: int = position
        self.composed_count: int = 0
        self._composed_timestamp: int = 0

        # Of the last message, for those that repeat it.
        self._address: bytes = b""
        self._header: bytes = b""
        self._body_size: int = -1
        self._flags: int = -1
        self._fixed: bytes = b""
        self._opening: bytes = b""
        self._opening_crc: int = 0
        self._fixed_timestamp: int = -1

    def must_roll(self) -> bool:
        """Whether the next message begins a segment; asked before `add`."""
        if self.composed_count:
            return False
        entries = 1 + self.end_offset - self.segment_first
        return self.log_size + ENTRY_SIZE * entries >= self.segment_bytes_max

    def begin_segment(self) -> None:
        """What comes next is the first message of another segment."""
        assert not self.composed_count, "what is composed belongs to the segment before"
        self.segment_first = self.end_offset
        self._position = ENTRY_SIZE
        self._run_position = ENTRY_SIZE
        self.log_size = ENTRY_SIZE

    def add(self, address: bytes, header: bytes, body: bytes, flags: int, timestamp: int) -> int:
        """Compose one message; returns its offset. `address` holds exchange and routing key, each
        behind an octet with its length.
        """
        timestamp = max(timestamp, self.last_timestamp)
        self.last_timestamp = timestamp
        if not self.composed_count:
            flags |= STARTS_BATCH
            self._composed_timestamp = timestamp
        if (
            address is not self._address
            or header is not self._header
            or len(body) != self._body_size
            or flags != self._flags
            or timestamp != self._fixed_timestamp
        ):
            self._begin_repeats(address, header, len(body), flags, timestamp)
        offset = self.end_offset + self.composed_count
        self._checksums.append(zlib.crc32(body, self._opening_crc))
        self._payloads.append(self._opening)
        self._payloads.append(body)
        self._position += self._run_size
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
        timestamp = self.last_timestamp
        if self._flags != flags or self._fixed_timestamp != timestamp:
            self._begin_repeats(address, header, size - opening_size, flags, timestamp)
        assert len(payloads) == size * count, "payloads of one size"
        opening_crc = self._opening_crc
        checksums = self._checksums
        for at in range(size, count * size, size):
            checksums.append(zlib.crc32(payloads[at + opening_size : at + size], opening_crc))
        self._payloads.append(payloads[size:])
        self._position += size * (count - 1)
        self.composed_count += count - 1
        return offset

    def _begin_repeats(
        self, address: bytes, header: bytes, body_size: int, flags: int, timestamp: int
    ) -> None:
        self._end_run()
        exchange_size = address[0]
        key_size = address[1 + exchange_size]
        assert len(address) == 2 + exchange_size + key_size, "two names with their lengths"
        self._fixed = FIXED.pack(timestamp, len(header), body_size, exchange_size, key_size, flags)
        self._opening = encode_opening(address, header, body_size)
        assert len(self._opening) == FRAMING_SIZE + exchange_size + key_size + len(header)
        self._opening_crc = zlib.crc32(self._opening, zlib.crc32(self._fixed))
        self._address = address
        self._header = header
        self._body_size = body_size
        self._flags = flags
        self._fixed_timestamp = timestamp
        self._run_size = len(self._opening) + body_size

    def _end_run(self) -> None:
        """The entries of the messages that repeat one another."""
        checksums = self._checksums
        count = len(checksums)
        position = self._run_position
        self._run_position = self._position
        if not count:
            return
        self._checksums = []
        unsynced = self.end_offset + self.composed_count - count - self.durable_offset
        if count >= COLUMN_COUNT_MIN:
            self._entries.append(
                repeated_entries(self._fixed, position, self._run_size, checksums, unsynced)
            )
            return
        for checksum in checksums:
            self._entries.append(self._fixed)
            self._entries.append(VARIED.pack(position, checksum, min(unsynced, UNSYNCED_MAX)))
            position += self._run_size
            unsynced += 1

    def is_full_batch(self) -> bool:
        """Whether what is composed should be written now rather than at the end of the tick."""
        return self._position - self.log_size >= BATCH_BYTES_MAX

    def take(self) -> ComposedMessages:
        """What was composed; the next message follows it."""
        self._end_run()
        taken = ComposedMessages(
            self.segment_first,
            self.end_offset,
            self.composed_count,
            self._entries,
            self._payloads,
            self._composed_timestamp,
            self.last_timestamp,
        )
        self._payloads = []
        self._entries = []
        self.end_offset += self.composed_count
        self.composed_count = 0
        self.log_size = self._position
        return taken
