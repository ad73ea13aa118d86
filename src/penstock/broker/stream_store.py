"""Where the streams of a broker are stored, and how they learn that what they wrote is durable.

A stream appends to its own files and reports that here. The node's storage flushes these files at
the end of a tick together with its own (`take_dirty`) and says when they are durable
(`became_durable`). In a broker without a disk, `is_flushed` is False and nothing waits.
"""

from penstock.broker.message import MessageDecoder
from penstock.storage.flush_waiter import FlushWaiter
from penstock.storage.memory_disk import MemoryDisk
from penstock.world.disk import AppendFile, Disk, DiskError


class FlushMark:
    """How far one waiter had appended when a flush was asked for."""

    def __init__(self, position: int, waiter: FlushWaiter, mark: int) -> None:
        self.position: int = position
        self.waiter: FlushWaiter = waiter
        self.mark: int = mark


class StreamStore:
    """Held by the broker's state and shared by its virtual hosts."""

    def __init__(self) -> None:
        self.disk: Disk = MemoryDisk()
        # A dialect's decoder for the messages of a segment.
        self.decoder: MessageDecoder = MessageDecoder()
        # Whether files are flushed at the end of each tick, so that confirms and readers wait.
        self.is_flushed: bool = False
        # Whether what was written is to be flushed at the end of this tick.
        self.is_due: bool = False
        # Up to where streams were durable when the store was opened, by their folders.
        self.durable_ends: dict[str, int] = {}
        # Why nothing more is written; empty while the disk works.
        self.failure: str = ""
        # Dictionaries for their order and their quick look-up.
        self._files: dict[AppendFile, None] = {}
        self._waiters: dict[FlushWaiter, None] = {}
        self._marks: list[FlushMark] = []

    def wrote(self, waiter: FlushWaiter, files: list[AppendFile]) -> None:
        """Octets were appended to these files that somebody waits for."""
        if not self.is_flushed:
            mark = waiter.mark()
            waiter.became_durable(mark, 0)
            return
        self.is_due = True
        self.wrote_meanwhile(waiter, files)

    def wrote_meanwhile(self, waiter: FlushWaiter, files: list[AppendFile]) -> None:
        """The same where nobody waits, because the journal has it, too: it is flushed when `is_due`
        says so.
        """
        for file in files:
            self._files[file] = None
        self._waiters[waiter] = None

    def is_dirty(self) -> bool:
        if self.failure:
            return True
        return bool(self._waiters) and self.is_due

    def has_unflushed(self) -> bool:
        return bool(self._waiters)

    def take_dirty(self, position: int) -> list[AppendFile]:
        """The files that the flush now asked for must cover. `position` identifies it: a later
        `became_durable` with this or a higher one means that it is done. Raises a `DiskError` when
        something could not be written: then nothing of this tick may be answered.
        """
        if self.failure:
            raise DiskError(self.failure)
        self.is_due = False
        for waiter in self._waiters:
            self._marks.append(FlushMark(position, waiter, waiter.mark()))
        self._waiters = {}
        files = list(self._files)
        self._files = {}
        return files

    def became_durable(self, position: int, now: int) -> None:
        while self._marks and self._marks[0].position <= position:
            mark = self._marks.pop(0)
            mark.waiter.became_durable(mark.mark, now)
