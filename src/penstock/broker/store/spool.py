"""Messages that need not survive a restart but do not fit memory: files that are never flushed.

A spool is emptied when the broker starts. A file is deleted when nothing in it is needed any more;
files are small, so that a nearly empty queue takes little disk space.
"""

from array import array
from bisect import bisect_right
from typing import Final
from zlib import crc32

from penstock.storage.checked_reading import BLOCK_BYTES, CheckedOctets
from penstock.storage.segment import LOCATION_END, location_of, offset_of, segment_of
from penstock.world.disk import AppendFile, Disk, DiskError

FOLDER: Final = "spool/"
FILE_BYTES_MAX: Final = 16 * 1024 * 1024
# Tells a location in the spool from one in the journal; the rest is written alike.
SPOOLED: Final = LOCATION_END
# Files are numbered from one.
NO_FILE: Final = 0


class SpoolFile:
    """One file and how much of it is needed."""

    def __init__(self, name: str, file: AppendFile) -> None:
        self.name: str = name
        self.file: AppendFile = file
        self.live_count: int = 0
        # Blocks: where each begins, and its checksum. The last one may grow.
        self._starts: array[int] = array("I")
        self._checksums: array[int] = array("I")

    def append(self, pieces: list[bytes]) -> None:
        """Whole records; a block takes no more once it is large enough."""
        size = self.file.size()
        begin = 0
        block_size = size - self._starts[len(self._starts) - 1] if self._starts else BLOCK_BYTES
        for index, piece in enumerate(pieces):
            if block_size >= BLOCK_BYTES:
                self._grow(pieces, begin, index)
                begin = index
                block_size = 0
                self._starts.append(size)
                self._checksums.append(0)
            block_size += len(piece)
            size += len(piece)
        self._grow(pieces, begin, len(pieces))
        self.file.append(b"".join(pieces))

    def _grow(self, pieces: list[bytes], begin: int, end: int) -> None:
        if begin < end:
            last = len(self._checksums) - 1
            checksum: int = self._checksums[last]
            self._checksums[last] = crc32(b"".join(pieces[begin:end]), checksum)

    def read(self, offset: int) -> CheckedOctets:
        """The block around an offset. Raises a `DiskError` when it is not what was written."""
        starts = self._starts
        place = bisect_right(starts, offset)
        start: int = starts[place - 1]
        end: int = starts[place] if place < len(starts) else self.file.size()
        data = self.file.read(start, end - start)
        if len(data) != end - start or crc32(data) != self._checksums[place - 1]:
            raise DiskError(
                f"{self.name} is damaged between offset {start} and {end}: messages that "
                "were paged out are corrupt. The next start deletes this file"
            )
        return CheckedOctets(start, data)


class Spool:
    """Held by the message store."""

    def __init__(self, disk: Disk, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        self._disk: Disk = disk
        self._file_bytes_max: int = file_bytes_max
        self._files: dict[int, SpoolFile] = {}
        self._active: int = 0
        self._pieces: list[bytes] = []
        self._size: int = 0
        for name in disk.names():
            if name.startswith(FOLDER):
                disk.remove(name)

    def put(self, record: bytes) -> int:
        """Returns the location; the octets are written by `write`, at the end of the tick."""
        if self._active == 0 or self._size >= self._file_bytes_max:
            self._roll()
        location = SPOOLED | location_of(self._active, self._size)
        self._pieces.append(record)
        self._size += len(record)
        self._files[self._active].live_count += 1
        return location

    def _roll(self) -> None:
        self.write()
        finished = self._files.get(self._active)
        self._active += 1
        name = f"{FOLDER}{self._active:012d}.log"
        self._files[self._active] = SpoolFile(name, self._disk.open(name))
        self._size = 0
        if finished is not None and finished.live_count == 0:
            self._remove(self._active - 1)

    def write(self) -> None:
        if self._pieces:
            self._files[self._active].append(self._pieces)
            self._pieces = []

    def checked(self, location: int) -> CheckedOctets:
        """Octets around a location, whole records, that are what was written."""
        if self._pieces:
            self.write()
        return self._files[file_of(location)].read(offset_of(location))

    def forget(self, location: int) -> None:
        self._forget(file_of(location), 1)

    def forget_all(self, locations: list[int]) -> None:
        """Locations in the same file are counted together."""
        number = NO_FILE
        count = 0
        for location in locations:
            other = file_of(location)
            if other != number:
                if count:
                    self._forget(number, count)
                number = other
                count = 0
            count += 1
        if count:
            self._forget(number, count)

    def _forget(self, number: int, count: int) -> None:
        spool_file = self._files[number]
        spool_file.live_count -= count
        assert spool_file.live_count >= 0, "forgotten more often than put"
        if spool_file.live_count == 0 and number != self._active:
            self._remove(number)

    def _remove(self, number: int) -> None:
        spool_file = self._files.pop(number)
        spool_file.file.close()
        self._disk.remove(spool_file.name)

    def file_count(self) -> int:
        return len(self._files)


def file_of(location: int) -> int:
    return segment_of(location - SPOOLED)
