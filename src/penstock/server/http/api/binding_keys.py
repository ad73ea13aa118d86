"""The key by which a path names a binding, and the name by which it names the default exchange."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Final, Protocol, TypeVar
from urllib.parse import quote_plus

from penstock.broker.access.permissions import DEFAULT_EXCHANGE_ALIAS
from penstock.broker.bound_exchanges import DEFAULT_EXCHANGE
from penstock.server.http.api.schema import text_of
from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

# Of a binding without a routing key, and between a routing key and what tells arguments apart.
_MARK: Final = "~"
_HASH_OCTETS: Final = 6
# A routing key travels as a short string; a longer one is answered with 400.
KEY_BYTES_MAX: Final = 255


class Keyed(Protocol):
    """What has a key: a binding, or what a page has read of one."""

    @property
    def routing_key(self) -> str: ...

    @property
    def arguments(self) -> dict[str, object]: ...


AnyKeyed = TypeVar("AnyKeyed", bound=Keyed)


def exchange_name(said: str) -> str:
    """What a path says of the default exchange, which has no name."""
    return DEFAULT_EXCHANGE if said == DEFAULT_EXCHANGE_ALIAS else said


def routing_key_in(body: dict[str, object]) -> str:
    """What a request's body says, or nothing. Raises a `Problem`."""
    key = text_of(body, "routing_key")
    if len(key.encode(errors="surrogateescape")) > KEY_BYTES_MAX:
        raise Problem(400, f"'routing_key' is longer than {KEY_BYTES_MAX} bytes")
    return key


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


def find_meant(key: str, bindings: Iterable[AnyKeyed]) -> AnyKeyed | None:
    """The binding that a path with this key means, among those between the same exchange and
    destination. Some clients name the routing key itself, which may be the key of another binding:
    that one goes before.
    """
    named: AnyKeyed | None = None
    for binding in bindings:
        if key == properties_key(binding.routing_key, binding.arguments):
            return binding
        if not binding.arguments and key == binding.routing_key:
            named = binding
    return named
