"""A disk in memory whose flushes a test answers by hand, and who listens to a journal."""

from penstock.storage.journal import SEGMENT_BYTES_MAX, Journal, JournalListener
from penstock.storage.recovery import BatchListener, RecoveredJournal, recover
from penstock.world.disk import AppendFile, Disk, DiskError, DiskFull, FlushListener

STORE_ID = b"0123456789abcdef"
OTHER_ID = b"fedcba9876543210"


class MemoryFile(AppendFile):
    def __init__(self, disk: "MemoryDisk", content: bytes) -> None:
        self.disk = disk
        self.content = bytearray(content)
        self.is_closed = False

    def size(self) -> int:
        return len(self.content)

    def append(self, data: bytes) -> int:
        assert not self.is_closed
        if self.disk.breaks:
            raise DiskError("input/output error")
        self.content += data[: self.disk.room]
        if len(data) > self.disk.room:
            raise DiskFull("no space left on device")
        self.disk.room -= len(data)
        return len(self.content)

    def read(self, position: int, size: int) -> bytes:
        assert not self.is_closed
        return bytes(self.content[position : position + size])

    def truncate(self, size: int) -> None:
        del self.content[size:]

    def close(self) -> None:
        self.is_closed = True


class AskedFlush:
    """A flush that waits for the test's answer."""

    def __init__(self, files: list[AppendFile], token: int, listener: FlushListener) -> None:
        assert not any(isinstance(file, MemoryFile) and file.is_closed for file in files)
        self.files = files
        self.token = token
        self.listener = listener


class MemoryDisk(Disk):
    def __init__(self, contents: dict[str, bytes] | None = None) -> None:
        self.room = 1 << 40
        # Every append fails from now on, and not for want of room.
        self.breaks = False
        self.files = {name: MemoryFile(self, content) for name, content in (contents or {}).items()}
        self.flushes: list[AskedFlush] = []
        # What was waited for: the files, and the names that were there then.
        self.waited_for: list[tuple[list[AppendFile], list[str]]] = []

    def open(self, name: str) -> AppendFile:
        if name not in self.files:
            self.files[name] = MemoryFile(self, b"")
        return self.files[name]

    def names(self) -> list[str]:
        return sorted(self.files)

    def remove(self, name: str) -> None:
        del self.files[name]

    def flush(self, files: list[AppendFile], token: int, listener: FlushListener) -> None:
        self.flushes.append(AskedFlush(list(files), token, listener))

    def flush_now(self, files: list[AppendFile]) -> None:
        self.waited_for.append((list(files), self.names()))

    def free_bytes(self) -> int:
        return self.room

    def contents(self) -> dict[str, bytes]:
        return {name: bytes(file.content) for name, file in self.files.items()}

    def answer(self, now: int = 0) -> None:
        """The oldest flush is done."""
        flush = self.flushes.pop(0)
        flush.listener.flushed(flush.token, now)

    def settle(self) -> None:
        while self.flushes:
            self.answer()


class RecordingOwner(JournalListener):
    def __init__(self) -> None:
        self.positions: list[int] = []
        self.failures: list[str] = []

    def durable(self, position: int, now: int) -> None:
        self.positions.append(position)

    def failed(self, reason: str, now: int) -> None:
        self.failures.append(reason)


class Collector(BatchListener):
    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.locations: list[int] = []

    def batch(self, location: int, payload: bytes) -> None:
        self.locations.append(location)
        self.payloads.append(payload)


def journal_on(
    disk: Disk,
    segment_bytes_max: int = SEGMENT_BYTES_MAX,
    owner: JournalListener | None = None,
) -> Journal:
    state = recover(disk, STORE_ID, Collector())
    return Journal(disk, owner or RecordingOwner(), state, segment_bytes_max)


def recovered(disk: Disk) -> tuple[list[bytes], RecoveredJournal]:
    collector = Collector()
    state = recover(disk, OTHER_ID, collector)
    return collector.payloads, state
