"""Requests to the broker's pages about streams (docs/HTTP.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from penstock.spark.errors import BrokerRefused, OptionError
from penstock.spark.http_client import BrokerClient

# Beyond any offset: asks for a stream without its segments.
_NO_SEGMENTS: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream as it stands at one moment; a partition of one, or by itself.

    `identity` distinguishes it from an earlier, deleted one of the same name. Offsets from `first`
    up to but not including `end` can be read.
    """

    name: str
    parent: str
    number: int
    identity: str
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Segment:
    first: int
    end: int
    first_timestamp: int
    last_timestamp: int
    log_bytes: int

    def mean_bytes(self) -> float:
        return self.log_bytes / max(1, self.end - self.first)


@dataclass(frozen=True, slots=True)
class Subscription:
    """The streams that the options name. Resolved for every micro-batch, so that new ones are
    found.
    """

    names: tuple[str, ...] = ()
    pattern: str | None = None

    def resolve(self, client: BrokerClient, may_be_empty: bool = False) -> dict[str, Stream]:
        """By name, in order; raises `OptionError` when a named stream does not exist, or a required
        pattern matches nothing.
        """
        found: dict[str, Stream] = {}
        if self.pattern is not None:
            for facts in client.get_json(client.path("streams", client.access.vhost))["streams"]:
                if re.fullmatch(self.pattern, facts["name"]):
                    found.update(_streams_in(facts))
            if not found and not may_be_empty:
                raise OptionError(
                    "streamPattern",
                    f"no stream in virtual host '{client.access.vhost}' matches "
                    f"'{self.pattern}', which must match a whole name",
                    "Declare one first, or correct the pattern or the virtual host of 'uri'.",
                )
        for name in self.names:
            found.update(_streams_in(_describe(client, name, _NO_SEGMENTS)))
        return dict(sorted(found.items()))


def segments_of(client: BrokerClient, stream: Stream, start: int, end: int) -> list[Segment]:
    """The segments that hold offsets of a range, as far as they still exist."""
    found: list[Segment] = []
    at: int | None = start
    while at is not None and at < end:
        facts = _describe(client, stream.name, at)
        found += [_segment(segment) for segment in facts["segments"]]
        at = facts["segments_from"]
    return [segment for segment in found if segment.first < end]


def offset_at(client: BrokerClient, stream: Stream, timestamp_ms: int) -> int:
    """The first message that is not older; the end when all are."""
    path = client.path(
        "streams", client.access.vhost, stream.name, "offset", timestamp=max(0, timestamp_ms)
    )
    return int(client.get_json(path)["offset"])


def segment_path(client: BrokerClient, stream: str, segment: int, kind: str) -> str:
    return client.path("streams", client.access.vhost, stream, "segments", segment, kind)


def segment_tag(identity: str, segment: int, kind: str) -> str:
    """As the broker names the file in its ETag."""
    return f"{identity}-{segment}-{kind}"


def move_cursor(client: BrokerClient, stream: str, cursor: str, offset: int) -> None:
    path = client.path("streams", client.access.vhost, stream, "cursors", cursor)
    client.send_json("PUT", path, {"offset": offset})


def _describe(client: BrokerClient, name: str, from_offset: int) -> dict[str, Any]:
    path = client.path("streams", client.access.vhost, name, from_offset=from_offset)
    try:
        facts: dict[str, Any] = client.get_json(path)
    except BrokerRefused as refusal:
        if refusal.status == 404:
            raise OptionError(
                "stream",
                str(refusal.facts.get("reason", f"'{name}' does not exist")),
                "Declare it first, or correct the name or the virtual host of 'uri'. "
                "To read a classic queue, use the option 'queue'.",
            ) from None
        raise
    return facts


def _streams_in(facts: dict[str, Any]) -> dict[str, Stream]:
    if facts["kind"] == "partitioned":
        return {
            part["name"]: _stream(part, facts["name"], number)
            for number, part in enumerate(facts["partitions"])
        }
    return {facts["name"]: _stream(facts, facts["name"], 0)}


def _stream(facts: dict[str, Any], parent: str, number: int) -> Stream:
    return Stream(
        facts["name"],
        parent,
        number,
        facts["id"],
        int(facts["first_offset"]),
        int(facts["safe_end_offset"]),
    )


def _segment(facts: dict[str, Any]) -> Segment:
    return Segment(
        int(facts["first_offset"]),
        int(facts["end_offset"]),
        int(facts["first_timestamp"]),
        int(facts["last_timestamp"]),
        int(facts["log_bytes"]),
    )
