"""A batch: everything appended in one tick, valid as a whole or not at all.

    magic(4) | checksum(4) | length(4) | position(8) | durable(8) | payload(length)

Invariants
- the checksum covers all that follows it and begins with the store's own number, so that a copy of
  another journal inside a payload is not taken for a batch of this one;
- `position` is the journal position of the batch, and grows in a file as the offset does: a batch
  is valid only where it was written;
- `durable` is a journal position that was durable when the batch was written, never above
  `position`.
"""

from struct import Struct
from typing import Final
from zlib import crc32

from penstock.storage.long_payload import LongPayload, combined
from penstock.world.disk import AppendFile

# No octet of it is zero and the first is not text, so that it is rare in messages.
BATCH_MAGIC: Final = b"\xf5pNb"
BATCH_HEADER_BYTES: Final = 28
# The length has four octets.
PAYLOAD_BYTES_MAX: Final = 0xFFFF_FFFF
# Read at a time: many small batches in one call, and small beside a server's memory.
WINDOW_BYTES: Final = 1 << 20

_HEADER: Final = Struct(">4sIIQQ")
_COVERED: Final = Struct(">IQQ")


def batch_header(payload: bytes, position: int, durable: int, seed: int) -> bytes:
    covered = _COVERED.pack(len(payload), position, durable)
    checksum = crc32(payload, crc32(covered, seed))
    return BATCH_MAGIC + checksum.to_bytes(4, "big") + covered


def long_batch_header(payload: LongPayload, position: int, durable: int, seed: int) -> bytes:
    """The same bytes, computed from the payload's known checksum."""
    return summed_batch_header(payload.size, payload.checksum, position, durable, seed)


def summed_batch_header(size: int, checksum: int, position: int, durable: int, seed: int) -> bytes:
    """The same for a payload of this size whose own checksum is known."""
    covered = _COVERED.pack(size, position, durable)
    whole = combined(crc32(covered, seed), checksum, size)
    return BATCH_MAGIC + whole.to_bytes(4, "big") + covered


def payload_size(header: bytes) -> int:
    """From the octets of a batch header that is known to be valid."""
    return int.from_bytes(header[8:12], "big")


class BatchReader:
    """Walks over the batches of one segment and stops at the first that is not valid. Held by the
    code that recovers or checks a store.
    """

    def __init__(self, file: AppendFile, offset: int, position: int, seed: int) -> None:
        # Where the next batch begins, in the file and in the journal.
        self.offset: int = offset
        self.position: int = position
        # The fields of the batch that was read last.
        self.payload: bytes = b""
        self.payload_offset: int = 0
        self.durable: int = 0
        self._file: AppendFile = file
        self._size: int = file.size()
        self._seed: int = seed
        self._window: bytes = b""
        self._window_offset: int = offset

    def is_at_end(self) -> bool:
        return self.offset == self._size

    def next(self) -> bool:
        """Read a batch; False when there is no valid one at the offset."""
        offset = self.offset
        if offset + BATCH_HEADER_BYTES > self._size:
            return False
        header = self._octets(offset, BATCH_HEADER_BYTES)
        if len(header) != BATCH_HEADER_BYTES:
            return False
        magic, checksum, length, position, durable = _HEADER.unpack(header)
        if magic != BATCH_MAGIC or position != self.position or durable > position:
            return False
        payload_offset = offset + BATCH_HEADER_BYTES
        if payload_offset + length > self._size:
            return False
        payload = self._octets(payload_offset, length)
        if crc32(payload, crc32(header[8:], self._seed)) != checksum:
            return False
        self.payload = payload
        self.payload_offset = payload_offset
        self.durable = durable
        self.offset = payload_offset + length
        self.position = position + BATCH_HEADER_BYTES + length
        return True

    def _octets(self, offset: int, size: int) -> bytes:
        at = offset - self._window_offset
        if at + size > len(self._window):
            if size > WINDOW_BYTES:
                return self._file.read(offset, size)
            self._window = self._file.read(offset, WINDOW_BYTES)
            self._window_offset = offset
            at = 0
        return self._window[at : at + size]


def find_batch(
    file: AppendFile, offset: int, shift: int | None, seed: int, durable_above: int
) -> int:
    """The offset of the first valid batch from `offset` on whose `durable` is above a position, or
    -1. `shift` is what every position of the file is above its offset, when that is known.
    """
    size = file.size()
    window = b""
    window_offset = offset
    at = 0
    while True:
        at = window.find(BATCH_MAGIC, at)
        if at < 0 or at + BATCH_HEADER_BYTES > len(window):
            # The end of a window may hold the beginning of a header.
            kept = at if at >= 0 else max(0, len(window) - len(BATCH_MAGIC) + 1)
            more = file.read(window_offset + len(window), WINDOW_BYTES)
            if not more:
                return -1
            window = window[kept:] + more
            window_offset += kept
            at = 0
            continue
        found = window_offset + at
        _, checksum, length, position, durable = _HEADER.unpack_from(window, at)
        if (
            durable_above < durable <= position
            and (shift is None or position == found + shift)
            and found + BATCH_HEADER_BYTES + length <= size
        ):
            payload = file.read(found + BATCH_HEADER_BYTES, length)
            if crc32(payload, crc32(window[at + 8 : at + BATCH_HEADER_BYTES], seed)) == checksum:
                return found
        at += 1


def position_at(file: AppendFile, offset: int) -> int:
    """The journal position of a batch that was found to be valid."""
    position: int = _HEADER.unpack(file.read(offset, BATCH_HEADER_BYTES))[3]
    return position
