"""Stand-ins for what dialects give the broker."""

from penstock.broker.consumer import Consumer
from penstock.broker.entry import QueueEntry
from penstock.broker.exchanges.direct import DirectExchange
from penstock.broker.exchanges.exchange import Binding, Exchange
from penstock.broker.message import NO_EXPIRATION, Address, Message, Properties
from penstock.broker.publishing.routing import resolve
from penstock.broker.shared_services import SharedServices
from penstock.broker.vhost import VirtualHost
from penstock.world.entropy import Entropy


class PlainProperties(Properties):
    def __init__(
        self, headers: dict[str, object] | None = None, extra_keys: list[str] | None = None
    ) -> None:
        super().__init__(False, 0, NO_EXPIRATION)
        self._headers = headers or {}
        self._extra_keys = extra_keys or []
        self.texts: dict[str, str] = {}
        self.has_extra_keys = bool(extra_keys)

    def headers(self) -> dict[str, object]:
        return self._headers

    def encoded(self) -> bytes:
        return repr(self._headers).encode()

    def text_of(self, name: str) -> str:
        return self.texts.get(name, "")

    def extra_keys(self) -> list[str]:
        return self._extra_keys


class CountingEntropy(Entropy):
    """Octets that never repeat and are the same in every run."""

    def __init__(self) -> None:
        self.drawn = 0

    def octets(self, count: int) -> bytes:
        self.drawn += 1
        return self.drawn.to_bytes(count, "big")


class DeafConsumer(Consumer):
    """Registered, but never takes anything."""

    def __init__(self) -> None:
        super().__init__("deaf", 0, False, False)
        self.heard_cancel = False

    def can_take(self) -> bool:
        return False

    def take(self, entry: QueueEntry) -> None:
        raise AssertionError("it said that it cannot take")

    def cancelled(self) -> None:
        self.heard_cancel = True


def make_vhost() -> VirtualHost:
    return VirtualHost("/", SharedServices())


def message(body: bytes = b"") -> Message:
    return Message(Address("", "", b""), PlainProperties(), body, -1)


def routed(vhost: VirtualHost, exchange: str, key: str, properties: Properties) -> list[str]:
    route = resolve(vhost.routing, vhost.exchanges[exchange], key, properties)
    return [queue.name for queue in route.queues]


def some_exchange(name: str) -> Exchange:
    return DirectExchange(name, "direct", False, False, False, {})


def bind(
    source: Exchange,
    name: str,
    routing_key: str = "",
    arguments: dict[str, object] | None = None,
) -> Binding:
    """Bind an exchange of that name, the lightest destination there is."""
    binding = Binding(source, None, some_exchange(name), routing_key, arguments or {})
    source.add(binding)
    return binding


def matched(
    exchange: Exchange, routing_key: str, headers: dict[str, object] | None = None
) -> list[str]:
    found: list[Binding] = []
    exchange.match(routing_key, PlainProperties(headers), found)
    return [binding.destination_name for binding in found]
