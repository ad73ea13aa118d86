"""Headers exchange: a binding's arguments are compared with the message's headers.

`x-match` says how: `all` (the default) or `any` of the arguments must match, leaving out those
whose name begins with `x-`; `all-with-x` and `any-with-x` look at these too. An argument without a
value (void) matches by mere presence of the header.

Bindings are indexed by their arguments. A binding that needs all of its arguments is in the bucket
of one of them, the emptiest when it was bound, so bindings that differ in any argument share no
bucket; a binding that needs any of them is in the bucket of each. A message is compared with the
bindings in the buckets of its own headers.

Invariants: a pattern's `keys` name exactly the buckets in which its binding stands; a bucket is not
empty.
"""

from enum import Enum
from typing import Final

from penstock.broker.errors import PreconditionFailed
from penstock.broker.exchanges.exchange import Binding, Exchange
from penstock.broker.field_types import same_value, type_name
from penstock.broker.message import Properties

MATCH_ARGUMENT: Final = "x-match"

# A header's name, the kind of its value and the value; empty and None for its mere presence.
_Key = tuple[str, str, object]
_HASHABLE: Final = (str, int, float, bytes)


class Match(Enum):
    ALL = "all"
    ANY = "any"
    ALL_WITH_X = "all-with-x"
    ANY_WITH_X = "any-with-x"


class HeadersPattern:
    """The arguments of one binding, read once."""

    # Of the binding among all that were ever added.
    order: int = 0

    def __init__(self, arguments: dict[str, object]) -> None:
        match = match_of(arguments)
        with_x = match in {Match.ALL_WITH_X, Match.ANY_WITH_X}
        self._any: bool = match in {Match.ANY, Match.ANY_WITH_X}
        self._wanted: dict[str, object] = {
            name: value
            for name, value in arguments.items()
            if name != MATCH_ARGUMENT and (with_x or not name.startswith("x-"))
        }

        self.keys: list[_Key] = []

    def wanted_keys(self) -> list[_Key]:
        """The keys under which a message that this may match can be found."""
        return [_key_of(name, value) for name, value in self._wanted.items()]

    @property
    def wants_any(self) -> bool:
        return self._any

    def matches(self, headers: dict[str, object]) -> bool:
        any_match = self._any
        for name, value in self._wanted.items():
            matched = name in headers and (value is None or same_value(value, headers[name]))
            if matched == any_match:
                # The first hit decides `any`, the first miss decides `all`.
                return any_match
        return not any_match

    def objections(self, headers: dict[str, object]) -> list[str]:
        """Why a message with these headers does not match, header by header, for people."""
        found: list[str] = []
        for name, value in self._wanted.items():
            if name not in headers:
                found.append(f"header '{name}' is missing")
            elif value is not None and not same_value(value, headers[name]):
                found.append(f"header '{name}' is {headers[name]!r}, not {value!r}")
        return found


class HeadersExchange(Exchange):
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
        self.by_key_only = False
        self._patterns: dict[Binding, HeadersPattern] = {}
        self._buckets: dict[_Key, dict[Binding, HeadersPattern]] = {}
        # Bindings that want nothing and so match every message.
        self._undemanding: dict[Binding, HeadersPattern] = {}
        self._added: int = 0

    def match(self, routing_key: str, properties: Properties, found: list[Binding]) -> None:
        if not self._patterns:
            return
        headers = properties.headers()
        compared = 0
        hits: dict[int, Binding] = {}
        for binding, pattern in self._undemanding.items():
            hits[pattern.order] = binding
        for name, value in headers.items():
            compared += self._compare((name, "", None), headers, hits)
            if isinstance(value, _HASHABLE):
                compared += self._compare(_key_of(name, value), headers, hits)
        # In the order in which they were bound.
        for order in sorted(hits):
            found.append(hits[order])
        self.compared = compared

    def _compare(self, key: _Key, headers: dict[str, object], hits: dict[int, Binding]) -> int:
        """Look at the bindings of one bucket; returns how many there are."""
        bucket = self._buckets.get(key)
        if bucket is None:
            return 0
        for binding, pattern in bucket.items():
            if pattern.order not in hits and pattern.matches(headers):
                hits[pattern.order] = binding
        return len(bucket)

    def add(self, binding: Binding) -> None:
        pattern = HeadersPattern(binding.arguments)
        self._added += 1
        pattern.order = self._added
        self._patterns[binding] = pattern
        keys = pattern.wanted_keys()
        if not pattern.wants_any:
            if not keys:
                self._undemanding[binding] = pattern
                return
            keys = [self._emptiest(keys)]
        pattern.keys = list(dict.fromkeys(keys))
        for key in pattern.keys:
            self._buckets.setdefault(key, {})[binding] = pattern

    def _emptiest(self, keys: list[_Key]) -> _Key:
        best = keys[0]
        fewest = -1
        for key in keys:
            bucket = self._buckets.get(key)
            if bucket is None:
                return key
            if fewest < 0 or len(bucket) < fewest:
                fewest = len(bucket)
                best = key
        return best

    def remove(self, binding: Binding) -> None:
        pattern = self._patterns.pop(binding)
        self._undemanding.pop(binding, None)
        for key in pattern.keys:
            bucket = self._buckets[key]
            del bucket[binding]
            if not bucket:
                del self._buckets[key]

    def check_binding(self, routing_key: str, arguments: dict[str, object]) -> None:
        match_of(arguments)


def _key_of(name: str, value: object) -> _Key:
    """Values of different kinds are different, and what cannot be looked up is found by presence."""
    if isinstance(value, _HASHABLE):
        return (name, value.__class__.__name__, value)
    return (name, "", None)


def match_of(arguments: dict[str, object]) -> Match:
    if MATCH_ARGUMENT not in arguments:
        return Match.ALL
    value = arguments[MATCH_ARGUMENT]
    if not isinstance(value, str):
        raise PreconditionFailed(
            f"Invalid x-match field type {type_name(value)} (value {value}); expected longstr"
        )
    try:
        return Match(value)
    except ValueError:
        raise PreconditionFailed(
            f'Invalid x-match field value <<"{value}">>; '
            "expected all, any, all-with-x, or any-with-x"
        ) from None
