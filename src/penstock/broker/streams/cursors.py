"""Named cursors of a stream: how far somebody has come, kept by the broker.

On disk stands the last offset that is done, -1 for none; everybody else speaks of the offset that
comes next.

Invariant: what readers settle moves a cursor forward only. Back it goes when somebody says so: an
operator who sets it, or a reader that begins it anew; readers from before move it no more then.
"""

from typing import Final

from penstock.broker.errors import NotFound, PreconditionFailed
from penstock.broker.streams.files import FIRST_OFFSET, StreamFiles
from penstock.broker.streams.reader import StreamReader

# As long as any other name.
CURSOR_OCTETS_MAX: Final = 255
# All of them are held in memory and written anew with each generation of their file: a few
# megabytes with names of usual length. Who wants more of them keeps offsets elsewhere.
CURSORS_MAX: Final = 50_000


class StreamCursors:
    """Held by an open stream. `stream` is how messages to people call it."""

    def __init__(self, files: StreamFiles, stream: str) -> None:
        self._files: StreamFiles = files
        self._stream: str = stream
        # Number of the reader that last began a cursor at an offset of its own.
        self._begun_by: dict[str, int] = {}

    def listed(self) -> list[tuple[str, int]]:
        """Names and the offsets that come next."""
        found: list[tuple[str, int]] = []
        for name, done in self._files.cursors.numbers.items():
            if name != FIRST_OFFSET:
                found.append((name, done + 1))
        return found

    def knows(self, name: str) -> bool:
        return name in self._files.cursors.numbers

    def next_of(self, name: str) -> int:
        return self._files.cursors.numbers[name] + 1

    def check_new(self, name: str) -> None:
        """Raises `PreconditionFailed` when there can be no such cursor."""
        if not 0 < len(name.encode(errors="surrogateescape")) <= CURSOR_OCTETS_MAX:
            raise PreconditionFailed(
                f"invalid cursor of {self._stream}: a name has 1 to {CURSOR_OCTETS_MAX} octets"
            )
        if not self.knows(name) and len(self._files.cursors.numbers) >= CURSORS_MAX:
            raise PreconditionFailed(f"{self._stream} has no room for more cursors")

    def begin(self, reader: StreamReader) -> None:
        """A reader begins its cursor where it stands."""
        self._begun_by[reader.cursor] = reader.number
        self.put(reader.cursor, reader.position)

    def follow(self, reader: StreamReader) -> None:
        """A reader has settled something, or passed over it. One that has not says nothing: its
        cursor may have been set meanwhile.
        """
        next_offset = reader.next_offset()
        if next_offset == reader.noted:
            return
        reader.noted = next_offset
        name = reader.cursor
        if reader.number < self._begun_by.get(name, 0):
            return
        if not self.knows(name) or self.next_of(name) < next_offset:
            self.put(name, next_offset)

    def put(self, name: str, next_offset: int) -> None:
        """Written down with the next `write`."""
        table = self._files.cursors
        if table.numbers.get(name) != next_offset - 1:
            table.put(name, next_offset - 1)

    def remove(self, name: str) -> None:
        if name == FIRST_OFFSET or not self._files.cursors.remove(name):
            raise NotFound(f"no cursor '{name}' of {self._stream}")
        self._begun_by.pop(name, None)

    def write(self) -> None:
        self._files.write_cursors()
