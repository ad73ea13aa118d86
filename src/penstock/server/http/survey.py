"""The figures behind the metrics, gathered on the broker's loop in steps of bounded size."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.broker.streams.opening import find_stream

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.broker.queues.message_queue import MessageQueue
    from penstock.broker.shared_services import Totals
    from penstock.broker.streams.stream import Stream
    from penstock.node.node import Node

# Queues or connections in one step on the broker's loop: about a millisecond.
STEP_COUNT: Final = 500
# Streams that the default page shows one by one, and cursors of all of them; others are on the page
# per queue alone.
STREAMS_MAX: Final = 1_000
CURSORS_MAX: Final = 10_000


# Published, delivered, acknowledged and redelivered.
Counts = tuple[int, int, int, int]


@dataclass(slots=True)
class QueueFigures:
    vhost: str
    name: str
    ready: int
    unacknowledged: int
    consumers: int
    published: int
    delivered: int
    acknowledged: int
    redelivered: int


@dataclass(slots=True)
class StreamFigures:
    vhost: str
    name: str
    first_offset: int
    safe_end_offset: int
    size: int
    cursors: list[tuple[str, int, int]]


@dataclass(slots=True)
class Figures:
    """What one survey found."""

    connections: int = 0
    channels: int = 0
    vhosts: int = 0
    queues: int = 0
    ready: int = 0
    unacknowledged: int = 0
    consumers: int = 0
    # Since the process started; these never fall.
    published: int = 0
    delivered: int = 0
    acknowledged: int = 0
    redelivered: int = 0
    queues_declared: int = 0
    queues_deleted: int = 0
    connections_opened: int = 0
    connections_closed: int = 0
    channels_opened: int = 0
    alarm: str = ""
    held_bytes: int = 0
    # None without a data directory.
    journal: tuple[int, int, int, int] | None = None
    streams: list[StreamFigures] = field(default_factory=list)
    streams_left_out: int = 0
    per_queue: list[QueueFigures] = field(default_factory=list)


class Surveyor:
    """Held by the metrics page and used on the broker's loop only.

    A sum is that of the queues there are and of those that are gone, which the broker keeps. It is
    put together when the last queue was looked at: a queue that went in between is then among those
    that are gone, with everything it counted, and no longer among the others.
    """

    def __init__(self) -> None:
        # The highest sums that were told. Two surveys may be under way at once, and the one that
        # ends first may have looked at a queue later than the other.
        self._told: Counts = (0, 0, 0, 0)

    def survey(
        self, node: Node, is_per_queue: bool, vhost: str | None
    ) -> Generator[None, None, Figures]:
        """`vhost` limits the figures per queue."""
        figures = Figures(
            connections=len(node.connections),
            vhosts=len(node.state.vhosts),
            alarm=node.container.alarm,
            held_bytes=node.last_held_bytes,
        )
        yield from _count_channels(node, figures)
        cursor_count = 0
        seen: list[tuple[MessageQueue, Counts]] = []
        for host in list(node.state.vhosts.values()):
            is_shown = is_per_queue and vhost in {None, host.name}
            for queue in list(host.queues.values()):
                if queue.is_deleted:
                    continue
                figures.queues += 1
                _add_levels(queue, figures)
                seen.append((queue, _counts_of(queue)))
                if is_shown:
                    figures.per_queue.append(_queue_figures(host.name, queue))
                stream = find_stream(host.queues, queue.name)
                if stream is not None:
                    is_room = len(figures.streams) < STREAMS_MAX and cursor_count < CURSORS_MAX
                    if is_shown or is_room:
                        found = _stream_figures(host.name, stream)
                        cursor_count += len(found.cursors)
                        figures.streams.append(found)
                    else:
                        figures.streams_left_out += 1
                if figures.queues % STEP_COUNT == 0:
                    yield
        _take_journal(node, figures)
        self._told = _highest(self._told, _sums(node.state.totals, seen))
        figures.published, figures.delivered, figures.acknowledged, figures.redelivered = self._told
        _take_totals(node, figures)
        return figures


def _counts_of(queue: MessageQueue) -> Counts:
    return (
        queue.published_total,
        queue.delivered_total,
        queue.acknowledged_total,
        queue.redelivered_total,
    )


def _sums(gone: Totals, seen: list[tuple[MessageQueue, Counts]]) -> Counts:
    """In one step, so that no queue goes meanwhile."""
    published, delivered = gone.published, gone.delivered
    acknowledged, redelivered = gone.acknowledged, gone.redelivered
    for queue, counts in seen:
        if not queue.is_deleted:
            published += counts[0]
            delivered += counts[1]
            acknowledged += counts[2]
            redelivered += counts[3]
    return published, delivered, acknowledged, redelivered


def _highest(one: Counts, other: Counts) -> Counts:
    return (
        max(one[0], other[0]),
        max(one[1], other[1]),
        max(one[2], other[2]),
        max(one[3], other[3]),
    )


def _take_totals(node: Node, figures: Figures) -> None:
    totals = node.state.totals
    figures.queues_declared = totals.queues_declared
    figures.queues_deleted = totals.queues_deleted
    figures.connections_opened = node.connections_accepted
    figures.connections_closed = node.connections_accepted - len(node.connections)
    figures.channels_opened = node.container.channels_opened


def _add_levels(queue: MessageQueue, figures: Figures) -> None:
    figures.ready += queue.ready_count
    figures.unacknowledged += queue.unacked_count
    figures.consumers += queue.consumer_count


def _count_channels(node: Node, figures: Figures) -> Generator[None, None, None]:
    for count, connection in enumerate(list(node.connections.values()), 1):
        figures.channels += connection.protocol.channel_count()
        if count % STEP_COUNT == 0:
            yield


def _queue_figures(vhost: str, queue: MessageQueue) -> QueueFigures:
    return QueueFigures(
        vhost,
        queue.name,
        queue.message_count,
        queue.unacked_count,
        queue.consumer_count,
        queue.published_total,
        queue.delivered_total,
        queue.acknowledged_total,
        queue.redelivered_total,
    )


def _stream_figures(vhost: str, stream: Stream) -> StreamFigures:
    log = stream.files.log
    return StreamFigures(
        vhost,
        stream.name,
        log.first_offset,
        log.durable_offset,
        log.size(),
        stream.cursors(),
    )


def _take_journal(node: Node, figures: Figures) -> None:
    if node.stored is not None:
        journal = node.stored.journal
        segments = journal.segments()
        size = sum(journal.segment_size(number) for number in segments)
        figures.journal = (journal.position, journal.durable_position, size, len(segments))
