"""The disk as a node sees it: files that only grow, and a flush that is asked for and answered.

Nothing is stored yet; the seam is fixed here because the simulator's disk is its second
implementation. Requesting a flush and hearing of it are two separate moments, so that no one ever
waits for a disk on the event loop.
"""

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class FlushListener(ABC):
    """Who is told that what it appended is safe."""

    @abstractmethod
    def flushed(self, position: int, now: int) -> None:
        """Everything appended before this position survives a power loss."""

    @abstractmethod
    def flush_failed(self, reason: str, now: int) -> None:
        """The disk cannot be trusted any more: stop; a failed flush is never tried again."""


@mypyc_attr(allow_interpreted_subclasses=True)
class AppendFile(ABC):
    """A file that grows at its end."""

    @abstractmethod
    def append(self, data: bytes) -> int:
        """Returns the position behind the data. Not safe before a flush covers it."""

    @abstractmethod
    def request_flush(self, listener: FlushListener) -> None:
        """Ask that everything appended so far become safe; the listener hears of it later."""

    @abstractmethod
    def read(self, position: int, size: int) -> bytes:
        """Up to `size` octets from a position; fewer at the end of the file."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Disk(ABC):
    """The data directory of one node."""

    @abstractmethod
    def open(self, name: str) -> AppendFile:
        """Open a file for appending, and make it when it does not exist."""

    @abstractmethod
    def names(self) -> list[str]:
        """The files there are, in order of their names."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Delete a file; safe against power loss only after the next flush of any file."""
