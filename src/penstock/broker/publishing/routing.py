"""From an exchange and a message to the queues that get it.

Bindings are followed from exchange to exchange, each exchange once, so cycles end. An exchange
that selects no binding hands the message to its alternate exchange. A queue gets a message once,
however many ways lead to it; queues keep the order in which they were found.
"""

from penstock.broker.exchanges.delayed import DelayedExchange
from penstock.broker.exchanges.exchange import Binding, Exchange
from penstock.broker.message import Properties
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.routing_table import RoutingTable


class Route:
    """Where a message goes. Cached by dialects while `generation` is the virtual host's."""

    def __init__(self, generation: int) -> None:
        self.queues: list[MessageQueue] = []
        # Delayed exchanges reached on the way in which this message must wait first. When it has
        # waited, resolving from there gives the rest of its way.
        self.delayed: list[DelayedExchange] = []
        # False when the next message with the same exchange and key may go elsewhere.
        self.cacheable: bool = True
        self.generation: int = generation
        # Bindings and nodes that were looked at to find it, beside the bindings it follows.
        self.compared: int = 0


def resolve(
    vhost: RoutingTable, exchange: Exchange, routing_key: str, properties: Properties
) -> Route:
    """The first exchange is taken as passed: whether it delays the message is the caller's to ask."""
    keys = [routing_key]
    if properties.has_extra_keys:
        keys.extend(properties.extra_keys())
    return resolve_keys(vhost, exchange, keys, properties)


def resolve_keys(
    vhost: RoutingTable, exchange: Exchange, keys: list[str], properties: Properties
) -> Route:
    """The same with all keys given, for dead letters that keep those of their CC header."""
    route = Route(vhost.generation)
    route.cacheable = len(keys) == 1 and not properties.has_extra_keys
    seen_queues: set[MessageQueue] = set()
    seen_exchanges: set[Exchange] = {exchange}
    waiting: list[Exchange] = [exchange]
    found: list[Binding] = []
    # The list grows while it is walked: breadth first, like the order of bindings.
    for current in waiting:
        if not current.by_key_only:
            route.cacheable = False
        if current is not exchange and isinstance(current, DelayedExchange):
            if current.delay_of(properties) > 0:
                route.delayed.append(current)
                continue
        found.clear()
        if current.name:
            for key in keys:
                current.match(key, properties, found)
                route.compared += current.compared
        elif _match_default(vhost, keys, seen_queues, route.queues):
            continue
        for binding in found:
            queue = binding.destination_queue
            if queue is not None:
                if queue not in seen_queues:
                    seen_queues.add(queue)
                    route.queues.append(queue)
                continue
            following = binding.destination_exchange
            assert following is not None, "a binding has one destination"
            if following not in seen_exchanges:
                seen_exchanges.add(following)
                waiting.append(following)
        if not found and current.alternate_name is not None:
            alternate = vhost.exchanges.get(current.alternate_name)
            if alternate is not None and alternate not in seen_exchanges:
                seen_exchanges.add(alternate)
                waiting.append(alternate)
    return route


def _match_default(
    vhost: RoutingTable, keys: list[str], seen: set[MessageQueue], queues: list[MessageQueue]
) -> bool:
    """The default exchange knows every queue by its name; True when it found one."""
    matched = False
    for key in keys:
        queue = vhost.queues.get(key)
        if queue is not None:
            matched = True
            if queue not in seen:
                seen.add(queue)
                queues.append(queue)
    return matched
