"""One consumer's way through a stream: its position, what it wants, and its cursor.

Invariant: with a cursor, `_outstanding` holds the offsets it was given and has not settled, in
order, up to the first one that it gave back; everything before the first of them is done.
"""

from collections import deque
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message
from penstock.broker.queues.reading import MessageFilter, ReadPosition

NOTHING: Final = -1


class StreamReader(ReadPosition):
    """Held by its stream, and by what was given to its consumer."""

    def __init__(
        self, position: int, cursor: str, wanted: MessageFilter | None, number: int = 0
    ) -> None:
        # Offset of the next message to look at.
        self.position: int = position
        # Name of the cursor under which the stream keeps its progress; empty for none.
        self.cursor: str = cursor
        self.wanted: MessageFilter | None = wanted
        # Readers of a stream are numbered in the order in which they began.
        self.number: int = number
        # The value of `next_offset` when its cursor was last updated.
        self.noted: int = position
        # Messages that were read from the log and not given yet, from `ahead_offset` on.
        self.ahead: list[Message] = []
        self.ahead_offset: int = 0
        self._outstanding: deque[int] = deque()
        self._settled: set[int] = set()
        # The lowest offset that was requeued: the cursor does not pass it any more.
        self._given_back: int = NOTHING

    def gave(self, entries: list[QueueEntry]) -> None:
        if self.cursor and self._given_back == NOTHING:
            for entry in entries:
                self._outstanding.append(entry.position)

    def settled(self, offset: int) -> None:
        outstanding = self._outstanding
        if not outstanding or offset > outstanding[-1]:
            return
        if outstanding[0] != offset:
            self._settled.add(offset)
            return
        outstanding.popleft()
        while outstanding and outstanding[0] in self._settled:
            self._settled.discard(outstanding.popleft())

    def given_back(self, offset: int) -> None:
        """Later offsets no longer matter to the cursor, so they are no longer remembered."""
        if self._given_back == NOTHING or offset < self._given_back:
            self._given_back = offset
        while self._outstanding and self._outstanding[-1] >= offset:
            self._settled.discard(self._outstanding.pop())

    def next_offset(self) -> int:
        """The first offset that was neither settled nor unwanted."""
        if self._outstanding:
            return self._outstanding[0]
        return self.position if self._given_back == NOTHING else self._given_back


@mypyc_attr(acyclic=True)
class StreamEntry(QueueEntry):
    """A message given to one reader. Its position is the offset."""

    def __init__(self, message: Message, position: int, reader: StreamReader) -> None:
        super().__init__(message, position)
        self.reader: StreamReader = reader
