"""Stand-ins for what the server's parts are given: an event loop's transport, a disk, a clock."""

import asyncio
from collections.abc import Iterable
from typing import Any

from penstock.storage.memory_disk import MemoryDisk
from penstock.world.clock import Clock
from penstock.world.disk import AppendFile, Disk, DiskError, FlushListener


class ReadingTransport(asyncio.Transport):
    """Keeps only whether it reads, and how often it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = True
        self.is_closed = False
        self.told = 0

    def pause_reading(self) -> None:
        self.told += 1
        self.reads = False

    def resume_reading(self) -> None:
        self.told += 1
        self.reads = True

    def is_closing(self) -> bool:
        return self.is_closed


class WritingTransport(asyncio.Transport):
    """Keeps what is written, and holds as much as the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.held_bytes = 0
        self.is_closed = False
        self.is_aborted = False

    def writelines(self, pieces: "Iterable[bytes | bytearray | memoryview[Any]]") -> None:
        self.pieces.extend([bytes(piece) for piece in pieces])

    def get_write_buffer_size(self) -> int:
        return self.held_bytes

    def is_closing(self) -> bool:
        return self.is_closed

    def abort(self) -> None:
        self.is_aborted = True


class FailingFile(AppendFile):
    """Takes everything, and gives nothing back once its disk fails."""

    def __init__(self, name: str, kept: AppendFile, disk: "FailingDisk") -> None:
        self.name = name
        self.kept = kept
        self._disk = disk

    def size(self) -> int:
        return self.kept.size()

    def append(self, data: bytes) -> int:
        if self._disk.is_defective:
            raise ZeroDivisionError("planted")
        return self.kept.append(data)

    def read(self, position: int, size: int) -> bytes:
        self._disk.check(self.name)
        return self.kept.read(position, size)

    def truncate(self, size: int) -> None:
        self.kept.truncate(size)

    def close(self) -> None:
        self.kept.close()


class FailingDisk(Disk):
    """A disk in memory that cannot be read any more once a test has said so. Writing goes on, so
    that nothing but reading can be what was noticed.
    """

    def __init__(self) -> None:
        self.fails = False
        # Then writing raises what no disk does: a defect of ours.
        self.is_defective = False
        self._kept = MemoryDisk()

    def check(self, name: str) -> None:
        if self.fails:
            raise DiskError(f"{name}: Input/output error")

    def open(self, name: str) -> AppendFile:
        return FailingFile(name, self._kept.open(name), self)

    def names(self) -> list[str]:
        return self._kept.names()

    def remove(self, name: str) -> None:
        self._kept.remove(name)

    def flush_now(self, files: list[AppendFile]) -> None:
        self._kept.flush_now(files)

    def flush(self, files: list[AppendFile], token: int, listener: FlushListener) -> None:
        self._kept.flush(files, token, listener)

    def free_bytes(self) -> int:
        self.check("the folder")
        return self._kept.free_bytes()


class HandClock(Clock):
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.milliseconds = 1_000_000

    def now(self) -> int:
        return self.milliseconds

    def wall(self) -> int:
        return self.milliseconds


class PendingTransport(ReadingTransport):
    """Holds as much as a test says, and whether it was cut off."""

    def __init__(self, pending: int) -> None:
        super().__init__()
        self.pending = pending
        self.is_aborted = False

    def get_write_buffer_size(self) -> int:
        return self.pending

    def abort(self) -> None:
        self.is_aborted = True
