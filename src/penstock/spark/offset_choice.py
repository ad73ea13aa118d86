"""Where reading begins or ends, as an option gives it, and the offset in each stream.

earliest | latest | next | last | 4711 | 15m | interval:7D
{"orders-0": 4711, "orders-1": "earliest"}      each stream of several, by its name
"""

from __future__ import annotations

import json
import logging
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from penstock.spark.broker_streams import Stream, offset_at
from penstock.spark.errors import OptionError

if TYPE_CHECKING:
    from penstock.spark.http_client import BrokerClient

log = logging.getLogger(__name__)

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
LAST: Final = "last"
# `first` and `next` are RabbitMQ's words for streams.
_WORDS: Final = {
    "earliest": EARLIEST,
    "first": EARLIEST,
    "latest": LATEST,
    "next": LATEST,
    "last": LAST,
}
_INTERVAL: Final = re.compile(r"(?:interval:)?\s*(\d{1,9})\s*([YMDhms])", re.ASCII)
_UNIT_SECONDS: Final = {
    "Y": 365 * 86_400,
    "M": 30 * 86_400,
    "D": 86_400,
    "h": 3600,
    "m": 60,
    "s": 1,
}
# Kafka's connector writes them so in its JSON.
_KAFKA_NUMBERS: Final = {-2: EARLIEST, -1: LATEST}
_FORM: Final = (
    "Use earliest, latest, last, an offset, an interval such as 15m or 7D, or JSON with one of "
    "these for each stream's name."
)


@dataclass(frozen=True, slots=True)
class OffsetChoice:
    """One of a word, an offset, a time, an interval, or a choice per stream. Pickles."""

    option: str
    word: str | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    interval_ms: int | None = None
    each: tuple[tuple[str, OffsetChoice], ...] = ()

    def in_stream(self, client: BrokerClient, stream: Stream, fail_on_loss: bool) -> int:
        """The offset; raises `OptionError` when it is outside the stream."""
        if self.each:
            choice = dict(self.each).get(stream.name)
            if choice is None:
                raise OptionError(
                    self.option,
                    f"it has no entry for stream '{stream.name}'",
                    "List every stream that is read, and partitions by their own names.",
                )
            return choice.in_stream(client, stream, fail_on_loss)
        if self.word == EARLIEST:
            return stream.first
        if self.word == LATEST:
            return stream.end
        if self.word == LAST:
            return max(stream.first, stream.end - 1)
        if self.offset is not None:
            return self._checked(self.offset, stream, fail_on_loss)
        if self.interval_ms is not None:
            return offset_at(client, stream, time.time_ns() // 1_000_000 - self.interval_ms)
        assert self.timestamp_ms is not None
        return offset_at(client, stream, self.timestamp_ms)

    def _checked(self, offset: int, stream: Stream, fail_on_loss: bool) -> int:
        if stream.first <= offset <= stream.end:
            return offset
        problem = (
            f"offset {offset} is out of range: stream '{stream.name}' has the offsets "
            f"{stream.first} to {stream.end - 1}; the next one is {stream.end}"
        )
        if stream.first == stream.end:
            problem = (
                f"offset {offset} is out of range: stream '{stream.name}' is empty; the next "
                f"offset is {stream.end}"
            )
        if offset > stream.end or fail_on_loss:
            raise OptionError(
                self.option,
                problem,
                "Choose another offset or earliest; with failOnDataLoss=false the first available "
                "offset replaces a lower one.",
            )
        log.warning("%s; reading from %d", problem, stream.first)
        return stream.first

    def check_names(self, streams: dict[str, Stream]) -> None:
        unknown = [name for name, _ in self.each if name not in streams]
        if unknown:
            raise OptionError(
                self.option,
                f"{', '.join(map(repr, unknown))} is not among the streams that are read",
                f"The streams are: {', '.join(streams)}.",
            )


def read_choice(option: str, text: str) -> OffsetChoice:
    """Raises `OptionError`."""
    text = text.strip()
    if text.startswith("{"):
        return _read_each(option, text)
    word = _WORDS.get(text.lower())
    if word is not None:
        return OffsetChoice(option, word=word)
    if text.isascii() and text.isdigit():
        return OffsetChoice(option, offset=int(text))
    form = _INTERVAL.fullmatch(text)
    if form is not None:
        milliseconds = int(form.group(1)) * _UNIT_SECONDS[form.group(2)] * 1000
        return OffsetChoice(option, interval_ms=milliseconds)
    raise OptionError(option, f"cannot parse {text[:100]!r}", _FORM)


def _read_each(option: str, text: str) -> OffsetChoice:
    try:
        read = json.loads(text)
    except ValueError as error:
        raise OptionError(option, f"it is not valid JSON: {error}", _FORM) from None
    each: list[tuple[str, OffsetChoice]] = []
    for name, value in read.items():
        if value in _KAFKA_NUMBERS:
            value = _KAFKA_NUMBERS[value]  # noqa: PLW2901
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise OptionError(option, f"{value!r} is not a valid offset", _FORM)
        choice = read_choice(option, str(value))
        if choice.each:
            raise OptionError(option, "nested JSON is not allowed", _FORM)
        each.append((name, choice))
    if not each:
        raise OptionError(option, "it lists no stream", _FORM)
    return OffsetChoice(option, each=tuple(each))


def read_time(option: str, text: str) -> OffsetChoice:
    """Milliseconds since 1970, or a date with an hour. Raises `OptionError`."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return OffsetChoice(option, timestamp_ms=int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            option,
            f"cannot parse {text[:60]!r}",
            "Use milliseconds since 1970, or a time such as 2026-11-15T12:00:00Z.",
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return OffsetChoice(option, timestamp_ms=int(moment.timestamp() * 1000))
