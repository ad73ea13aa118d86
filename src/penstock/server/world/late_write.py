"""Data that was appended to a file and is written by the disk's thread; readable meanwhile."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate


class LateWrite:
    """Data that the thread writes. Held by its file until it is written."""

    def __init__(self, start: int, pieces: list[bytes]) -> None:
        self.start = start
        self.pieces = pieces
        # Where each piece ends in the file.
        self._ends = list(accumulate(map(len, pieces), initial=start))[1:]
        self.end = self._ends[-1]

    def read(self, position: int, size: int) -> bytes:
        found: list[bytes] = []
        index = bisect_right(self._ends, position)
        while size > 0 and index < len(self.pieces):
            piece = self.pieces[index]
            at = position - (self._ends[index] - len(piece))
            found.append(piece[at : at + size])
            position += len(found[-1])
            size -= len(found[-1])
            index += 1
        return b"".join(found)
