"""Samples of what queues, connections, channels and virtual hosts count, every five seconds.

Runs on the broker's loop, in steps of bounded size. It begins with the first request that shows
rates, so that a broker which nobody asks pays nothing; rates are 0 until there are two samples.

Invariant: a series is kept as long as its object is there, and dropped with the next sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from penstock.dialects.facts import UNKNOWN
from penstock.server.http.api.samples import (
    FULL_SERIES_MAX,
    NOTHING_SAMPLED,
    ROWS_MAX,
    SAMPLE_MS,
    SHORT_ROWS_MAX,
    TOTAL_ROWS_MAX,
    SampleHistory,
    Series,
)
from penstock.server.memory import can_watch, resident_bytes

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable

    from penstock.broker.queues.message_queue import MessageQueue
    from penstock.dialects.connection import Connection
    from penstock.dialects.facts import ChannelFacts
    from penstock.node.node import Node
    from penstock.server.http.line import BrokerLine

log = structlog.get_logger()

# Queues, or channels, in one step on the broker's loop: less than a millisecond.
STEP_COUNT: Final = 200

Numbers = tuple[int, ...]
Key = TypeVar("Key", bound="Hashable")

# The numbers of a queue, in this order. RabbitMQ's names.
QUEUE: Final = (
    "messages",
    "messages_ready",
    "messages_unacknowledged",
    "publish",
    "deliver_get",
    "deliver",
    "get",
    "ack",
    "redeliver",
)
LENGTH_COUNT: Final = 3
CONNECTION: Final = ("recv_oct", "send_oct")
VHOST: Final = (*QUEUE, *CONNECTION)
CHANNEL: Final = (
    "publish",
    "confirm",
    "return_unroutable",
    "deliver_get",
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "get_empty",
    "ack",
    "redeliver",
)
CHURN: Final = (
    "connection_created",
    "connection_closed",
    "channel_created",
    "channel_closed",
    "queue_declared",
    "queue_created",
    "queue_deleted",
)
# Of the broker as a whole: what its queues count, what its channels do, its churn, its process.
MESSAGES: Final = (*QUEUE, "confirm", "return_unroutable", "get_no_ack", "get_empty")
PROCESS: Final = ("mem_used", "sockets_used")
TOTAL: Final = (*MESSAGES, *CHURN, *PROCESS)


class Sampler:
    """Held by the pages that show rates. All but `begin` happens on the broker's loop."""

    def __init__(self, line: BrokerLine) -> None:
        self._line = line
        self._is_begun = False
        self._is_walking = False
        self._due = 0
        self._queues: dict[MessageQueue, Series] = {}
        self._connections: dict[int, Series] = {}
        self._channels: dict[tuple[int, int], Series] = {}
        self._vhosts: dict[str, Series] = {}
        self._total: dict[str, Series] = {}

    def begin(self) -> None:
        """Sample from now on; a second call changes nothing."""
        if not self._is_begun:
            self._is_begun = True
            self._line.tell(self._attach)

    def _attach(self) -> None:
        self._line.server.watchers.append(self._watch)
        self._watch(self._line.server.now())

    def _watch(self, now: int) -> None:
        """With every sweep of the server."""
        if now < self._due or self._is_walking:
            return
        wall = now + self._line.server.node.state.wall.offset_ms
        at = wall - wall % SAMPLE_MS
        self._due = now + SAMPLE_MS - wall % SAMPLE_MS
        self._is_walking = True
        self._line.run_in_steps(self.sample(self._line.server.node, at), self._ended)

    def _ended(self, error: Exception | None) -> None:
        self._is_walking = False
        if error is not None:
            # Rates are for looking at; the broker goes on without them.
            log.error("cannot sample what the management API shows", exc_info=error)
            self._line.server.watchers.remove(self._watch)

    def sample(self, node: Node, at: int) -> Generator[None, None, None]:
        """One sample of everything, taken to be of this time in milliseconds."""
        sums = {name: [0] * len(VHOST) for name in node.state.vhosts}
        yield from self._sample_queues(node, sums, at)
        confirmed = yield from self._sample_connections(node, sums, at)
        vhosts: dict[str, Series] = {}
        for name, numbers in sums.items():
            series = _kept(self._vhosts, name, vhosts, len(VHOST))
            series.add(at, tuple(numbers))
        self._vhosts = vhosts
        total = self._total.get("")
        if total is None:
            total = self._total[""] = Series(len(TOTAL), TOTAL_ROWS_MAX)
        lengths = [
            sum(numbers[column] for numbers in sums.values()) for column in range(len(QUEUE))
        ]
        total.add(at, total_numbers(node, lengths, confirmed))

    def _sample_queues(
        self, node: Node, sums: dict[str, list[int]], at: int
    ) -> Generator[None, None, None]:
        kept: dict[MessageQueue, Series] = {}
        count = 0
        for vhost in list(node.state.vhosts.values()):
            vhost_sums = sums.get(vhost.name)
            for queue in list(vhost.queues.values()):
                if queue.is_deleted:
                    continue
                numbers = queue_numbers(queue)
                _kept(self._queues, queue, kept, len(QUEUE)).add(at, numbers)
                if vhost_sums is not None:
                    add_numbers(vhost_sums, numbers)
                count += 1
                if count % STEP_COUNT == 0:
                    yield
        self._queues = kept

    def _sample_connections(
        self, node: Node, sums: dict[str, list[int]], at: int
    ) -> Generator[None, None, int]:
        connections: dict[int, Series] = {}
        channels: dict[tuple[int, int], Series] = {}
        confirmed = 0
        count = 0
        for connection in list(node.connections.values()):
            octets = connection_numbers(connection)
            number = connection.number
            _kept(self._connections, number, connections, len(CONNECTION)).add(at, octets)
            vhost_sums = sums.get(connection.protocol.vhost_name())
            if vhost_sums is not None:
                vhost_sums[len(QUEUE)] += octets[0]
                vhost_sums[len(QUEUE) + 1] += octets[1]
            for facts in connection.protocol.channel_facts():
                key = (number, facts.number)
                _kept(self._channels, key, channels, len(CHANNEL)).add(at, channel_numbers(facts))
                confirmed += max(facts.confirmed, 0)
                count += 1
                if count % STEP_COUNT == 0:
                    yield
            count += 1
            if count % STEP_COUNT == 0:
                yield
        self._connections = connections
        self._channels = channels
        return confirmed

    # What was sampled; copies, so that they can be shown elsewhere.

    def of_queue(self, queue: MessageQueue, is_whole: bool) -> SampleHistory:
        return _taken(self._queues.get(queue), is_whole)

    def of_connection(self, number: int, is_whole: bool) -> SampleHistory:
        return _taken(self._connections.get(number), is_whole)

    def of_channel(self, connection: int, number: int, is_whole: bool) -> SampleHistory:
        return _taken(self._channels.get((connection, number)), is_whole)

    def of_vhost(self, name: str, is_whole: bool) -> SampleHistory:
        return _taken(self._vhosts.get(name), is_whole)

    def of_everything(self, is_whole: bool) -> SampleHistory:
        return _taken(self._total.get(""), is_whole)


