"""The disk as a node sees it: files that only grow, and a flush that is asked for and answered.

Appending and reading happen at once, in the page cache of whatever disk it is. Asking for a flush
and hearing of it are two separate moments, so that no one ever waits for a disk on the event loop;
recovery alone, which comes before the loop serves anybody, may wait.
"""

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr


class DiskError(Exception):
    """The disk did not do what was asked: full, read-only, gone. The text names file and reason."""


class DiskFull(DiskError):
    """There was no room. Part of what was appended may stand in the file. Who wrote something that
    can wait takes it back and goes on; everybody else stops, as for any other reason.
    """


@mypyc_attr(allow_interpreted_subclasses=True)
class FlushListener(ABC):
    """Who is told that what it appended is safe."""

    @abstractmethod
    def flushed(self, token: int, now: int) -> None:
        """Everything appended to the flushed files before the request survives a power loss, and
        so do creations and removals of files before it.
        """

    @abstractmethod
    def flush_failed(self, reason: str, now: int) -> None:
        """The disk cannot be trusted any more: stop; a failed flush is never tried again."""


@mypyc_attr(allow_interpreted_subclasses=True)
class AppendFile(ABC):
    """A file that grows at its end."""

    @abstractmethod
    def size(self) -> int:
        """Octets appended so far, flushed or not."""

    @abstractmethod
    def append(self, data: bytes) -> int:
        """Returns the position behind the data. Not safe before a flush covers it."""

    def append_pieces(self, pieces: list[bytes]) -> int:
        """The same for much data, in pieces that follow one another. A disk may return before its
        page cache has them. Even so they can be read and appended to at once, and a flush that is
        asked for later covers them; it fails if they could not be written.
        """
        return self.append(b"".join(pieces))

    @abstractmethod
    def read(self, position: int, size: int) -> bytes:
        """Up to `size` octets from a position; fewer at the end of the file."""

    @abstractmethod
    def truncate(self, size: int) -> None:
        """Cut off what is behind a size; only recovery does, for a torn tail."""

    @abstractmethod
    def close(self) -> None:
        """No more is appended or read."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Disk(ABC):
    """The data directory of one node. Names may hold `/`; folders come and go with their files."""

    @abstractmethod
    def open(self, name: str) -> AppendFile:
        """Open a file for appending and reading, and make it when it does not exist."""

    @abstractmethod
    def names(self) -> list[str]:
        """The files there are, in order of their names."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Delete a file; safe against power loss only after the next flush of any file."""

    @abstractmethod
    def flush(self, files: list[AppendFile], token: int, listener: FlushListener) -> None:
        """Ask that everything appended to these files so far become safe; the listener hears of
        it later with the token. Requests are answered in order.
        """

    @abstractmethod
    def flush_now(self, files: list[AppendFile]) -> None:
        """As `flush`, and waits for it. Only for recovery, when there is nobody yet who would have
        to wait as well. Raises `DiskError`.
        """

    @abstractmethod
    def free_bytes(self) -> int:
        """Room left for this node's files."""
