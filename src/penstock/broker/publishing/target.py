"""Where messages of one address go: resolved once, kept, and used until the topology changes.

Applications publish with the same exchange and routing key again and again, so whoever publishes
keeps targets by the octets that named them: one look-up in a dictionary then replaces decoding,
permission check and routing. A target carries the generation of its virtual host; every change that
can alter a route bumps that one, and the target is stale.

Invariants
- a target that is fixed goes to `queues` and nowhere else, whatever the headers of a message say,
  unless they name further routing keys;
- a target that is not fixed says nothing about queues until `target_of` makes one for a message.
"""

from typing import Final

from penstock.broker.arguments import Overflow
from penstock.broker.exchanges.delayed import DelayedExchange
from penstock.broker.exchanges.exchange import Exchange
from penstock.broker.message import NO_EXPIRATION, Address, Properties
from penstock.broker.publishing.routing import Route, RouteTrace, resolve, resolve_keys
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.routing_table import RoutingTable
from penstock.broker.shared_services import RouteCount
from penstock.broker.streams.stream import Stream, as_stream


class _NoProperties(Properties):
    """Stands for any message while only the routing key matters."""

    def headers(self) -> dict[str, object]:
        return {}

    def text_of(self, name: str) -> str:
        return ""

    def encoded(self) -> bytes:
        return b""


_ANY: Final = _NoProperties(False, 0, NO_EXPIRATION)


class Target:
    """Where messages of one address go. Kept by publishers, which may share it for equal
    addresses.
    """

    # What every publish looks at comes first: compiled, fields lie in memory in this order, and a
    # target among thousands is rarely in the processor's caches.
    address: Address
    # Of the virtual host when it was resolved.
    generation: int
    # Shared with other targets, so that nobody changes it: a list of its own is put in its place.
    queues: list[MessageQueue]
    # Most targets have none of these; defaults on the class spare every target their objects.
    # Whether the publisher wants returns when no queue is reached, and whether the target is plain:
    # True when only the queues below matter for a message without extra keys.
    mandatory: bool = False
    is_plain: bool = False
    # What a publish costs a turn of its connection; nothing while the queues are few.
    units: int = 0
    # Where publishes are counted; None when nobody counts, and for what the broker itself publishes.
    count: RouteCount | None = None
    # True when every message of the address goes to `queues`.
    is_fixed: bool = False
    # False when no queue is bound there and no exchange delays it.
    reaches_any: bool = False
    # Bindings and nodes that were looked at to find it.
    compared: int = 0

    def __init__(self, exchange: Exchange | None, address: Address, generation: int) -> None:
        # None when it does not exist, which only a sink's rows may name.
        self.exchange: Exchange | None = exchange
        self.address = address
        self.generation = generation
        self.queues = _NO_QUEUES
        # Exchanges in which the message has to wait first.
        self.delayed: list[DelayedExchange] = _NO_EXCHANGES
        # Only where `divide` was called: streams that were among the queues, and those of the other
        # queues that refuse what they have no room for.
        self.streams: list[Stream] = _NO_STREAMS
        self.refusing: list[MessageQueue] = _NO_QUEUES

    def take(self, route: Route) -> None:
        self.queues = route.queues
        self.delayed = route.delayed
        self.compared = route.compared
        self.is_fixed = route.cacheable
        self.reaches_any = bool(route.queues or route.delayed)

    def with_queues(self, queues: list[MessageQueue]) -> "Target":
        """The same for one message that goes to other queues."""
        own = Target(self.exchange, self.address, self.generation)
        own.mandatory = self.mandatory
        own.count = self.count
        own.reaches_any = self.reaches_any
        own.compared = self.compared
        own.delayed = self.delayed
        own.queues = queues
        return own

    def divide(self) -> None:
        """For rows of a sink, which streams take by the block and queues one by one: leave in
        `queues` those that take them one by one.
        """
        streams: list[Stream] = []
        queues: list[MessageQueue] = []
        for queue in self.queues:
            stream = as_stream(queue)
            if stream is not None:
                streams.append(stream)
            else:
                queues.append(queue)
        if streams:
            self.streams = streams
            self.queues = queues
        self.refusing = [queue for queue in queues if refuses(queue)]
        if self.refusing:
            # These first: another queue may drop its head to make room, and the dead letter could
            # take the last place that was found free in them.
            self.queues = self.refusing + [queue for queue in queues if not refuses(queue)]

    def counted(self, count: int) -> None:
        """Count messages that were published there without `publish`."""
        if self.count is not None:
            self.count.count += count

    def is_outdated(self) -> bool:
        """Whether a message must not go there any more: a queue was deleted. One that reached no
        queue may reach one now.
        """
        for queue in self.queues:
            if queue.is_deleted:
                return True
        return not self.queues


