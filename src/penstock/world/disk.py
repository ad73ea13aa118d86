"""The disk as a node sees it: files that only grow, and a flush that is asked for and answered.

Appending and reading happen at once, in the page cache of whatever disk it is. A flush is requested
and reported later, so that the event loop never waits for a disk; only recovery, which comes before
the loop serves clients, may wait.
"""

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr


class DiskError(Exception):
    """The disk did not do what was asked: full, read-only, gone. The text names file and reason."""


class DiskFull(DiskError):
    """There was no room. Part of what was appended may be in the file. A caller whose write can
    wait takes it back and continues; all others stop, as for any other error.
    """


@mypyc_attr(allow_interpreted_subclasses=True)
class FlushListener(ABC):
    """Notified when what it appended is durable."""

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
        """Returns the position after the data. Not durable before a flush covers it."""

    def append_from(self, data: bytes, start: int) -> int:
        """The same for what follows a place in much data, which a disk need not copy."""
        return self.append(data[start:])

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
        """Cut the file to a size; only recovery does, for a torn tail."""

    @abstractmethod
    def close(self) -> None:
        """No more is appended or read."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Disk(ABC):
    """The data directory of one node. Names may hold `/`; folders are created and removed with
    their files.
    """

    @abstractmethod
    def open(self, name: str) -> AppendFile:
        """Open a file for appending and reading, and make it when it does not exist."""

    @abstractmethod
    def names(self) -> list[str]:
        """The existing files, in order of their names."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Delete a file; durable only after the next flush of any file."""

    @abstractmethod
    def flush(self, files: list[AppendFile], token: int, listener: FlushListener) -> None:
        """Ask that everything appended to these files so far become durable; the listener is
        notified later with the token. Requests are answered in order.
        """

    @abstractmethod
    def flush_now(self, files: list[AppendFile]) -> None:
        """Like `flush`, but waits for it. Only for recovery, when no client has to wait for it.
        Raises `DiskError`.
        """

    @abstractmethod
    def free_bytes(self) -> int:
        """Room left for this node's files."""
