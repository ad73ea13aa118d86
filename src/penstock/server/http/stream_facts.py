"""The facts for the pages about streams, gathered on the broker's loop."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from penstock.broker.access.permissions import Permission, ResourceKind
from penstock.broker.errors import NotFound
from penstock.broker.exchanges.partitioned import PartitionedStreamExchange
from penstock.broker.streams.files import NO_LIMIT
from penstock.broker.streams.opening import find_stream
from penstock.formats.stream_index import FORMAT_VERSION
from penstock.server.http.problems import Problem
from penstock.server.http.vhost_access import enter

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.broker.streams.stream import Stream
    from penstock.broker.vhost import VirtualHost
    from penstock.node.node import Node
    from penstock.server.http.login import Caller
    from penstock.storage.stream_facts import SegmentFacts

# Queues that are visited in one step on the broker's loop: about a millisecond.
STEP_COUNT: Final = 500
# Segments in one answer, about 1.5 MB of JSON; `segments_from` says where the next one begins.
SEGMENTS_MAX: Final = 10_000
_BOOT_OCTETS: Final = 8

Facts = dict[str, object]


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """One file of one segment, as far as it may be read."""

    identity: str
    name: str
    size: int
    # Whether another server may show more of it already.
    is_replicated: bool = False


class Identities:
    """Distinguishes a stream from an earlier, deleted one of the same name. Held by the pages.

    A stream in a data directory has a number there that is never used again. One in memory gets a
    count of ours; the stream object is kept beside it, so that no other can have the same identity.
    """

    def __init__(self) -> None:
        self._boot = secrets.token_hex(_BOOT_OCTETS)
        self._known: dict[tuple[str, str], tuple[Stream, int]] = {}
        self._count = 0

    def of(self, node: Node, vhost: str, stream: Stream) -> str:
        if node.member is not None:
            # The same on all servers of the cluster.
            return f"{node.member.cluster_id}-{stream.number}"
        if node.stored is not None and stream.number:
            return f"{node.stored.store_id.hex()}-{stream.number}"
        known = self._known.get((vhost, stream.name))
        if known is None or known[0] is not stream:
            self._count += 1
            known = (stream, self._count)
            self._known[(vhost, stream.name)] = known
        return f"{self._boot}-{known[1]}"


class StreamView:
    """One user's view of the streams of one virtual host. Made for one request."""

    def __init__(self, node: Node, identities: Identities, caller: Caller, vhost: str) -> None:
        """Raises a `Refusal` or a `Problem`."""
        self._node = node
        self._identities = identities
        self.vhost: VirtualHost
        self.vhost, self._access = enter(node, caller, vhost)

    def stream(self, name: str) -> Stream:
        self._access.check(Permission.READ, ResourceKind.QUEUE, name)
        stream = find_stream(self.vhost.queues, name)
        if stream is not None:
            return stream
        where = f"'{name}' in vhost '{self.vhost.name}'"
        is_queue = name in self.vhost.queues
        raise Problem(
            404,
            f"queue {where} is not a stream" if is_queue else f"no stream {where}",
            "GET /api/streams/VHOST lists the streams; write a slash in a name as %2F.",
        )

    def partitions(self, name: str) -> list[Stream] | None:
        """The partitions of a partitioned stream; None when there is none of the name, or a stream
        has it too.
        """
        exchange = self.vhost.exchanges.get(name)
        if name in self.vhost.queues or not isinstance(exchange, PartitionedStreamExchange):
            return None
        names = exchange.partition_names()
        return [self.stream(partition) for partition in names if partition in self.vhost.queues]

    def summary(self, stream: Stream) -> Facts:
        log = stream.files.log
        return {
            "name": stream.name,
            "kind": "stream",
            "id": self._identities.of(self._node, self.vhost.name, stream),
            "first_offset": log.first_offset,
            "safe_end_offset": log.readable_offset(),
            "bytes": log.size(),
        }

    def partitioned(self, name: str, streams: list[Stream]) -> Facts:
        return {
            "vhost": self.vhost.name,
            "name": name,
            "kind": "partitioned",
            "partitions": [self.summary(stream) for stream in streams],
        }

    def described(self, name: str, from_offset: int) -> Facts:
        """Everything a bulk reader needs, with the segments from the one that holds an offset
        on.
        """
        partitions = self.partitions(name)
        if partitions is not None:
            return self.partitioned(name, partitions)
        stream = self.stream(name)
        files = stream.files
        segments = [facts for facts in stream.segments() if facts.end_offset > from_offset]
        shown = segments[:SEGMENTS_MAX]
        return {
            "vhost": self.vhost.name,
            **self.summary(stream),
            "format_version": FORMAT_VERSION,
            "retention": {
                "bytes_max": _limit(files.bytes_max),
                "age_ms_max": _limit(files.age_ms_max),
                "segment_bytes": files.log.segment_bytes_max,
            },
            "damage": stream.damage or None,
            "cursors": [
                {"name": cursor, "offset": offset, "lag": lag}
                for cursor, offset, lag in stream.cursors()
            ],
            "segments": [_segment(facts) for facts in shown],
            "segments_from": shown[-1].end_offset if len(segments) > len(shown) else None,
        }

    def offsets_at(self, name: str, timestamp: int) -> Facts:
        """The offsets of the first messages that are not older; the end when all are."""
        partitions = self.partitions(name)
        if partitions is not None:
            return {
                "offsets": {stream.name: _offset_at(stream, timestamp) for stream in partitions}
            }
        return {"offset": _offset_at(self.stream(name), timestamp)}

    def segment_file(self, name: str, first_offset: int, kind: str) -> SegmentFile:
        stream = self.stream(name)
        identity = self._identities.of(self._node, self.vhost.name, stream)
        for facts in stream.segments():
            if facts.first_offset == first_offset:
                etag = f"{identity}-{first_offset}-{kind}"
                is_member = self._node.member is not None
                if kind == "log":
                    return SegmentFile(etag, facts.log_name, facts.log_bytes, is_member)
                return SegmentFile(etag, facts.index_name, facts.index_bytes, is_member)
        if self._node.member is not None and first_offset >= stream.files.readable_offset():
            raise not_yet()
        raise no_segment(stream, identity, first_offset)


