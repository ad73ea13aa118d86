"""Sums over the queues and connections that a caller sees, gathered on the broker's loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server.http.api.sampler import (
    QUEUE,
    STEP_COUNT,
    VHOST,
    add_numbers,
    connection_numbers,
    queue_numbers,
)
from penstock.server.http.api.visibility import is_listed, sees_connection, visible_vhosts

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.node.node import Node
    from penstock.server.http.login import Caller


class VisibleTotals:
    """What one walk has found."""

    def __init__(self) -> None:
        self.queues = 0
        self.exchanges = 0
        self.consumers = 0
        self.connections = 0
        self.channels = 0
        # Confirmed on channels that are open.
        self.confirmed = 0
        # The columns of `VHOST` for each virtual host, in their order.
        self.by_vhost: dict[str, list[int]] = {}

    def sums(self) -> list[int]:
        """The columns of `QUEUE` over all of them."""
        return [
            sum(numbers[column] for numbers in self.by_vhost.values())
            for column in range(len(QUEUE))
        ]


def totals_of(node: Node, caller: Caller, vhost: str = "") -> Generator[None, None, VisibleTotals]:
    totals = VisibleTotals()
    count = 0
    for host in visible_vhosts(node, caller, vhost):
        numbers = totals.by_vhost.setdefault(host.name, [0] * len(VHOST))
        totals.exchanges += len(host.exchanges)
        for queue in list(host.queues.values()):
            if not queue.is_deleted:
                add_numbers(numbers, queue_numbers(queue))
                totals.consumers += queue.consumer_count
                totals.queues += is_listed(queue)
            count += 1
            if count % STEP_COUNT == 0:
                yield
    for connection in list(node.connections.values()):
        found = totals.by_vhost.get(connection.protocol.vhost_name())
        if found is not None:
            octets = connection_numbers(connection)
            found[len(QUEUE)] += octets[0]
            found[len(QUEUE) + 1] += octets[1]
            facts = connection.protocol.facts()
            if sees_connection(caller, facts.user):
                totals.connections += 1
                totals.channels += facts.channel_count
            for channel in connection.protocol.channel_facts():
                totals.confirmed += max(channel.confirmed, 0)
                count += 1
                if count % STEP_COUNT == 0:
                    yield
        count += 1
        if count % STEP_COUNT == 0:
            yield
    return totals
