"""Rows of bindings, under RabbitMQ's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.bound_exchanges import DEFAULT_EXCHANGE
from penstock.broker.definitions.exporting import exported_table
from penstock.server.http.api.binding_keys import properties_key
from penstock.server.http.api.schema import TABLE, TEXT, one_of
from penstock.server.http.api.stats import row_schema

if TYPE_CHECKING:
    from penstock.broker.exchanges.exchange import Binding
    from penstock.server.http.api.listing import Row

BINDING_SCHEMA = row_schema(
    {
        "arguments": TABLE,
        "destination": TEXT,
        "destination_type": one_of("queue", "exchange"),
        "properties_key": TEXT,
        "routing_key": TEXT,
        "source": TEXT,
        "vhost": TEXT,
    }
)


class BindingRecord:
    """One binding. What it reads never changes."""

    __slots__ = ("_binding", "_vhost")

    def __init__(self, vhost: str, binding: Binding) -> None:
        self._vhost = vhost
        self._binding = binding

    @property
    def name(self) -> str:
        """A list of bindings is filtered by where they begin."""
        return self._binding.source.name

    @property
    def routing_key(self) -> str:
        return self._binding.routing_key

    @property
    def arguments(self) -> dict[str, object]:
        return self._binding.arguments

    def row(self) -> Row:
        binding = self._binding
        return {
            "arguments": exported_table(binding.arguments),
            "destination": binding.destination_name,
            "destination_type": "exchange" if binding.destination_queue is None else "queue",
            "properties_key": properties_key(binding.routing_key, binding.arguments),
            "routing_key": binding.routing_key,
            "source": binding.source.name,
            "vhost": self._vhost,
        }


class DefaultBindingRecord:
    """The binding that every queue has to the default exchange by itself."""

    __slots__ = ("_queue", "_vhost")

    name: Final = DEFAULT_EXCHANGE

    def __init__(self, vhost: str, queue: str) -> None:
        self._vhost = vhost
        self._queue = queue

    @property
    def routing_key(self) -> str:
        return self._queue

    @property
    def arguments(self) -> dict[str, object]:
        return {}

    def row(self) -> Row:
        return {
            "arguments": {},
            "destination": self._queue,
            "destination_type": "queue",
            "properties_key": properties_key(self._queue, {}),
            "routing_key": self._queue,
            "source": DEFAULT_EXCHANGE,
            "vhost": self._vhost,
        }