def not_yet() -> Problem:
    """A server of a cluster hears a moment later than another one that messages are committed."""
    return Problem(
        503,
        "this server does not show so many messages of the stream yet",
        "Try again, or ask another server of the cluster.",
        headers={"Retry-After": "1"},
    )


def no_segment(stream: Stream, identity: str, wanted: int) -> Problem:
    log = stream.files.log
    facts: Facts = {
        "id": identity,
        "first_offset": log.first_offset,
        "safe_end_offset": log.readable_offset(),
    }
    if wanted < log.first_offset:
        return Problem(
            410,
            f"the segment at offset {wanted} was removed by retention; "
            f"the first available offset is {log.first_offset}",
            "Continue at the first available offset, or retain more (x-max-age, "
            "x-max-length-bytes).",
            facts=facts,
        )
    return Problem(
        404,
        f"no readable segment begins at offset {wanted}",
        "A segment is named by its first offset; the stream's page lists them.",
        facts=facts,
    )


def listed(
    node: Node, identities: Identities, caller: Caller, vhost: str
) -> Generator[None, None, list[Facts]]:
    """All streams of a virtual host; partitions are listed under the stream they are part of."""
    view = StreamView(node, identities, caller, vhost)
    found: list[Facts] = []
    parts: set[str] = set()
    for count, partitioned in enumerate(view.vhost.partitioned_streams(), 1):
        streams = [find_stream(view.vhost.queues, name) for name in partitioned.partitions]
        parts.update(partitioned.partitions)
        found.append(
            view.partitioned(partitioned.name, [stream for stream in streams if stream is not None])
        )
        if count % STEP_COUNT == 0:
            yield
    for count, name in enumerate(list(view.vhost.queues), 1):
        stream = find_stream(view.vhost.queues, name)
        if stream is not None and name not in parts:
            found.append(view.summary(stream))
        if count % STEP_COUNT == 0:
            yield
    return found


def moved_cursor(stream: Stream, name: str, offset: int, now: int) -> Facts:
    stream.set_cursor(name, offset, now)
    return cursor_of(stream, name)


def cursor_of(stream: Stream, name: str) -> Facts:
    for cursor, offset, lag in stream.cursors():
        if cursor == name:
            return {"name": cursor, "offset": offset, "lag": lag}
    raise NotFound(f"no cursor '{name}' of stream '{stream.name}'")


def _offset_at(stream: Stream, timestamp: int) -> int:
    log = stream.files.log
    return min(log.offset_at(timestamp), log.readable_offset())


def _segment(facts: SegmentFacts) -> Facts:
    shown: Facts = asdict(facts)
    # The paths of its files are not disclosed.
    del shown["log_name"], shown["index_name"]
    return shown


def _limit(value: int) -> int | None:
    return None if value == NO_LIMIT else value
