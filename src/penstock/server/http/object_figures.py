"""Figures of single queues, streams, connections and channels, read on the broker's loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.server.http.api.connection_rows import connection_name

if TYPE_CHECKING:
    from penstock.broker.queues.message_queue import MessageQueue
    from penstock.broker.streams.stream import Stream
    from penstock.dialects.connection import Connection
    from penstock.dialects.facts import ChannelFacts


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a page shows one by one; by default nothing but streams."""

    queues: bool = False
    # Beside the other figures of queues: how long messages were in each.
    times: bool = False
    connections: bool = False
    channels: bool = False
    # Of virtual hosts and exchanges.
    names: bool = False
    # Empty for all.
    vhosts: frozenset[str] = field(default_factory=frozenset)

    def shows_vhost(self, name: str) -> bool:
        return not self.vhosts or name in self.vhosts


@dataclass(slots=True)
class QueueFigures:
    vhost: str
    name: str
    ready: int
    unacknowledged: int
    total: int
    consumers: int
    published: int
    delivered: int
    acknowledged: int
    redelivered: int
    # One for each bucket and one for what is beyond; then the sum in milliseconds. Empty where
    # nobody asked for them, or where they are not known.
    times: list[int]


@dataclass(slots=True)
class StreamFigures:
    vhost: str
    name: str
    first_offset: int
    safe_end_offset: int
    size: int
    cursors: list[tuple[str, int, int]]


@dataclass(slots=True)
class ConnectionFigures:
    name: str
    received_bytes: int
    sent_bytes: int
    channels: int


@dataclass(slots=True)
class ChannelFigures:
    name: str
    consumers: int
    unacknowledged: int
    unconfirmed: int
    uncommitted: int
    acks_uncommitted: int
    consumer_prefetch: int
    channel_prefetch: int


def queue_figures(vhost: str, queue: MessageQueue, wanted: Wanted) -> QueueFigures:
    ready = queue.message_count
    waited = queue.time_in_queue() if wanted.times else None
    return QueueFigures(
        vhost,
        queue.name,
        ready,
        queue.unacked_count,
        # What a stream's readers have not settled stays in it and is counted once.
        ready if queue.keeps_messages else ready + queue.unacked_count,
        queue.consumer_count,
        queue.published_total,
        queue.delivered_total,
        queue.acknowledged_total,
        queue.redelivered_total,
        [] if waited is None else [*waited.counts, waited.sum_ms],
    )


def stream_figures(vhost: str, stream: Stream) -> StreamFigures:
    log = stream.files.log
    return StreamFigures(
        vhost,
        stream.name,
        log.first_offset,
        log.readable_offset(),
        log.size(),
        stream.cursors(),
    )


def connection_figures(connection: Connection) -> ConnectionFigures:
    return ConnectionFigures(
        connection_name(connection.peer),
        connection.received_bytes,
        connection.outgoing.sent_bytes,
        connection.protocol.channel_count(),
    )


def channel_figures(connection: Connection, facts: ChannelFacts) -> ChannelFigures:
    return ChannelFigures(
        f"{connection_name(connection.peer)} ({facts.number})",
        facts.consumer_count,
        facts.unacknowledged,
        facts.unconfirmed,
        facts.uncommitted,
        facts.acks_uncommitted,
        facts.prefetch_count,
        facts.global_prefetch_count,
    )
