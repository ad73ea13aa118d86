"""A disk that keeps its promises and no more: what was not flushed may be gone after a crash.

Invariants
- what a flush covered survives every crash, whole;
- of what came behind it a prefix survives, torn at any octet;
- a removal is undone by a crash unless a flush came after it;
- a crash forgets the flushes that were on their way: nobody hears of them.
"""

from functools import partial
from typing import Final

from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.world.disk import AppendFile, Disk, FlushListener

FLUSH_US_MIN: Final = 100
FLUSH_US_MAX: Final = 10_000
# Now and then a disk is busy with something else.
SLOW_CHANCE: Final = 0.05
SLOW_US: Final = 300_000


class SimulatedFile(AppendFile):
    """Held by the disk and by who opened it; a crash leaves only the disk's hold."""

    def __init__(self, disk: "SimulatedDisk", content: bytes) -> None:
        self._disk = disk
        self._incarnation = disk.incarnation
        self.content = bytearray(content)
        self.durable_size = len(content)

    def append(self, data: bytes) -> int:
        self._check_alive()
        self.content += data
        return len(self.content)

    def request_flush(self, listener: FlushListener) -> None:
        self._check_alive()
        self._disk.flush(self, len(self.content), listener)

    def read(self, position: int, size: int) -> bytes:
        self._check_alive()
        return bytes(self.content[position : position + size])

    def _check_alive(self) -> None:
        assert self._incarnation == self._disk.incarnation, "a crash ended whoever opened this file"


class SimulatedDisk(Disk):
    """Held by a node's host; outlives the node."""

    def __init__(self, clock: VirtualClock, dice: Dice) -> None:
        self._clock = clock
        self._dice = dice
        self.incarnation = 0
        self._files: dict[str, SimulatedFile] = {}
        # Removed, but not yet for good.
        self._removed: dict[str, SimulatedFile] = {}
        self._fails_next = False
        self._flush_ends = 0

    def open(self, name: str) -> AppendFile:
        if name not in self._files:
            self._removed.pop(name, None)
            self._files[name] = SimulatedFile(self, b"")
        return self._files[name]

    def names(self) -> list[str]:
        return sorted(self._files)

    def remove(self, name: str) -> None:
        self._removed[name] = self._files.pop(name)

    def flush(self, file: SimulatedFile, position: int, listener: FlushListener) -> None:
        delay = self._dice.between(FLUSH_US_MIN, FLUSH_US_MAX)
        if self._dice.chance(SLOW_CHANCE):
            delay += SLOW_US
        # One disk does one thing after the other.
        self._flush_ends = max(self._flush_ends, self._clock.microseconds) + delay
        fails = self._fails_next
        self._fails_next = False
        removed = list(self._removed)
        self._clock.after(
            self._flush_ends - self._clock.microseconds,
            partial(self._flushed, self.incarnation, file, position, removed, listener, fails),
        )

    def _flushed(
        self,
        incarnation: int,
        file: SimulatedFile,
        position: int,
        removed: list[str],
        listener: FlushListener,
        fails: bool,
    ) -> None:
        if incarnation != self.incarnation:
            return
        if fails:
            listener.flush_failed("input/output error", self._clock.now())
            return
        file.durable_size = max(file.durable_size, position)
        for name in removed:
            self._removed.pop(name, None)
        listener.flushed(position, self._clock.now())

    # What goes wrong.

    def fail_next_flush(self) -> None:
        self._fails_next = True

    def crash(self) -> None:
        """The power goes and comes back; files must be opened anew."""
        self.incarnation += 1
        self._fails_next = False
        self._flush_ends = 0
        survivors = {**self._files, **self._removed}
        self._files = {}
        self._removed = {}
        for name in sorted(survivors):
            file = survivors[name]
            kept = self._dice.between(file.durable_size, len(file.content))
            if kept or self._dice.chance(0.5):
                self._files[name] = SimulatedFile(self, bytes(file.content[:kept]))
