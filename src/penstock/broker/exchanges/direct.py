"""Direct exchange: the routing key equals the binding key."""

from penstock.broker.exchanges.exchange import Binding, Exchange
from penstock.broker.message import Properties


class DirectExchange(Exchange):
    """Also the default exchange, which has no bindings of its own: `routing` looks queues up."""

    def __init__(
        self,
        name: str,
        kind: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: dict[str, object],
    ) -> None:
        super().__init__(name, kind, durable, auto_delete, internal, arguments)
        # Dictionaries keep the order of binding and forget one in constant time.
        self._by_key: dict[str, dict[Binding, None]] = {}

    def match(self, routing_key: str, properties: Properties, found: list[Binding]) -> None:
        bindings = self._by_key.get(routing_key)
        if bindings is not None:
            found.extend(bindings)

    def add(self, binding: Binding) -> None:
        self._by_key.setdefault(binding.routing_key, {})[binding] = None

    def remove(self, binding: Binding) -> None:
        bindings = self._by_key[binding.routing_key]
        del bindings[binding]
        if not bindings:
            del self._by_key[binding.routing_key]