# Shared by all targets, and never changed: a list of its own is put in their place.
_NO_QUEUES: Final[list[MessageQueue]] = []
_NO_STREAMS: Final[list[Stream]] = []
_NO_EXCHANGES: Final[list[DelayedExchange]] = []


def resolve_target(vhost: RoutingTable, exchange: Exchange | None, address: Address) -> Target:
    """The target of an address, to be kept while its generation is the virtual host's."""
    target = Target(exchange, address, vhost.generation)
    target.count = _count_of(vhost, address)
    if exchange is None:
        target.is_fixed = True
    elif exchange.by_key_only:
        route = resolve(vhost, exchange, address.routing_key, _ANY)
        target.compared = route.compared
        if route.cacheable:
            target.take(route)
    return target


def target_of(vhost: RoutingTable, target: Target, properties: Properties) -> Target:
    """Where one message goes: the kept target where that holds for it, otherwise one of its own."""
    is_fresh = target.generation == vhost.generation
    if target.is_fixed and is_fresh and not properties.has_extra_keys:
        return target
    own = Target(target.exchange, target.address, vhost.generation)
    own.mandatory = target.mandatory
    own.count = target.count if is_fresh else _count_of(vhost, target.address)
    _find_queues(vhost, own, properties, None)
    return own


def foreseen_target(
    vhost: RoutingTable,
    exchange: Exchange,
    address: Address,
    properties: Properties,
    trace: RouteTrace,
) -> Target:
    """Where a message would go if it were published; nobody counts it."""
    target = Target(exchange, address, vhost.generation)
    _find_queues(vhost, target, properties, trace)
    return target


def _find_queues(
    vhost: RoutingTable, target: Target, properties: Properties, trace: RouteTrace | None
) -> None:
    exchange = target.exchange
    if exchange is None:
        return
    if isinstance(exchange, DelayedExchange) and exchange.delay_of(properties) > 0:
        target.delayed = [exchange]
        target.reaches_any = True
        if trace is not None:
            trace.delayed(exchange)
        return
    target.take(resolve(vhost, exchange, target.address.routing_key, properties, trace))
    # It is for one message only, however the next one would be routed.
    target.is_fixed = False


def target_by_keys(
    vhost: RoutingTable,
    exchange: Exchange,
    address: Address,
    keys: list[str],
    properties: Properties,
) -> Target:
    """Where one of the broker's own messages goes, which is not counted; all keys are given."""
    target = Target(exchange, address, vhost.generation)
    if isinstance(exchange, DelayedExchange) and exchange.delay_of(properties) > 0:
        target.delayed = [exchange]
        target.reaches_any = True
        return target
    target.take(resolve_keys(vhost, exchange, keys, properties))
    target.is_fixed = False
    return target


def _count_of(vhost: RoutingTable, address: Address) -> RouteCount | None:
    watcher = vhost.shared.watcher
    if watcher is None:
        return None
    return watcher.route(vhost.name, address.exchange, address.routing_key)


def refuses(queue: MessageQueue) -> bool:
    """Whether a publish is refused when it is full; others drop what is oldest."""
    settings = queue.settings
    return (
        settings.overflow is not Overflow.DROP_HEAD
        and (settings.max_length >= 0 or settings.max_length_bytes >= 0)
        and not queue.keeps_messages
    )
