"""The progress of a query in each stream: the offset that Spark keeps in its checkpoint.

    {"streams": {"orders-0": {"id": "...", "begin": 0, "next": 4711}}}

`id` is the stream's identity, so that one which was deleted and declared again is noticed. `begin`
is where the query started to read the stream: a stream that is in the end of a micro-batch and not
in its start is read from there, in a replay as in the first attempt.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.spark.errors import DataLost, PipelineError, StreamReplaced

if TYPE_CHECKING:
    from penstock.spark.broker_streams import Stream

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Position:
    identity: str
    begin: int
    next: int


Progress = dict[str, Position]


def write_progress(progress: Progress) -> dict[str, Any]:
    return {
        "streams": {
            name: {"id": position.identity, "begin": position.begin, "next": position.next}
            for name, position in sorted(progress.items())
        }
    }


def read_progress(offset: dict[str, Any]) -> Progress:
    streams = offset.get("streams")
    if not isinstance(streams, dict):
        raise PipelineError(
            f"the checkpoint holds {offset!r}, which is not an offset of streams: it belongs to "
            "another query. Give this query its own checkpoint location."
        )
    return {
        name: Position(str(kept["id"]), int(kept["begin"]), int(kept["next"]))
        for name, kept in streams.items()
    }


@dataclass(frozen=True, slots=True)
class Extent:
    """Offsets of one stream that a micro-batch reads."""

    stream: Stream
    start: int
    end: int


def is_behind(streams: dict[str, Stream], known: Progress) -> bool:
    """Whether one of the streams ends before what is known of it."""
    for name, position in known.items():
        stream = streams.get(name)
        if stream is not None and stream.identity == position.identity:
            if stream.end < position.next:
                return True
    return False


def ends_of(streams: dict[str, Stream], start: Progress | None, fails: bool) -> Progress:
    """All that can be read now; streams that are new since `start` from their beginning."""
    ends: Progress = {}
    for name, stream in streams.items():
        known = None if start is None else start.get(name)
        if known is None or known.identity != stream.identity:
            if known is not None:
                lose(_replaced(name), fails)
            ends[name] = Position(stream.identity, stream.first, stream.end)
            continue
        if stream.end < known.next:
            lose(_turned_back(name, stream.end, known.next), fails)
        _check_retention(stream, known.next, fails)
        ends[name] = replace(known, next=max(known.next, stream.end))
    for name in (start or {}).keys() - streams.keys():
        lose(_missing(name), fails)
    return ends


def extents_between(
    streams: dict[str, Stream], start: Progress, end: Progress, fails: bool
) -> list[Extent]:
    """What a micro-batch reads, the first time or again. Raises `DataLost`, or skips missing
    messages.
    """
    _check_end(start, end, fails)
    extents: list[Extent] = []
    for name, position in end.items():
        first = begin_of(start.get(name), position)
        if first >= position.next:
            continue
        stream = streams.get(name)
        if stream is None:
            lose(DataLost(f"stream '{name}' was deleted before it was read"), fails)
            continue
        if stream.identity != position.identity:
            lose(_replaced(name), fails)
            continue
        _check_retention(stream, first, fails)
        last = min(position.next, stream.end)
        if last < position.next:
            lose(DataLost(f"stream '{name}' ends at offset {last}, before {position.next}"), fails)
        if max(first, stream.first) < last:
            extents.append(Extent(stream, max(first, stream.first), last))
    return extents


def _check_end(start: Progress, end: Progress, fails: bool) -> None:
    """Spark 4.0 and 4.1 ask for an end without saying the start, so here it is seen first."""
    for name, known in start.items():
        position = end.get(name)
        if position is None:
            lose(_missing(name), fails)
        elif position.identity != known.identity:
            lose(_replaced(name), fails)
        elif position.next < known.next:
            lose(_turned_back(name, position.next, known.next), fails)


def begin_of(known: Position | None, end: Position) -> int:
    """Where a micro-batch begins in a stream that ends it with `end`."""
    if known is not None and known.identity == end.identity:
        return known.next
    return end.begin


def lost_range(name: str, start: int, end: int) -> DataLost:
    return DataLost(
        f"offsets {start} to {end - 1} of stream '{name}' were removed by retention before the "
        "query had read them. Retain more (x-max-age, x-max-length-bytes), or set "
        "failOnDataLoss=false to continue after the gap."
    )


def _check_retention(stream: Stream, wanted: int, fails: bool) -> None:
    if wanted < stream.first:
        lose(lost_range(stream.name, wanted, stream.first), fails)


def _missing(name: str) -> DataLost:
    return DataLost(f"stream '{name}', which the query has read, no longer exists")


def _turned_back(name: str, end: int, known: int) -> DataLost:
    return DataLost(
        f"stream '{name}' ends at offset {end}, but the query has read up to {known}: the broker "
        "runs on an older copy of its data"
    )


def _replaced(name: str) -> StreamReplaced:
    return StreamReplaced(
        f"stream '{name}' was deleted and declared again since the query began: its offsets refer "
        "to other messages now. Use a new checkpoint, or set failOnDataLoss=false to continue with "
        "the new stream from its beginning"
    )


def lose(loss: DataLost, fails: bool) -> None:
    """Raise it, or only log it."""
    if fails:
        raise loss
    log.warning("%s; going on, since failOnDataLoss is false", loss)
