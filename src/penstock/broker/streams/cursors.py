"""Named cursors of a stream: the progress of a reader, kept by the broker.

The file holds the last offset that is done, -1 for none; all other code uses the offset that comes
next.

Invariant: what readers settle moves a cursor forward only. It moves back only on request: by an
operator who sets it, or by a reader that begins it anew; earlier readers no longer move it then.
"""

from collections.abc import Iterable
from typing import Final

from penstock.broker.errors import NotFound, PreconditionFailed
from penstock.broker.names import NAME_OCTETS_MAX
from penstock.broker.queues.reading import Reading, StartKind
from penstock.broker.streams.files import FIRST_OFFSET, StreamFiles
from penstock.broker.streams.read_position import StreamReader
from penstock.broker.timers import NEVER, Timer, Timers

# All of them are held in memory and written anew with each generation of their file: a few
# megabytes with names of usual length. Applications that need more keep offsets elsewhere.
CURSORS_MAX: Final = 50_000
# Cursors move with every acknowledgement and are written at most this often. After a crash a
# reader gets again what it acknowledged in this time.
CURSORS_MS: Final = 100


class CursorTimer(Timer):
    """Held by the cursors of a stream; fires once after one of them moved."""

    def __init__(self, files: StreamFiles, timers: Timers) -> None:
        super().__init__()
        self._files: StreamFiles = files
        self._timers: Timers = timers

    def moved(self, now: int) -> None:
        if self.due == NEVER:
            self._timers.schedule(self, now + CURSORS_MS)

    def stop(self) -> None:
        self._timers.cancel(self)

    def fire(self, now: int) -> None:
        self._files.write_cursors()


class StreamCursors:
    """Held by an open stream. `stream` is its name in messages to people."""

    def __init__(self, files: StreamFiles, stream: str, timers: Timers) -> None:
        self._files: StreamFiles = files
        self._timer: CursorTimer = CursorTimer(files, timers)
        self._stream: str = stream
        # Number of the reader that last began a cursor at an offset of its own.
        self._begun_by: dict[str, int] = {}

    def listed(self) -> list[tuple[str, int, int]]:
        """Name, offset and lag of every cursor. The offset is where a reader would continue: all
        before it is done. The lag counts the messages from there to the end.
        """
        first = self._files.log.first_offset
        end = self._files.end_offset()
        found: list[tuple[str, int, int]] = []
        for name, done in self._files.cursors.numbers.items():
            if name != FIRST_OFFSET:
                found.append((name, done + 1, max(end - max(done + 1, first), 0)))
        return found

    def start_of(self, reading: Reading, wall: int) -> int:
        """The offset at which a reader begins."""
        log = self._files.log
        start = reading.start
        kind = start.kind
        if kind is StartKind.FIRST:
            return log.first_offset
        if kind is StartKind.LAST:
            return log.last_batch_offset()
        if kind is StartKind.OFFSET:
            return max(start.value, log.first_offset)
        if kind is StartKind.TIMESTAMP:
            return log.offset_at(start.value)
        if kind is StartKind.INTERVAL:
            return log.offset_at(max(wall - start.value, 0))
        if kind is StartKind.CURSOR and self.knows(reading.cursor):
            return max(self.next_of(reading.cursor), log.first_offset)
        return self._files.end_offset()

    def knows(self, name: str) -> bool:
        return name in self._files.cursors.numbers

    def next_of(self, name: str) -> int:
        return self._files.cursors.numbers[name] + 1

    def check_new(self, name: str) -> None:
        """Raises `PreconditionFailed` when this cursor cannot be created."""
        if not 0 < len(name.encode(errors="surrogateescape")) <= NAME_OCTETS_MAX:
            raise PreconditionFailed(
                f"invalid cursor of {self._stream}: its name must have 1 to {NAME_OCTETS_MAX} bytes"
            )
        if not self.knows(name) and len(self._files.cursors.numbers) >= CURSORS_MAX:
            raise PreconditionFailed(f"{self._stream} cannot have more cursors")

    def begin(self, reader: StreamReader) -> None:
        """A reader begins its cursor where it stands."""
        self._begun_by[reader.cursor] = reader.number
        self.put(reader.cursor, reader.position)

    def follow(self, reader: StreamReader) -> None:
        """A reader has settled or skipped something. Otherwise this is not called: its cursor may
        have been set meanwhile.
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

    def follow_all(self, readers: Iterable[StreamReader], now: int) -> None:
        """What they have settled is written soon."""
        for reader in readers:
            self.follow(reader)
        self._timer.moved(now)

    def move(self, name: str, next_offset: int) -> None:
        """Make a cursor, or move it. Raises `PreconditionFailed`."""
        self.check_new(name)
        end = self._files.end_offset()
        if not 0 <= next_offset <= end:
            raise PreconditionFailed(
                f"cursor '{name}' cannot be set to offset {next_offset}: "
                f"{self._stream} ends at {end}"
            )
        self.put(name, next_offset)
        self.write()

    def put(self, name: str, next_offset: int) -> None:
        """It is written with the next `write`."""
        table = self._files.cursors
        if table.numbers.get(name) != next_offset - 1:
            table.put(name, next_offset - 1)

    def remove(self, name: str) -> None:
        if name == FIRST_OFFSET or not self._files.cursors.remove(name):
            raise NotFound(f"no cursor '{name}' of {self._stream}")
        self._begun_by.pop(name, None)

    def write(self) -> None:
        self._files.write_cursors()

    def close(self) -> None:
        """The stream is deleted."""
        self._timer.stop()
