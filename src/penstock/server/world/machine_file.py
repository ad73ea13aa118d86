"""A file of the machine's disk: system calls into the page cache, and long writes on the disk's thread."""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.server.world.late_write import LateWrite
from penstock.world.disk import AppendFile, DiskError, DiskFull

# Less than this is written at once: passing it to the thread costs more than the write.
LATE_BYTES_MIN: Final = 1 << 20
# Buffers in one call, which is what the kernel takes at most (IOV_MAX).
PIECES_MAX: Final = 1024
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def why(name: str, error: OSError) -> DiskError:
    text = f"{name}: {error.strerror or error}"
    return DiskFull(text) if error.errno in _NO_ROOM else DiskError(text)


class SystemCalls:
    """Every call that can fail on a full or a failing disk. Held by a disk; tests of such disks
    pass their own.
    """

    def write(self, descriptor: int, data: memoryview | bytes) -> int:
        return os.write(descriptor, data)

    def write_pieces(self, descriptor: int, pieces: list[memoryview | bytes]) -> int:
        return os.writev(descriptor, pieces)

    def flush_file(self, descriptor: int) -> None:
        # This includes the size: fdatasync omits only metadata that reading the data does not need.
        os.fdatasync(descriptor)

    def flush_folder(self, descriptor: int) -> None:
        os.fsync(descriptor)


class FileOwner(ABC):
    """The disk that has a file."""

    calls: SystemCalls

    @abstractmethod
    def open_again(self, file: MachineFile) -> None:
        """Give it a descriptor."""

    @abstractmethod
    def close_file(self, name: str, file: MachineFile) -> None:
        """No more is appended or read."""

    @abstractmethod
    def write_late(self, write: Callable[[], None]) -> None:
        """The thread writes it before anything else that it is asked for from now on."""


class MachineFile(AppendFile):
    """Held by the disk and by the code that opened it."""

    def __init__(self, disk: FileOwner, name: str, descriptor: int) -> None:
        self._disk: FileOwner = disk
        self.name = name
        self._size = os.fstat(descriptor).st_size
        self._write = disk.calls.write
        # -1 while the disk has closed its descriptor.
        self.descriptor = descriptor
        # Whether something was written for which no flush was requested yet. A disk error is
        # reported on the descriptor that was written to, so that one is kept until then.
        self.is_dirty = False
        # What the thread has not written yet, in order. A failed write stays, so that nothing is
        # written after it.
        self._late: deque[LateWrite] = deque()
        # Why the thread could not write; set before a later flush is begun.
        self.late_failure = ""

    def size(self) -> int:
        return self._size

    def append(self, data: bytes) -> int:
        if self._late:
            return self._append_late([data])
        return self._append_now(data)

    def append_from(self, data: bytes, start: int) -> int:
        if self._late:
            return self._append_late([data[start:]])
        return self._append_now(memoryview(data)[start:])

    def _append_now(self, data: bytes | memoryview) -> int:
        self.is_dirty = True
        try:
            written = self._write(self.opened(), data)
            self._size += written
            if written != len(data):
                self._append_rest(memoryview(data)[written:])
        except OSError as error:
            raise why(self.name, error) from error
        return self._size

    def append_pieces(self, pieces: list[bytes]) -> int:
        if sum(map(len, pieces)) < LATE_BYTES_MIN:
            return self.append(b"".join(pieces))
        return self._append_late(pieces)

    def _append_late(self, pieces: list[bytes]) -> int:
        """The page cache takes a hundred megabytes in no less than tens of milliseconds, and more
        when the kernel makes writers wait for the disk.
        """
        self.is_dirty = True
        late = LateWrite(self._size, pieces)
        descriptor = self.opened()
        self._late.append(late)
        self._size = late.end
        self._disk.write_late(partial(self.write_late, descriptor, late))
        return self._size

    def _append_rest(self, data: memoryview) -> None:
        """A write may be short: by a signal, or because the rest has no room, which the next write
        then says.
        """
        while data:
            written = self._write(self.descriptor, data)
            self._size += written
            data = data[written:]

    def read(self, position: int, size: int) -> bytes:
        # A copy, because the thread may remove the first one.
        late = list(self._late)
        if late and position + size > late[0].start:
            found = [self._read_written(position, max(late[0].start - position, 0))]
            for part in late:
                begin = max(position, part.start)
                found.append(part.read(begin, position + size - begin))
            return b"".join(found)
        return self._read_written(position, size)

    def _read_written(self, position: int, size: int) -> bytes:
        try:
            data = os.pread(self.opened(), size, position)
            # A read may be short, too: one call reads at most 2 GiB.
            while len(data) < min(size, self._size - position):
                more = os.pread(self.descriptor, size - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise why(self.name, error) from error
        return data

    def truncate(self, size: int) -> None:
        assert not self._late, "only recovery cuts, and nothing was appended before"
        self.is_dirty = True
        try:
            os.ftruncate(self.opened(), size)
        except OSError as error:
            raise why(self.name, error) from error
        self._size = size

    def has_late_data(self) -> bool:
        return bool(self._late)

    def close(self) -> None:
        self._disk.close_file(self.name, self)

    def opened(self) -> int:
        if self.descriptor < 0:
            self._disk.open_again(self)
        return self.descriptor

    # On the thread.

    def write_late(self, descriptor: int, late: LateWrite) -> None:
        if self.late_failure:
            return
        try:
            self._write_all(descriptor, late.pieces)
        except OSError as error:
            self.late_failure = str(why(self.name, error))
        except Exception as error:
            self.late_failure = f"{self.name}: writing failed: {error!r}"
        else:
            self._late.popleft()

    def _write_all(self, descriptor: int, pieces: list[bytes]) -> None:
        for begin in range(0, len(pieces), PIECES_MAX):
            rest: list[memoryview | bytes] = [*pieces[begin : begin + PIECES_MAX]]
            while rest:
                written = self._disk.calls.write_pieces(descriptor, rest)
                # It may be short, as any write.
                while rest and written >= len(rest[0]):
                    written -= len(rest.pop(0))
                if written:
                    rest[0] = memoryview(rest[0])[written:]
