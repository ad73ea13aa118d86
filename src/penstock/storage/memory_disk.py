"""Files in memory: for a broker without a data directory, and for tests.

A flush is answered when the owner calls `answer_flushes`, so that a test decides when; with
`at_once` it is answered inside the request, which suits an owner that waits for nothing.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.world.disk import AppendFile, Disk, FlushListener

# The free space that is reported to a broker in memory: enough to raise no disk alarm. The memory
# alarm blocks its publishers.
FREE_BYTES: Final = 1 << 50


class MemoryFile(AppendFile):
    """Held by the disk and by the code that opened it; the same object for every opening."""

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.content: bytearray = bytearray()

    def size(self) -> int:
        return len(self.content)

    def append(self, data: bytes) -> int:
        self.content += data
        return len(self.content)

    def read(self, position: int, size: int) -> bytes:
        return bytes(self.content[position : position + size])

    def truncate(self, size: int) -> None:
        del self.content[size:]

    def close(self) -> None:
        """There is nothing to release: the disk keeps the content for the next opening."""


@mypyc_attr(allow_interpreted_subclasses=True)
class MemoryDisk(Disk):
    """Held by the broker state, or by a test that starts a second broker on it."""

    def __init__(self, at_once: bool = True) -> None:
        self.files: dict[str, MemoryFile] = {}
        self._at_once: bool = at_once
        self._asked: list[tuple[int, FlushListener]] = []

    def open(self, name: str) -> AppendFile:
        file = self.files.get(name)
        if file is None:
            file = MemoryFile(name)
            self.files[name] = file
        return file

    def names(self) -> list[str]:
        return sorted(self.files)

    def remove(self, name: str) -> None:
        del self.files[name]

    def flush(self, files: list[AppendFile], token: int, listener: FlushListener) -> None:
        self._asked.append((token, listener))
        if self._at_once:
            self.answer_flushes(0)

    def answer_flushes(self, now: int) -> None:
        """Answer all pending requests, in order."""
        asked = self._asked
        self._asked = []
        for token, listener in asked:
            listener.flushed(token, now)

    def flush_now(self, files: list[AppendFile]) -> None:
        """There is nothing to wait for."""

    def free_bytes(self) -> int:
        return FREE_BYTES
