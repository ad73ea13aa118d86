"""A disk with no more than the guaranteed durability: unflushed data may be lost in a crash.

Invariants
- what a flush covered survives every crash completely;
- later data survives as a prefix torn at any byte, or by pages in any order, with zeros where a
  page is missing;
- creating, removing and cutting a file are undone by a crash unless a flush came after;
- the death of the process alone loses nothing that was appended, and makes nothing durable; but of
  what was appended in pieces, and of later data, it may lose an end that no flush covered;
- either drops the flushes in progress: they are never answered.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.world.disk import AppendFile, Disk, DiskFull, FlushListener

FLUSH_US_MIN: Final = 100
FLUSH_US_MAX: Final = 10_000
# Now and then a disk is busy with something else.
SLOW_CHANCE: Final = 0.05
SLOW_US: Final = 300_000
# What the page cache writes at once.
PAGE_BYTES: Final = 4096
# More than any run writes; a run that wants a full disk makes it smaller.
CAPACITY_BYTES: Final = 1 << 40


class SimulatedFile(AppendFile):
    """Held by the disk and by the code that opened it; after a crash only by the disk."""

    def __init__(self, disk: "SimulatedDisk", name: str, content: bytes) -> None:
        self._disk = disk
        self._incarnation = disk.incarnation
        self._name = name
        self.content = bytearray(content)
        self.durable_size = 0
        # Whether its entry in the folder is durable.
        self.is_entry_durable = False
        # What the file held before it was cut, until a flush covers the cut.
        self.before_cut: bytes | None = None
        # The range that a thread of the process may still have to write: its start and the end of
        # its last part; -1 for none.
        self._late_from = -1
        self._late_until = -1

    def size(self) -> int:
        self._check_alive()
        return len(self.content)

    def append(self, data: bytes) -> int:
        self._check_alive()
        room = self._disk.free_bytes()
        self.content += data[:room]
        if room < len(data):
            raise DiskFull(f"{self._name}: no space left on device")
        return len(self.content)

    def append_pieces(self, pieces: list[bytes]) -> int:
        if self._late_from < 0:
            self._late_from = len(self.content)
        end = super().append_pieces(pieces)
        self._late_until = end
        return end

    def is_written_late(self) -> bool:
        """Whether the death of the process may lose what no flush covers."""
        return self._late_from >= 0

    def read(self, position: int, size: int) -> bytes:
        self._check_alive()
        return bytes(self.content[position : position + size])

    def truncate(self, size: int) -> None:
        self._check_alive()
        if self.before_cut is None and size < self.durable_size:
            self.before_cut = bytes(self.content[: self.durable_size])
        del self.content[size:]
        self.durable_size = min(self.durable_size, size)

    def close(self) -> None:
        self._check_alive()

    def made_durable(self, size: int) -> None:
        self.durable_size = max(self.durable_size, min(size, len(self.content)))
        if self.durable_size >= self._late_until:
            self._late_from = -1
        elif self._late_from >= 0:
            self._late_from = max(self._late_from, self.durable_size)

    def lose_late(self, dice: Dice) -> None:
        """The process dies before it has written everything."""
        if self._late_from >= 0 and dice.chance(0.5):
            begin = max(self._late_from, self.durable_size)
            del self.content[dice.between(begin, len(self.content)) :]

    def in_a_new_process(self) -> "SimulatedFile":
        again = SimulatedFile(self._disk, self._name, bytes(self.content))
        again.durable_size = self.durable_size
        again.is_entry_durable = self.is_entry_durable
        again.before_cut = self.before_cut
        return again

    def after_power_loss(self, dice: Dice) -> "SimulatedFile | None":
        """What the disk holds of it, all of it durable now; None when it was never durable."""
        if not self.is_entry_durable and dice.chance(0.5):
            return None
        if self.before_cut is not None and dice.chance(0.5):
            content = self.before_cut
        else:
            size = len(self.content)
            kept = size if dice.chance(0.3) else dice.between(self.durable_size, size)
            content = bytes(self.content[:kept])
            if dice.chance(0.5):
                content = self._without_some_pages(content, dice)
        again = SimulatedFile(self._disk, self._name, content)
        again.durable_size = len(content)
        again.is_entry_durable = True
        return again

    def _without_some_pages(self, content: bytes, dice: Dice) -> bytes:
        left = bytearray(content)
        for page in range(self.durable_size // PAGE_BYTES * PAGE_BYTES, len(left), PAGE_BYTES):
            if dice.chance(0.5):
                begin = max(page, self.durable_size)
                end = min(page + PAGE_BYTES, len(left))
                left[begin:end] = bytes(end - begin)
        return bytes(left)

    def _check_alive(self) -> None:
        assert self._incarnation == self._disk.incarnation, "a crash ended whoever opened this file"


class SimulatedDisk(Disk):
    """Held by a node's host; outlives the node."""

    def __init__(self, clock: VirtualClock, dice: Dice) -> None:
        self._clock = clock
        self._dice = dice
        self.incarnation = 0
        self.capacity_bytes = CAPACITY_BYTES
        self._files: dict[str, SimulatedFile] = {}
        # Removed, but not durably yet.
        self._removed: dict[str, SimulatedFile] = {}
        self._fails_next = False
        self._flush_ends = 0
        # What the clock showed when the machine's own began.
        self.boot_ms = 0
        # Called with every request for a flush, and behind every answer to one.
        self.when_asked: Callable[[], None] | None = None
        self.when_answered: Callable[[], None] | None = None
        # Whether something was still to be written when the process was last killed.
        self.was_written_late = False
        # Removals that the last power loss undid.
        self.undone_names: list[str] = []

    def open(self, name: str) -> AppendFile:
        if name not in self._files:
            self._removed.pop(name, None)
            self._files[name] = SimulatedFile(self, name, b"")
        return self._files[name]

    def names(self) -> list[str]:
        return sorted(self._files)

    def remove(self, name: str) -> None:
        self._removed[name] = self._files.pop(name)

    def free_bytes(self) -> int:
        used = sum([len(file.content) for file in self._files.values()])
        return max(0, self.capacity_bytes - used)

    def flush(self, files: list[AppendFile], token: int, listener: FlushListener) -> None:
        if self.when_asked is not None:
            self.when_asked()
        delay = self._dice.between(FLUSH_US_MIN, FLUSH_US_MAX)
        if self._dice.chance(SLOW_CHANCE):
            delay += SLOW_US
        # One disk does one thing after the other.
        self._flush_ends = max(self._flush_ends, self._clock.microseconds) + delay
        flush = SimulatedFlush(self, files, token, listener, self._fails_next)
        self._fails_next = False
        self._clock.after(
            self._flush_ends - self._clock.microseconds, partial(self._flushed, flush)
        )

    def flush_now(self, files: list[AppendFile]) -> None:
        self._make_safe(SimulatedFlush(self, files, 0, Nobody(), fails=False))

    def _flushed(self, flush: "SimulatedFlush") -> None:
        if flush.incarnation != self.incarnation:
            return
        now = self._clock.now() - self.boot_ms
        if flush.fails:
            flush.listener.flush_failed("input/output error", now)
        else:
            self._make_safe(flush)
            flush.listener.flushed(flush.token, now)
        if self.when_answered is not None:
            self.when_answered()

    def _make_safe(self, flush: "SimulatedFlush") -> None:
        for file, size in flush.sizes:
            file.made_durable(size)
        for file in flush.cut:
            file.before_cut = None
        for file in flush.entries:
            file.is_entry_durable = True
        for name in flush.removed:
            self._removed.pop(name, None)

    def entries(self) -> list[SimulatedFile]:
        return list(self._files.values())

    def removed_names(self) -> list[str]:
        return list(self._removed)

    # Faults.

    def fail_next_flush(self) -> None:
        self._fails_next = True

    def fill_up(self, room: int) -> None:
        """Another program takes all the space but this much."""
        used = sum([len(file.content) for file in self._files.values()])
        self.capacity_bytes = used + room

    def heal(self) -> None:
        self._fails_next = False
        self.capacity_bytes = CAPACITY_BYTES

    def kill(self) -> None:
        """The process dies and the machine continues; files must be opened again."""
        self._next_incarnation()
        self.was_written_late = any([file.is_written_late() for file in self._files.values()])
        for file in self._files.values():
            file.lose_late(self._dice)
        self._files = {name: file.in_a_new_process() for name, file in self._files.items()}
        self._removed = {name: file.in_a_new_process() for name, file in self._removed.items()}

    def crash(self) -> None:
        """The power is lost and restored; files must be opened again."""
        self._next_incarnation()
        # Each removal for itself: a folder is not written in order either.
        undone = {name: file for name, file in self._removed.items() if self._dice.chance(0.5)}
        survivors = {**undone, **self._files}
        self._files = {}
        self._removed = {}
        for name in sorted(survivors):
            file = survivors[name].after_power_loss(self._dice)
            if file is not None:
                self._files[name] = file
        self.undone_names = sorted(set(undone) & set(self._files))

    def _next_incarnation(self) -> None:
        self.incarnation += 1
        self._fails_next = False
        self._flush_ends = 0


class SimulatedFlush:
    """A flush in progress: it makes durable what was written when it was requested. Held by the
    clock.
    """

    def __init__(
        self,
        disk: SimulatedDisk,
        files: list[AppendFile],
        token: int,
        listener: FlushListener,
        fails: bool,
    ) -> None:
        ours = [file for file in files if isinstance(file, SimulatedFile)]
        assert len(ours) == len(files), "every disk has its own kind of file"
        self.incarnation = disk.incarnation
        self.sizes = [(file, file.size()) for file in ours]
        self.cut = [file for file in ours if file.before_cut is not None]
        self.entries = disk.entries()
        self.removed = disk.removed_names()
        self.token = token
        self.listener = listener
        self.fails = fails


class Nobody(FlushListener):
    """The listener of a synchronous flush."""

    def flushed(self, token: int, now: int) -> None:
        raise AssertionError("nobody is told")

    def flush_failed(self, reason: str, now: int) -> None:
        raise AssertionError("nobody is told")
