"""Which sink received which message: the records that show loss, duplication and disorder.

Invariants: a message is counted once as received; a second arrival is a duplicate, *flagged* when
the broker said `redelivered`; order is judged among first arrivals, as one sink saw them.
"""

import zlib
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

# Octets added at a time, one per message: few growths even at a million messages per second.
GROWTH: Final = 1 << 20

# Marks in a record, one byte per message.
ABSENT: Final = 0
PLAIN: Final = 1
REDELIVERED: Final = 2

# Enough to search for in a log; a run that loses more usually has one cause for all of them.
EXAMPLES_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class ArrivalsPage:
    """A record as it is sent from a sink's process to the crew; `marks` are compressed."""

    marks: bytes
    duplicates_flagged: int
    duplicates_unflagged: int
    out_of_order: int


class Arrivals:
    """What one sink received of one publisher from one queue."""

    def __init__(self) -> None:
        self._marks: bytearray = bytearray()
        self._highest: int = -1
        self._duplicates_flagged: int = 0
        self._duplicates_unflagged: int = 0
        self._out_of_order: int = 0

    def enter(self, sequence: int, redelivered: bool) -> bool:
        """Whether this was the message's first arrival."""
        marks = self._marks
        while sequence >= len(marks):
            marks.extend(bytes(GROWTH))
        if marks[sequence]:
            if redelivered:
                self._duplicates_flagged += 1
            else:
                self._duplicates_unflagged += 1
            return False
        marks[sequence] = REDELIVERED if redelivered else PLAIN
        if sequence > self._highest:
            self._highest = sequence
        elif not redelivered:
            self._out_of_order += 1
        return True

    def page(self) -> ArrivalsPage:
        return ArrivalsPage(
            # Level 1: the marks are nearly all alike, more effort gains nothing.
            marks=zlib.compress(self._marks[: self._highest + 1], 1),
            duplicates_flagged=self._duplicates_flagged,
            duplicates_unflagged=self._duplicates_unflagged,
            out_of_order=self._out_of_order,
        )


@dataclass(slots=True)
class Account:
    """Everything that the sinks of one run received, compared with what was confirmed to the
    faucets.
    """

    received: int = 0
    # Confirmed (or, without confirms, published) and never received from a queue it was routed to.
    lost: int = 0
    # Refused or unanswered by the broker, and not delivered: these are not lost.
    not_promised: int = 0
    duplicates_flagged: int = 0
    duplicates_unflagged: int = 0
    out_of_order: int = 0
    # (queue, publisher, sequence) of the first losses found.
    examples_lost: list[tuple[str, int, int]] = field(default_factory=list)

    def settle(
        self,
        queue: str,
        publisher: int,
        sent: int,
        unpromised: Collection[int],
        pages: list[ArrivalsPage],
    ) -> None:
        """Enter one queue's pages, one per sink that consumed it, for one publisher."""
        total = bytearray(sent)
        for index, page in enumerate(pages):
            self.duplicates_flagged += page.duplicates_flagged
            self.duplicates_unflagged += page.duplicates_unflagged
            self.out_of_order += page.out_of_order
            marks = zlib.decompress(page.marks)
            total.extend(bytes(max(0, len(marks) - len(total))))
            if index == 0:
                total[: len(marks)] = marks
            else:
                self._merge(total, marks)
        self.received += len(total) - total.count(ABSENT)
        self._explain_missing(queue, publisher, total, unpromised)

    def _merge(self, total: bytearray, marks: bytes) -> None:
        for sequence, mark in enumerate(marks):
            if not mark:
                continue
            before = total[sequence]
            if before == ABSENT:
                total[sequence] = mark
            elif REDELIVERED in (before, mark):
                self.duplicates_flagged += 1
            else:
                self.duplicates_unflagged += 1

    def _explain_missing(
        self, queue: str, publisher: int, total: bytearray, unpromised: Collection[int]
    ) -> None:
        sequence = total.find(ABSENT)
        while sequence >= 0:
            if sequence in unpromised:
                self.not_promised += 1
            else:
                self.lost += 1
                if len(self.examples_lost) < EXAMPLES_MAX:
                    self.examples_lost.append((queue, publisher, sequence))
            sequence = total.find(ABSENT, sequence + 1)
