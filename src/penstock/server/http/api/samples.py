"""What was counted over time, and what RabbitMQ's clients are told of it.

A series keeps one row of numbers for each sample. A rate is the difference of the last two rows; a
client that names an age and an increment also gets the samples, newest first.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.server.http.api.listing import Row

# RabbitMQ's interval.
SAMPLE_MS: Final = 5_000
# Ten minutes of samples, as RabbitMQ keeps at this interval: 121 rows.
ROWS_MAX: Final = 600_000 // SAMPLE_MS + 1
# One minute, which is what its clients ask for unless they are told otherwise. Objects beyond
# `FULL_SERIES_MAX` keep this much: ten thousand queues then take 11 MB instead of 90.
SHORT_ROWS_MAX: Final = 60_000 // SAMPLE_MS + 1
FULL_SERIES_MAX: Final = 1_000
# Of a whole broker an hour is kept.
TOTAL_ROWS_MAX: Final = 3_600_000 // SAMPLE_MS + 1

# The kinds of samples that a client may ask for, by the beginning of the names of its queries.
LENGTHS: Final = "lengths"
MESSAGE_RATES: Final = "msg_rates"
DATA_RATES: Final = "data_rates"
NODE_STATS: Final = "node_stats"
KINDS: Final = (LENGTHS, MESSAGE_RATES, DATA_RATES, NODE_STATS)
# Longer ages are cut off: nothing is kept for so long. A number with more digits is refused.
_DIGITS_MAX: Final = 9


@dataclass(frozen=True, slots=True)
class Span:
    """Which samples a client wants: so many seconds back, one every so many seconds."""

    age_ms: int
    step_ms: int


class Spans:
    """The spans of one request, by their kinds. Held by the request."""

    def __init__(self, query: Callable[[str], str]) -> None:
        """Raises a `Problem` for what is not a number."""
        self._spans = {kind: _span(query, kind) for kind in KINDS}

    def of(self, kind: str) -> Span | None:
        return self._spans[kind]

    @property
    def is_empty(self) -> bool:
        return not any(self._spans.values())


def _span(query: Callable[[str], str], kind: str) -> Span | None:
    age, step = query(f"{kind}_age"), query(f"{kind}_incr")
    if not age or not step:
        return None
    for text in (age, step):
        if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
            raise Problem(400, f"{kind}_age and {kind}_incr must be numbers of seconds")
    # What was not sampled cannot be shown, so the step is a number of samples.
    steps = max(1, -(-int(step) * 1000 // SAMPLE_MS))
    return Span(int(age) * 1000, steps * SAMPLE_MS)


class Series:
    """Rows of one object: a time in milliseconds and its numbers. Held by the sampler, which adds to
    it on the broker's loop; others take a copy there (`recent`, `all`).
    """

    __slots__ = ("_rows", "_size_max", "width")

    def __init__(self, width: int, rows_max: int) -> None:
        # Numbers in a row beside its time.
        self.width = width
        self._rows = array("q")
        self._size_max = (width + 1) * rows_max

    def add(self, at: int, numbers: tuple[int, ...]) -> None:
        assert len(numbers) == self.width, "every row of a series has the same numbers"
        rows = self._rows
        rows.append(at)
        rows.extend(numbers)
        if len(rows) > self._size_max:
            del rows[: self.width + 1]

    def taken(self, is_whole: bool) -> SampleHistory:
        """A copy of all rows, or of the two that a rate needs."""
        rows = self._rows[:] if is_whole else self._rows[-2 * (self.width + 1) :]
        return SampleHistory(rows, self.width + 1)


class SampleHistory:
    """Rows that no longer change. Held by the request that shows them."""

    __slots__ = ("_rows", "_size")

    def __init__(self, rows: array[int], size: int) -> None:
        self._rows = rows
        self._size = size

    def rate(self, column: int) -> float:
        """Per second, over the last interval. 0 until there are two samples."""
        rows, size = self._rows, self._size
        end = len(rows)
        if end < 2 * size:
            return 0.0
        milliseconds = rows[end - size] - rows[end - 2 * size]
        difference = rows[end - size + 1 + column] - rows[end - 2 * size + 1 + column]
        return difference * 1000 / milliseconds if milliseconds > 0 else 0.0

    def details(self, column: int, span: Span | None) -> Row:
        details: Row = {"rate": self.rate(column)}
        if span is None:
            return details
        samples = self._samples(column, span)
        if samples:
            first, last = samples[-1], samples[0]
            seconds = (last[0] - first[0]) / 1000
            details["samples"] = [{"sample": value, "timestamp": at} for at, value in samples]
            details["avg"] = sum(value for _, value in samples) / len(samples)
            details["avg_rate"] = (last[1] - first[1]) / seconds if seconds > 0 else 0.0
        else:
            details.update({"samples": [], "avg": 0.0, "avg_rate": 0.0})
        return details

    def _samples(self, column: int, span: Span) -> list[tuple[int, int]]:
        """Newest first: the value at each step back."""
        rows, size = self._rows, self._size
        found: list[tuple[int, int]] = []
        at = len(rows) - size
        if at < 0:
            return found
        wanted = rows[at]
        oldest = wanted - span.age_ms
        while at >= 0 and wanted >= oldest:
            if rows[at] <= wanted:
                found.append((wanted, rows[at + 1 + column]))
                wanted -= span.step_ms
            else:
                at -= size
        return found


# Of something that was not sampled yet.
NOTHING_SAMPLED: Final = SampleHistory(array("q"), 1)
