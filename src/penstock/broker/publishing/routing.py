"""From an exchange and a message to the queues that get it.

Bindings are followed from exchange to exchange, each exchange once, so cycles end. An exchange
that selects no binding hands the message to its alternate exchange. A queue gets a message once,
however many ways lead to it; queues keep the order in which they were found.
"""

from mypy_extensions import mypyc_attr

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


@mypyc_attr(allow_interpreted_subclasses=True)
class RouteTrace:
    """Hears how a route is found, step by step, for somebody who wants it explained; with one, the
    message is taken for one that is not published.
    """

    def matched(self, exchange: Exchange, key: str, bindings: list[Binding]) -> None:
        """The exchange selects these bindings for one of the message's keys."""
        raise NotImplementedError

    def matched_default(self, exchange: Exchange) -> None:
        """The default exchange looks the keys up among the names of queues."""
        raise NotImplementedError

    def delayed(self, exchange: DelayedExchange) -> None:
        """The message has to wait there."""
        raise NotImplementedError

    def unmatched(self, exchange: Exchange, alternate: Exchange | None, is_new: bool) -> None:
        """No binding was selected; None when there is no alternate exchange. `is_new` is False when
        the message has been there already.
        """
        raise NotImplementedError


def resolve(
    vhost: RoutingTable,
    exchange: Exchange,
    routing_key: str,
    properties: Properties,
    trace: RouteTrace | None = None,
) -> Route:
    """The first exchange is taken as passed: the caller asks whether it delays the message."""
    keys = [routing_key]
    if properties.has_extra_keys:
        keys.extend(properties.extra_keys())
    return resolve_keys(vhost, exchange, keys, properties, trace)


def resolve_keys(
    vhost: RoutingTable,
    exchange: Exchange,
    keys: list[str],
    properties: Properties,
    trace: RouteTrace | None = None,
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
                if trace is not None:
                    trace.delayed(current)
                continue
        found.clear()
        if trace is not None:
            _trace_matches(trace, current, keys, properties, found)
        elif current.name:
            for key in keys:
                current.match(key, properties, found)
                route.compared += current.compared
        if not current.name and _match_default(vhost, keys, seen_queues, route.queues):
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
        if not found:
            alternate = None
            if current.alternate_name is not None:
                alternate = vhost.exchanges.get(current.alternate_name)
            if trace is not None:
                trace.unmatched(current, alternate, alternate not in seen_exchanges)
            if alternate is not None and alternate not in seen_exchanges:
                seen_exchanges.add(alternate)
                waiting.append(alternate)
    return route


def _trace_matches(
    trace: RouteTrace,
    exchange: Exchange,
    keys: list[str],
    properties: Properties,
    found: list[Binding],
) -> None:
    if not exchange.name:
        trace.matched_default(exchange)
        return
    for key in keys:
        of_key: list[Binding] = []
        exchange.foresee(key, properties, of_key)
        trace.matched(exchange, key, of_key)
        found.extend(of_key)


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
