"""Counters shared by the loader, the publishing process and the consuming process.

A file mapped by all three, one 64-bit word per counter. Invariant: every word has exactly one
writer, so plain aligned stores are enough and no lock is ever taken in a measured loop.
"""

import enum
import mmap
from pathlib import Path

WORD_BYTES = 8
FIXED_WORDS = 3


class Phase(enum.IntEnum):
    """What the load processes are to do; only the loader changes it."""

    CONNECT = 0
    RUN = 1
    DRAIN = 2
    STOP = 3


class Board:
    """Held by each of the three processes over the same file."""

    def __init__(self, path: Path, publishers: int, consumers: int) -> None:
        size = WORD_BYTES * (FIXED_WORDS + 3 * publishers + consumers)
        if not path.exists():
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)
        self.words = memoryview(self._map).cast("Q")
        published = FIXED_WORDS
        confirmed = published + publishers
        due = confirmed + publishers
        delivered = due + publishers
        # Slices of one view: writing to them writes to the file.
        self.published = self.words[published:confirmed]
        self.confirmed = self.words[confirmed:due]
        # Deliveries that each of the publisher's consumers must have received at the end.
        self.due = self.words[due:delivered]
        self.delivered = self.words[delivered : delivered + consumers]

    @property
    def phase(self) -> Phase:
        return Phase(self.words[0])

    @phase.setter
    def phase(self, phase: Phase) -> None:
        self.words[0] = phase

    @property
    def everybody_ready(self) -> bool:
        return self.words[1] == 1 and self.words[2] == 1

    def publishers_ready(self) -> None:
        self.words[1] = 1

    def consumers_ready(self) -> None:
        self.words[2] = 1

    def close(self) -> None:
        for view in (self.published, self.confirmed, self.due, self.delivered, self.words):
            view.release()
        self._map.close()
