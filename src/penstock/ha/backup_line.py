"""A line between a primary and a backup, as both of them see it."""

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class BackupLine(ABC):
    """One connection that the backup dialled. What is sent arrives in order, or the line is lost.
    One line carries one JOIN and its answer; a further JOIN needs a new line.
    """

    @abstractmethod
    def send(self, kind: int, pieces: list[bytes]) -> None:
        """Send one message; its octets are the pieces, joined. The list is not changed by anybody
        afterwards: several lines share it.
        """

    @abstractmethod
    def unsent_bytes(self) -> int:
        """What was sent here and has not left the server yet."""

    @abstractmethod
    def end(self, reason: str) -> None:
        """Close the line. Its owner is not told that it was lost."""
