"""The newest messages of a stream, kept in memory for readers that keep up."""

from typing import Final

from penstock.broker.message import Message

# Enough for a reader that is a few ticks behind. A reader that is further behind reads the log,
# which is still in the page cache.
TAIL_COUNT_MAX: Final = 4096
TAIL_BYTES_MAX: Final = 4 * 1024 * 1024


class StreamTail:
    """Held by a stream; empty while nobody reads it."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self.first_offset: int = 0
        self._size: int = 0

    def append(self, message: Message, offset: int) -> None:
        if self.first_offset + len(self._messages) != offset:
            # There was no reader for a while, so there is a gap.
            self.clear()
            self.first_offset = offset
        self._messages.append(message)
        self._size += len(message.body)

    def trim(self) -> None:
        """Called once per tick; drops the older half of what is too much."""
        while len(self._messages) > TAIL_COUNT_MAX or (
            self._size > TAIL_BYTES_MAX and self._messages
        ):
            half = (len(self._messages) + 1) // 2
            for message in self._messages[:half]:
                self._size -= len(message.body)
            del self._messages[:half]
            self.first_offset += half

    def clear(self) -> None:
        self._messages = []
        self._size = 0

    def holds(self, offset: int) -> bool:
        return self.first_offset <= offset < self.first_offset + len(self._messages)

    def run(self, offset: int, count: int) -> list[Message]:
        at = offset - self.first_offset
        return self._messages[at : at + count]
