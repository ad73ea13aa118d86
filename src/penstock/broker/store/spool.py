"""Messages that need not survive a restart but do not fit memory: files that are never flushed.

A spool is emptied when the broker starts. A file goes when nothing in it is needed any more; files
are small, so that a nearly empty queue holds nearly no disk.
"""

from typing import Final

from penstock.world.disk import AppendFile, Disk

FOLDER: Final = "spool/"
FILE_BYTES_MAX: Final = 16 * 1024 * 1024
# Tells a location in the spool from one in the journal.
SPOOLED: Final = 1 << 62
_FILE_SHIFT: Final = 40
_OFFSET_MASK: Final = (1 << _FILE_SHIFT) - 1


class SpoolFile:
    """One file and how much of it is needed."""

    def __init__(self, name: str, file: AppendFile) -> None:
        self.name: str = name
        self.file: AppendFile = file
        self.live_count: int = 0


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
        location = SPOOLED | self._active << _FILE_SHIFT | self._size
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
            self._files[self._active].file.append(b"".join(self._pieces))
            self._pieces = []

    def read(self, location: int, size: int) -> bytes:
        if self._pieces:
            self.write()
        file = self._files[file_of(location)].file
        return file.read(location & _OFFSET_MASK, size)

    def forget(self, location: int) -> None:
        number = file_of(location)
        spool_file = self._files[number]
        spool_file.live_count -= 1
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
    return (location & ~SPOOLED) >> _FILE_SHIFT