def _kept(known: dict[Key, Series], key: Key, kept: dict[Key, Series], width: int) -> Series:
    """The series of an object that is still there, or a new one."""
    series = known.get(key)
    if series is None:
        is_full = len(kept) < FULL_SERIES_MAX
        series = Series(width, ROWS_MAX if is_full else SHORT_ROWS_MAX)
    kept[key] = series
    return series


def _taken(series: Series | None, is_whole: bool) -> SampleHistory:
    return NOTHING_SAMPLED if series is None else series.taken(is_whole)


def queue_numbers(queue: MessageQueue) -> Numbers:
    ready = queue.message_count
    unacknowledged = queue.unacked_count
    delivered = queue.delivered_total
    got = queue.got_total
    return (
        # What a stream's readers have not settled stays in it and is counted once.
        ready if queue.keeps_messages else ready + unacknowledged,
        ready,
        unacknowledged,
        queue.published_total,
        delivered,
        delivered - got,
        got,
        queue.acknowledged_total,
        queue.redelivered_total,
    )


def connection_numbers(connection: Connection) -> tuple[int, int]:
    return connection.received_bytes, connection.outgoing.sent_bytes


def channel_numbers(facts: ChannelFacts) -> Numbers:
    """UNKNOWN where nobody counts."""
    unowned = facts.delivered_unowned
    delivered = facts.delivered - facts.got - facts.got_unowned
    return (
        facts.published,
        facts.confirmed,
        facts.returned,
        facts.delivered,
        delivered if unowned == UNKNOWN else delivered - unowned,
        unowned,
        facts.got,
        facts.got_unowned,
        facts.got_empty,
        facts.acknowledged,
        facts.redelivered,
    )


def add_numbers(sums: list[int], numbers: Numbers) -> None:
    for column, number in enumerate(numbers):
        sums[column] += number


def total_numbers(node: Node, sums: list[int], confirmed: int) -> Numbers:
    """`sums` are those of all queues that are there, `confirmed` of all open channels."""
    gone = node.state.totals
    container = node.container
    closed = node.connections_accepted - len(node.connections)
    return (
        *sums[:LENGTH_COUNT],
        sums[3] + gone.published,
        sums[4] + gone.delivered,
        sums[5] + gone.delivered - gone.got,
        container.got_total,
        sums[7] + gone.acknowledged,
        sums[8] + gone.redelivered,
        container.confirmed_on_ended + confirmed,
        container.returned_total,
        container.got_unowned_total,
        container.got_empty_total,
        node.connections_accepted,
        closed,
        container.channels_opened,
        container.channels_ended,
        gone.queues_declared,
        gone.queues_declared,
        gone.queues_deleted,
        resident_bytes() if can_watch() else 0,
        len(node.connections),
    )
