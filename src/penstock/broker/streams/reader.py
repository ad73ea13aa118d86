"""One consumer's way through a stream: its position, what it wants, and its cursor.

Invariant: with a cursor, `_outstanding` holds the offsets it was given and has not settled, in
order; everything before the first of them is done.
"""

from collections import deque

from mypy_extensions import mypyc_attr

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message
from penstock.broker.streams.filters import StreamFilter


class StreamReader:
    """Held by its stream, and by what was given to its consumer."""

    def __init__(self, position: int, cursor: str, wanted: StreamFilter | None) -> None:
        # Offset of the next message to look at.
        self.position: int = position
        # Name under which the stream keeps what is done; empty for none.
        self.cursor: str = cursor
        self.wanted: StreamFilter | None = wanted
        # Messages that were read from the log and not given yet, from `ahead_offset` on.
        self.ahead: list[Message] = []
        self.ahead_offset: int = 0
        self._outstanding: deque[int] = deque()
        self._settled: set[int] = set()

    def gave(self, entries: list[QueueEntry]) -> None:
        if self.cursor:
            for entry in entries:
                self._outstanding.append(entry.position)

    def settled(self, offset: int) -> None:
        outstanding = self._outstanding
        if not outstanding:
            return
        if outstanding[0] != offset:
            self._settled.add(offset)
            return
        outstanding.popleft()
        while outstanding and outstanding[0] in self._settled:
            self._settled.discard(outstanding.popleft())

    def done_offset(self) -> int:
        """The last offset up to which everything was settled or not wanted."""
        return (self._outstanding[0] if self._outstanding else self.position) - 1


@mypyc_attr(acyclic=True)
class StreamEntry(QueueEntry):
    """A message given to one reader. Its position is the offset."""

    def __init__(self, message: Message, position: int, reader: StreamReader) -> None:
        super().__init__(message, position)
        self.reader: StreamReader = reader
