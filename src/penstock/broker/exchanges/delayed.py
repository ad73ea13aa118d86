"""Delayed exchange (`x-delayed-message`): routes as another type, after the message's `x-delay`.

The exchange only says how long a message waits (`delay_of`) and, when it has waited, which
bindings it takes; publishing holds it back with a timer.
"""

from typing import Final

from penstock.broker.exchanges.exchange import Binding, Exchange
from penstock.broker.message import Properties

KIND: Final = "x-delayed-message"
TYPE_ARGUMENT: Final = "x-delayed-type"
DELAY_HEADER: Final = "x-delay"
# The longest wait, as in RabbitMQ's plugin: what 32 bits of milliseconds hold, about 49 days.
DELAY_MS_MAX: Final = 2**32 - 1


class DelayedExchange(Exchange):
    def __init__(self, inner: Exchange) -> None:
        super().__init__(
            inner.name,
            KIND,
            inner.durable,
            inner.auto_delete,
            inner.internal,
            inner.arguments,
        )
        # The delay stands in the headers, so no route through here can be cached by its key.
        self.by_key_only = False
        self._inner: Exchange = inner

    def delay_of(self, properties: Properties) -> int:
        """Milliseconds to wait; 0 for a message that goes on at once.

        As in RabbitMQ's plugin a negative delay, which marks a message that has waited already,
        and one that is too long are ignored.
        """
        delay = properties.headers().get(DELAY_HEADER)
        if isinstance(delay, bool) or not isinstance(delay, int):
            return 0
        return delay if 0 < delay <= DELAY_MS_MAX else 0

    def match(self, routing_key: str, properties: Properties, found: list[Binding]) -> None:
        self._inner.match(routing_key, properties, found)
        self.compared = self._inner.compared

    def foresee(self, routing_key: str, properties: Properties, found: list[Binding]) -> None:
        self._inner.foresee(routing_key, properties, found)

    def add(self, binding: Binding) -> None:
        self._inner.add(binding)

    def remove(self, binding: Binding) -> None:
        self._inner.remove(binding)

    def check_binding(self, routing_key: str, arguments: dict[str, object]) -> None:
        self._inner.check_binding(routing_key, arguments)
