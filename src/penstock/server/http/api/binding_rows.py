"""Rows of bindings, under RabbitMQ's names, and the key by which a path names one of them."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_plus

from penstock.broker.access.permissions import DEFAULT_EXCHANGE_ALIAS
from penstock.broker.bound_exchanges import DEFAULT_EXCHANGE
from penstock.broker.definitions.exporting import exported_table
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
# Of a binding without a routing key, and between a routing key and what tells arguments apart.
_MARK: Final = "~"
_HASH_OCTETS: Final = 6


def exchange_name(said: str) -> str:
    """What a path says of the default exchange, which has no name."""
    return DEFAULT_EXCHANGE if said == DEFAULT_EXCHANGE_ALIAS else said


def properties_key(routing_key: str, arguments: dict[str, object]) -> str:
    """Tells bindings between the same exchange and destination apart. Without arguments it is
    RabbitMQ's; with some, what comes after the mark differs.
    """
    quoted = quote_plus(routing_key, errors="surrogateescape").replace(_MARK, "%7E")
    if not arguments:
        return quoted or _MARK
    # The representation tells 1 from 1.0 and true.
    told = repr(sorted(arguments.items(), key=lambda item: item[0]))
    digest = hashlib.sha256(told.encode(errors="surrogateescape")).digest()[:_HASH_OCTETS]
    return f"{quoted}{_MARK}{base64.urlsafe_b64encode(digest).decode()}"


def is_meant(key: str, routing_key: str, arguments: dict[str, object]) -> bool:
    """Whether a path with this key means such a binding. A client may have encoded the routing key
    once less than it was given.
    """
    return key == properties_key(routing_key, arguments) or (not arguments and key == routing_key)


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

    def is_named(self, key: str) -> bool:
        return is_meant(key, self._binding.routing_key, self._binding.arguments)

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

    def is_named(self, key: str) -> bool:
        return is_meant(key, self._queue, {})

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
