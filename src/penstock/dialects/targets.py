"""Where a basic.publish goes, resolved once and kept.

The payload of the publish method is the key: applications publish with the same exchange, routing
key and flags again and again, so one dictionary lookup replaces decoding, permission check and
routing. Every topology change bumps the virtual host's generation, which makes a kept target stale.
"""

from typing import Final

from penstock.broker.exchanges.delayed import DelayedExchange
from penstock.broker.exchanges.exchange import Exchange
from penstock.broker.message import Address
from penstock.broker.publishing.routing import Route
from penstock.broker.queues.queue import Queue
from penstock.broker.route_count import RouteCount
from penstock.dialects.turn import ENQUEUED_PER_UNIT, FREE_QUEUES

# Kept targets per user and virtual host. Above it all are dropped and fill again: a publisher with
# more live routing keys than this pays one resolution in a while, about two microseconds.
TARGETS_MAX: Final = 65_536


class PublishTarget:
    """What one publish method payload means now. Shared by all channels of a principal."""

    def __init__(self, exchange: Exchange, address: Address, mandatory: bool) -> None:
        self.exchange: Exchange = exchange
        self.address: Address = address
        self.mandatory: bool = mandatory
        self.queues: list[Queue] = []
        self.delayed: list[DelayedExchange] = []
        self.generation: int = -1
        # True when the queues above hold for every message without extra keys, and nothing else
        # has to be looked at.
        self.is_plain: bool = False
        # What a publish costs a turn; nothing while the queues are few.
        self.units: int = 0
        # Where publishes are counted; None when nobody counts.
        self.count: RouteCount | None = None

    def take(self, route: Route) -> None:
        """The queues of a route that depends on the key alone."""
        self.queues = route.queues
        count = len(route.queues)
        self.units = count // ENQUEUED_PER_UNIT if count > FREE_QUEUES else 0
