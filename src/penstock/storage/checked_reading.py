"""Reading batches back from a segment, checked: no corrupt byte is used.

A journal has one checksum per batch, so to read a record a block of batches around it is read, and
all of them are checked. Where blocks begin is remembered when batches are written or recovered: a
few octets per block. A block is small unless one of its batches is large; then it is checked in
pieces, once, and only the needed part of it is read.
"""

from array import array
from bisect import bisect_right
from struct import Struct
from typing import Final
from zlib import crc32

from penstock.storage.batch import BATCH_HEADER_BYTES, BATCH_MAGIC
from penstock.storage.errors import Damaged
from penstock.world.disk import AppendFile, DiskError

# A block ends with the batch that reaches this. Messages of one queue are mostly adjacent, so most
# of a block is used; when they are not, reading much more would be wasted.
BLOCK_BYTES: Final = 128 * 1024
# Blocks above this are not read as a whole: one batch of a tick may be as large as a segment.
WHOLE_BYTES_MAX: Final = 4 * 1024 * 1024

_HEADER: Final = Struct(">4sII")
_COVERED_FROM: Final = 8


class CheckedOctets:
    """Checked bytes of a file, and the offset of the first."""

    def __init__(self, start: int, data: bytes) -> None:
        self.start: int = start
        self.data: bytes = data


class SegmentBlocks:
    """Where the blocks of one segment begin. Held by recovery and then by the journal."""

    def __init__(self) -> None:
        self._starts: array[int] = array("I")
        self._last: int = -BLOCK_BYTES
        # Large ones that were checked, by where they begin, with their end at that time: the last
        # one of a segment may grow.
        self._checked: dict[int, int] = {}

    def batch_at(self, offset: int) -> None:
        """A batch begins here; called in order of the batches."""
        if offset - self._last >= BLOCK_BYTES:
            self._starts.append(offset)
            self._last = offset

    def read(
        self, name: str, file: AppendFile, seed: int, offset: int, size_min: int
    ) -> CheckedOctets:
        """Octets around an offset; of a large block at least `size_min` after it, if there are as
        many. Raises a `DiskError` when they are corrupt.
        """
        starts = self._starts
        place = bisect_right(starts, offset)
        assert place > 0, "every payload has its batch"
        start: int = starts[place - 1]
        end: int = starts[place] if place < len(starts) else file.size()
        if end - start <= WHOLE_BYTES_MAX:
            data = file.read(start, end - start)
            check_batches(name, data, start, end, seed)
            return CheckedOctets(start, data)
        if self._checked.get(start) != end:
            check_in_pieces(name, file, start, end, seed)
            self._checked[start] = end
        return CheckedOctets(offset, file.read(offset, max(size_min, BLOCK_BYTES)))


def check_batches(name: str, data: bytes, start: int, end: int, seed: int) -> None:
    """`data` is the file's content from `start` to `end`, a sequence of whole batches."""
    at = 0
    size = end - start
    if len(data) != size:
        raise damage(name, start + len(data))
    while at < size:
        behind = at + BATCH_HEADER_BYTES
        if behind > size:
            raise damage(name, start + at)
        magic, checksum, length = _HEADER.unpack_from(data, at)
        # One checksum over the rest of the header and the payload, which follow one another.
        if (
            magic != BATCH_MAGIC
            or behind + length > size
            or crc32(data[at + _COVERED_FROM : behind + length], seed) != checksum
        ):
            raise damage(name, start + at)
        at = behind + length


def check_in_pieces(name: str, file: AppendFile, start: int, end: int, seed: int) -> None:
    """The same without holding all of it."""
    at = start
    while at < end:
        header = file.read(at, BATCH_HEADER_BYTES)
        if len(header) < BATCH_HEADER_BYTES:
            raise damage(name, at)
        magic, checksum, length = _HEADER.unpack_from(header, 0)
        place = at + BATCH_HEADER_BYTES
        behind = place + length
        if magic != BATCH_MAGIC or behind > end:
            raise damage(name, at)
        found = crc32(header[_COVERED_FROM:], seed)
        while place < behind:
            piece = file.read(place, min(WHOLE_BYTES_MAX, behind - place))
            if not piece:
                raise damage(name, at)
            found = crc32(piece, found)
            place += len(piece)
        if found != checksum:
            raise damage(name, at)
        at = behind


def damage(name: str, offset: int) -> DiskError:
    """Reported as an error of the disk: reading cannot continue, and the server stops."""
    return DiskError(str(Damaged(name, offset, "the batch is corrupt")))
