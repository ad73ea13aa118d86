"""Fanout exchange: every binding, whatever its key."""

from penstock.broker.exchanges.exchange import Binding, Exchange
from penstock.broker.message import Properties


class FanoutExchange(Exchange):
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
        self._bindings: dict[Binding, None] = {}

    def match(self, routing_key: str, properties: Properties, found: list[Binding]) -> None:
        found.extend(self._bindings)

    def add(self, binding: Binding) -> None:
        self._bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        del self._bindings[binding]
