"""How much of a backlog one micro-batch takes: limits on messages and on bytes.

Streams share a budget by how much each has waiting. Octets are counted exactly, by positions in
the index: a few requests of 32 octets. A micro-batch has at least one message of each stream that
has any, however small the budget, so that the query makes progress.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.formats.stream_index import ENTRY_SIZE
from penstock.spark.broker_streams import segment_path, segment_tag, segments_of
from penstock.spark.progress import begin_of
from penstock.spark.segments import read_index

if TYPE_CHECKING:
    from penstock.spark.broker_streams import Segment, Stream
    from penstock.spark.http_client import BrokerClient
    from penstock.spark.progress import Progress


def admit(
    client: BrokerClient,
    streams: dict[str, Stream],
    start: Progress,
    ends: Progress,
    messages_max: int | None,
    bytes_max: int | None,
) -> Progress:
    """End offsets within the limits."""
    waiting: dict[str, tuple[int, int]] = {}
    for name, position in ends.items():
        first = max(begin_of(start.get(name), position), streams[name].first)
        if position.next > first:
            waiting[name] = (first, position.next)
    total = sum(end - first for first, end in waiting.values())
    admitted = dict(ends)
    for name, (first, end) in waiting.items():
        count = end - first
        if messages_max is not None and total > messages_max:
            count = max(1, messages_max * count // total)
        if bytes_max is not None:
            share = bytes_max * (end - first) // total
            count = _within(client, streams[name], first, first + count, share) - first
        admitted[name] = replace(ends[name], next=first + count)
    return admitted


def _within(client: BrokerClient, stream: Stream, start: int, end: int, octets: int) -> int:
    """The offset up to which there are `octets` of payload, between the message after start and
    end.
    """
    left = octets
    for segment in segments_of(client, stream, start, end):
        first = max(start, segment.first)
        last = min(end, segment.end)
        begin = _position(client, stream, segment, first)
        behind = _position(client, stream, segment, last)
        if behind - begin > left:
            return max(start + 1, _bisected(client, stream, segment, first, last, begin + left))
        left -= behind - begin
    return end


def _bisected(
    client: BrokerClient, stream: Stream, segment: Segment, first: int, last: int, limit: int
) -> int:
    """The largest offset whose position is within the limit; that of `last` is not."""
    while last - first > 1:
        middle = (first + last) // 2
        if _position(client, stream, segment, middle) <= limit:
            first = middle
        else:
            last = middle
    return first


def _position(client: BrokerClient, stream: Stream, segment: Segment, offset: int) -> int:
    """Where the payload of an offset begins; where the last one ends, for the segment's end."""
    if offset >= segment.end:
        return segment.log_bytes
    octets = client.read_range(
        segment_path(client, stream.name, segment.first, "index"),
        ENTRY_SIZE * (1 + offset - segment.first),
        ENTRY_SIZE,
        segment_tag(stream.identity, segment.first, "index"),
    )
    return int(read_index(octets)["position"][0])
