"""Where rows go: looked up once for all rows that are alike.

Held while a batch is published or counted; what was found holds as long as the virtual host's
generation.
"""

from typing import Final

from penstock.broker.arguments import Overflow
from penstock.broker.exchanges.delayed import DelayedExchange
from penstock.broker.message import Address, MessageDecoder, Properties
from penstock.broker.publishing.routing import Route, resolve
from penstock.broker.queues.queue import Queue
from penstock.broker.route_count import RouteCount
from penstock.broker.staged_rows import RowRun
from penstock.broker.streams.stream import Stream
from penstock.broker.vhost import VirtualHost

# Addresses and headers that are kept; above the number all are dropped. Longer headers are not
# kept: most of them come once.
KEPT_MAX: Final = 4096
KEPT_HEADER_BYTES_MAX: Final = 1024


class RowTarget:
    """Where messages of one address go."""

    def __init__(self, address: Address, route: Route) -> None:
        self.address: Address = address
        self.generation: int = route.generation
        # Whether all messages of the address go there, whatever their headers say.
        self.is_fixed: bool = route.cacheable
        self.reaches_any: bool = bool(route.queues or route.delayed)
        self.delayed: list[DelayedExchange] = route.delayed
        self.queues: list[Queue] = []
        self.streams: list[Stream] = []
        # Those of the queues that refuse what they have no room for.
        self.refusing: list[Queue] = []
        # Where publishes are counted; None when nobody counts.
        self.count: RouteCount | None = None
        for queue in route.queues:
            if isinstance(queue, Stream):
                self.streams.append(queue)
            else:
                self.queues.append(queue)
                if refuses(queue):
                    self.refusing.append(queue)


class RowTargets:
    """Of one virtual host."""

    def __init__(self, vhost: VirtualHost) -> None:
        self._vhost: VirtualHost = vhost
        self._decoder: MessageDecoder = vhost.streams.decoder
        self._targets: dict[bytes, RowTarget] = {}
        self._properties: dict[bytes, Properties] = {}

    def properties_of(self, row: RowRun) -> Properties:
        known = self._properties.get(row.header)
        return self._read_properties(row.header) if known is None else known

    def _read_properties(self, header: bytes) -> Properties:
        read = self._decoder.decode("", "", header, b"").properties
        if len(header) <= KEPT_HEADER_BYTES_MAX:
            if len(self._properties) >= KEPT_MAX:
                self._properties.clear()
            self._properties[header] = read
        return read

    def target_of(self, row: RowRun, properties: Properties) -> RowTarget:
        # One that does not hold for all messages of its address is not among the targets.
        known = self._targets.get(row.address)
        if (
            known is not None
            and known.generation == self._vhost.generation
            and not properties.has_extra_keys
        ):
            return known
        address = Address(row.exchange(), row.routing_key(), row.address)
        route = self._resolve(address, properties)
        target = RowTarget(address, route)
        if self._vhost.watcher is not None:
            target.count = self._vhost.watcher.route(
                self._vhost.name, address.exchange, address.routing_key
            )
        if route.cacheable:
            if len(self._targets) >= KEPT_MAX:
                self._targets.clear()
            self._targets[row.address] = target
        return target

    def _resolve(self, address: Address, properties: Properties) -> Route:
        vhost = self._vhost
        exchange = vhost.exchanges.get(address.exchange)
        if exchange is None:
            return Route(vhost.generation)
        if isinstance(exchange, DelayedExchange) and exchange.delay_of(properties) > 0:
            nowhere = Route(vhost.generation)
            nowhere.cacheable = False
            nowhere.delayed.append(exchange)
            return nowhere
        return resolve(vhost, exchange, address.routing_key, properties)


def refuses(queue: Queue) -> bool:
    """Whether a publish is refused when it is full; others drop what is oldest."""
    settings = queue.settings
    return settings.overflow is not Overflow.DROP_HEAD and (
        settings.max_length >= 0 or settings.max_length_bytes >= 0
    )


def first_full(queues: list[Queue], body_size: int, now: int) -> Queue | None:
    """The first queue that would refuse a message of this size; what consumers can take at once
    takes no room.
    """
    for queue in queues:
        if _is_full(queue, body_size):
            if queue.consumers.count:
                queue.dispatch(now)
            if _is_full(queue, body_size):
                return queue
    return None


def _is_full(queue: Queue, body_size: int) -> bool:
    settings = queue.settings
    return (
        0 <= settings.max_length <= queue.ready.count
        or 0 <= settings.max_length_bytes < queue.ready_bytes + body_size
    )
