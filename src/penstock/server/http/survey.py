"""The figures behind the metrics, gathered on the broker's loop in steps of bounded size."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.broker.queues.ages import TimeInQueue
from penstock.broker.streams.opening import find_stream
from penstock.server.http.object_figures import (
    ChannelFigures,
    ConnectionFigures,
    QueueFigures,
    StreamFigures,
    Wanted,
    channel_figures,
    connection_figures,
    queue_figures,
    stream_figures,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.broker.queues.message_queue import MessageQueue
    from penstock.broker.shared_services import Totals
    from penstock.broker.vhost import VirtualHost
    from penstock.node.cluster_status import ClusterStatus
    from penstock.node.node import Node

# Queues or connections in one step on the broker's loop: less than a millisecond, also when figures
# of each are kept.
STEP_COUNT: Final = 100
# Streams that the default page shows one by one, and cursors of all of them; others are on the page
# per object alone.
STREAMS_MAX: Final = 1_000
CURSORS_MAX: Final = 10_000


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
    # Of all channels and sessions that are open.
    publishers: int = 0
    channel_consumers: int = 0
    channel_unacknowledged: int = 0
    unconfirmed: int = 0
    uncommitted: int = 0
    acks_uncommitted: int = 0

    # Since the process started; these never decrease.
    received: int = 0
    received_confirm: int = 0
    confirmed: int = 0
    published: int = 0
    returned: int = 0
    dropped: int = 0
    delivered: int = 0
    delivered_manual: int = 0
    delivered_automatic: int = 0
    got_manual: int = 0
    got_automatic: int = 0
    got_empty: int = 0
    acknowledged: int = 0
    redelivered: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0
    queues_declared: int = 0
    queues_deleted: int = 0
    connections_opened: int = 0
    connections_closed: int = 0
    channels_opened: int = 0
    channels_closed: int = 0
    # One for each bucket and one for what is beyond them; then the sum in milliseconds.
    time_in_queue: list[int] = field(default_factory=list)
    confirm_times: list[int] = field(default_factory=list)

    is_blocked: bool = False
    is_memory_low: bool = False
    is_disk_low: bool = False
    is_full: bool = False
    held_bytes: int = 0
    node_name: str = ""
    cluster_name: str = ""
    connections_max: int = 0
    # None without a data directory.
    journal: tuple[int, int, int, int] | None = None
    # None without a cluster.
    cluster: ClusterStatus | None = None
    cluster_role_changes: int = 0
    cluster_in_sync_changes: int = 0
    # Why nothing can be confirmed.
    cluster_waits: str = ""
    streams: list[StreamFigures] = field(default_factory=list)
    cursors: int = 0
    streams_left_out: int = 0
    per_queue: list[QueueFigures] = field(default_factory=list)
    per_connection: list[ConnectionFigures] = field(default_factory=list)
    per_channel: list[ChannelFigures] = field(default_factory=list)
    # Names of virtual hosts, and of exchanges with their types.
    per_vhost: list[str] = field(default_factory=list)
    per_exchange: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def messages(self) -> int:
        return self.ready + self.unacknowledged


# Attributes of `Figures` that are sums over objects which are looked at one after the other. What
# channels and connections that are gone have counted is read first: one that goes meanwhile is counted
# once at most, and the sums that were told before hide that it may be missing.
_NEVER_FALL: Final = (
    "received",
    "received_confirm",
    "confirmed",
    "published",
    "delivered",
    "delivered_manual",
    "delivered_automatic",
    "acknowledged",
    "redelivered",
    "received_bytes",
    "sent_bytes",
)


# Published, delivered, acknowledged and redelivered.
_COUNT_WIDTH: Final = 4


class SeenQueues:
    """What the queues have counted that were looked at so far. Held by one survey. In an array, so
    that ten thousand queues are forgotten as fast as one.
    """

    def __init__(self) -> None:
        self._queues: list[MessageQueue] = []
        self._counts = array("q")
        self._sums = [0] * _COUNT_WIDTH

    def add(self, queue: MessageQueue) -> None:
        counts = (
            queue.published_total,
            queue.delivered_total,
            queue.acknowledged_total,
            queue.redelivered_total,
        )
        self._queues.append(queue)
        self._counts.extend(counts)
        for column, count in enumerate(counts):
            self._sums[column] += count

    def put_sums(self, gone: Totals, figures: Figures) -> None:
        """In one step, so that no queue is deleted meanwhile."""
        for index, queue in enumerate(self._queues):
            if queue.is_deleted:
                # It is among those that are gone.
                for column in range(_COUNT_WIDTH):
                    self._sums[column] -= self._counts[index * _COUNT_WIDTH + column]
        published, delivered, acknowledged, redelivered = self._sums
        figures.published = gone.published + published
        figures.delivered = gone.delivered + delivered
        figures.acknowledged = gone.acknowledged + acknowledged
        figures.redelivered = gone.redelivered + redelivered


class Surveyor:
    """Held by the metrics page and used on the broker's loop only.

    A sum covers the existing queues and the deleted ones, which the broker keeps. It is computed
    after the last queue was visited: a queue that was deleted in between is then among the deleted
    ones, with all its counts, and no longer among the others.
    """

    def __init__(self) -> None:
        # The highest sums that were reported. Two surveys may run at once, and the one that ends
        # first may have visited a queue later than the other.
        self._told: dict[str, int] = dict.fromkeys(_NEVER_FALL, 0)
        self._told_times: list[int] = []

    def survey(self, node: Node, wanted: Wanted) -> Generator[None, None, Figures]:
        """`wanted` says what is shown one by one."""
        figures = Figures(
            connections=len(node.connections),
            vhosts=len(node.state.vhosts),
            is_blocked=bool(node.container.alarm),
            is_memory_low=bool(node.alarms.get("memory")),
            is_disk_low=bool(node.alarms.get("disk")),
            is_full=node.is_full(),
            held_bytes=node.last_held_bytes,
            node_name=node.configuration.cluster_name,
            cluster_name=node.state.cluster_name(node.configuration.cluster_name),
            connections_max=node.configuration.connections_max,
        )
        yield from _take_connections(node, figures, wanted)
        seen = SeenQueues()
        # Before any queue is looked at, for the same reason as those of channels.
        waited = TimeInQueue()
        waited.merge(node.state.totals.time_in_queue)
        for host in list(node.state.vhosts.values()):
            is_shown = wanted.shows_vhost(host.name)
            if is_shown:
                _take_names(host, figures, wanted)
            for queue in list(host.queues.values()):
                if queue.is_deleted:
                    continue
                figures.queues += 1
                _add_levels(queue, figures)
                seen.add(queue)
                times = queue.time_in_queue()
                if times is not None:
                    waited.merge(times)
                if is_shown and wanted.queues:
                    figures.per_queue.append(queue_figures(host.name, queue, wanted))
                _take_stream(host, queue, figures, is_shown and wanted.queues)
                if figures.queues % STEP_COUNT == 0:
                    yield
        _take_journal(node, figures)
        seen.put_sums(node.state.totals, figures)
        _take_totals(node, figures)
        self._keep_highest(figures, [*waited.counts, waited.sum_ms])
        return figures

    def _keep_highest(self, figures: Figures, times: list[int]) -> None:
        for name, told in self._told.items():
            self._told[name] = max(told, getattr(figures, name))
            setattr(figures, name, self._told[name])
        told_times = self._told_times or times
        self._told_times = [max(pair) for pair in zip(told_times, times, strict=True)]
        figures.time_in_queue = self._told_times[:]


def _take_connections(node: Node, figures: Figures, wanted: Wanted) -> Generator[None, None, None]:
    container = node.container
    figures.received = container.received_on_ended
    figures.received_confirm = container.received_confirm_on_ended
    figures.confirmed = container.confirmed_on_ended
    figures.delivered_automatic = container.unowned_on_ended
    figures.received_bytes = container.received_bytes_on_ended
    figures.sent_bytes = container.sent_bytes_on_ended
    count = 0
    for connection in list(node.connections.values()):
        protocol = connection.protocol
        figures.received_bytes += connection.received_bytes
        figures.sent_bytes += connection.outgoing.sent_bytes
        figures.channels += protocol.channel_count()
        is_shown = wanted.shows_vhost(protocol.vhost_name())
        if is_shown and wanted.connections:
            figures.per_connection.append(connection_figures(connection))
        for facts in protocol.channel_facts():
            count += 1
            figures.publishers += facts.published > 0
            figures.channel_consumers += facts.consumer_count
            figures.channel_unacknowledged += facts.unacknowledged
            figures.unconfirmed += facts.unconfirmed
            figures.uncommitted += facts.uncommitted
            figures.acks_uncommitted += facts.acks_uncommitted
            figures.received += max(facts.published, 0)
            figures.received_confirm += facts.received_confirm
            figures.confirmed += max(facts.confirmed, 0)
            figures.delivered_automatic += max(facts.delivered_unowned, 0)
            if is_shown and wanted.channels:
                figures.per_channel.append(channel_figures(connection, facts))
            if count >= STEP_COUNT:
                count = 0
                yield
        count += 1
        if count >= STEP_COUNT:
            count = 0
            yield


def _take_totals(node: Node, figures: Figures) -> None:
    totals = node.state.totals
    container = node.container
    figures.queues_declared = totals.queues_declared
    figures.queues_deleted = totals.queues_deleted
    figures.connections_opened = node.connections_accepted
    figures.connections_closed = node.connections_accepted - len(node.connections)
    figures.channels_opened = container.channels_opened
    figures.channels_closed = container.channels_ended
    figures.returned = container.returned_total
    figures.dropped = container.dropped_total
    figures.got_manual = container.got_total
    figures.got_automatic = container.got_unowned_total
    figures.got_empty = container.got_empty_total
    got = figures.got_manual + figures.got_automatic
    figures.delivered_manual = max(figures.delivered - got - figures.delivered_automatic, 0)
    times = node.durability.times
    figures.confirm_times = [*times.counts, times.sum_ms]


def _add_levels(queue: MessageQueue, figures: Figures) -> None:
    figures.ready += queue.ready_count
    figures.unacknowledged += queue.unacked_count
    figures.consumers += queue.consumer_count


def _take_names(host: VirtualHost, figures: Figures, wanted: Wanted) -> None:
    if wanted.names:
        figures.per_vhost.append(host.name)
        figures.per_exchange += [
            (host.name, exchange.name, exchange.kind) for exchange in host.exchanges.values()
        ]


def _take_stream(host: VirtualHost, queue: MessageQueue, figures: Figures, is_shown: bool) -> None:
    stream = find_stream(host.queues, queue.name)
    if stream is None:
        return
    is_room = len(figures.streams) < STREAMS_MAX and figures.cursors < CURSORS_MAX
    if is_shown or is_room:
        found = stream_figures(host.name, stream)
        figures.cursors += len(found.cursors)
        figures.streams.append(found)
    else:
        figures.streams_left_out += 1


def _take_journal(node: Node, figures: Figures) -> None:
    if node.stored is not None:
        journal = node.stored.journal
        segments = journal.segments()
        size = sum(journal.segment_size(number) for number in segments)
        figures.journal = (journal.position, journal.durable_position, size, len(segments))


def take_cluster(node: Node, figures: Figures, now: int) -> None:
    """Apart from the survey, because a lease is told as it is at one moment."""
    if node.member is not None:
        figures.cluster = node.member.status(now)
        figures.cluster_role_changes = node.member.role_changes
        figures.cluster_in_sync_changes = node.member.history.total
        figures.cluster_waits = node.member.why_too_few
