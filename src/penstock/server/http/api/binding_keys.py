"""The key by which a path names a binding, and the name by which it names the default exchange."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_plus

from penstock.broker.access.permissions import DEFAULT_EXCHANGE_ALIAS
from penstock.broker.bound_exchanges import DEFAULT_EXCHANGE

if TYPE_CHECKING:
    from penstock.broker.exchanges.exchange import Binding

# Of a binding without a routing key, and between a routing key and what tells arguments apart.
_MARK: Final = "~"
_HASH_OCTETS: Final = 6


def exchange_called(said: str) -> str:
    """What a path says of the default exchange, which has no name."""
    return DEFAULT_EXCHANGE if said == DEFAULT_EXCHANGE_ALIAS else said


def key_of(routing_key: str, arguments: dict[str, object]) -> str:
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


def means(key: str, binding: Binding) -> bool:
    """Whether a path means this binding. A client may have encoded the routing key once more than
    it was given, or not at all.
    """
    own = key_of(binding.routing_key, binding.arguments)
    return own in {key, key_of(key, {})} or (not binding.arguments and key == binding.routing_key)
