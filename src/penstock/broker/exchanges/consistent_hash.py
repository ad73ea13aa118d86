"""Consistent-hash exchange: each message goes to one binding, chosen by a hash of the message.

Every binding owns points on a ring, in number proportional to its weight, which is its routing
key; a message belongs to the first point at or after its own hash. A new binding takes its share
from the others evenly and nothing else moves; an unbound one leaves its share to the others.

Messages are hashed by routing key, or by what `hash-header` or `hash-property` names. A message
without that header or property hashes like an empty one, so all of them go to one binding.

Invariants: the points depend on the destination's name only, so a restarted or another node
routes alike; `_points` is sorted and `_owners` runs parallel to it.
"""

import bisect
import hashlib
from typing import Final

from penstock.broker.errors import PreconditionFailed
from penstock.broker.exchanges.exchange import Binding, Exchange
from penstock.broker.field_types import type_name
from penstock.broker.message import Properties

# Points per unit of weight. With 100 the shares of equal weights stay within about 10 % of
# each other; more costs memory and buys little.
POINTS_PER_WEIGHT: Final = 100
# Bounds the ring: one binding owns at most 100,000 points (a few megabytes).
WEIGHT_MAX: Final = 1000
# Hashes are 60 bits wide, which a compiled integer holds without an allocation.
_HASH_OCTETS: Final = 8
_SPARE_BITS: Final = 4

_HASH_HEADER: Final = "hash-header"
_HASH_PROPERTY: Final = "hash-property"
_PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")


class ConsistentHashExchange(Exchange):
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
        self._hash_header: str = _named(arguments, _HASH_HEADER)
        self._hash_property: str = _named(arguments, _HASH_PROPERTY)
        if self._hash_header and self._hash_property:
            raise PreconditionFailed("hash-header and hash-property are mutually exclusive")
        if self._hash_property and self._hash_property not in _PROPERTIES:
            raise PreconditionFailed(f"Unsupported property: {self._hash_property}")
        self.by_key_only = not self._hash_header and not self._hash_property
        self._points: list[int] = []
        self._owners: list[Binding] = []

    def match(self, routing_key: str, properties: Properties, found: list[Binding]) -> None:
        if not self._points:
            return
        place = bisect.bisect_left(self._points, hash_of(self._subject(routing_key, properties)))
        found.append(self._owners[place if place < len(self._owners) else 0])

    def _subject(self, routing_key: str, properties: Properties) -> str:
        if self._hash_header:
            value = properties.headers().get(self._hash_header)
            return "" if value is None else str(value)
        if self._hash_property:
            return properties.text_of(self._hash_property)
        return routing_key

    def add(self, binding: Binding) -> None:
        points = points_of(binding)
        ring = list(zip(self._points, self._owners, strict=True))
        ring.extend([(point, binding) for point in points])
        # Two sorted runs: the sort only merges them.
        ring.sort(key=_point)
        self._points = [point for point, _ in ring]
        self._owners = [owner for _, owner in ring]

    def remove(self, binding: Binding) -> None:
        ring = zip(self._points, self._owners, strict=True)
        kept = [(point, owner) for point, owner in ring if owner is not binding]
        self._points = [point for point, _ in kept]
        self._owners = [owner for _, owner in kept]

    def check_binding(self, routing_key: str, arguments: dict[str, object]) -> None:
        weight_of(routing_key)


def weight_of(routing_key: str) -> int:
    """The weight that a binding's routing key spells."""
    digits = routing_key.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        term = f'<<"{routing_key}">>' if routing_key else "<<>>"
        raise PreconditionFailed(f"The binding key must be an integer: {term}")
    # Only a text of limited length is converted to a number.
    if len(digits) > len(str(WEIGHT_MAX)) or int(digits) > WEIGHT_MAX:
        if routing_key == digits:
            raise PreconditionFailed(f"The binding key must not be greater than {WEIGHT_MAX}")
    if routing_key != digits or not digits.strip("0"):
        raise PreconditionFailed("The binding key must be greater than 0")
    return int(digits)


def points_of(binding: Binding) -> list[int]:
    """Sorted. A heavier binding of the same destination owns the lighter one's points too."""
    kind = "queue" if binding.destination_queue is not None else "exchange"
    prefix = f"{kind}/{binding.destination_name}/"
    count = weight_of(binding.routing_key) * POINTS_PER_WEIGHT
    return sorted([hash_of(prefix + str(index)) for index in range(count)])


def hash_of(subject: str) -> int:
    # blake2b, because checksums spread similar short keys badly; it costs about a microsecond.
    digest = hashlib.blake2b(
        subject.encode(errors="surrogateescape"), digest_size=_HASH_OCTETS
    ).digest()
    return int.from_bytes(digest, "big") >> _SPARE_BITS


def _point(pair: tuple[int, Binding]) -> int:
    return pair[0]


def _named(arguments: dict[str, object], name: str) -> str:
    value = arguments.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise PreconditionFailed(f"{name} must be a string, got {type_name(value)}")
    return value
