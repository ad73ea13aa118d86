"""Headers exchange: a binding's arguments are compared with the message's headers.

`x-match` says how: `all` (the default) or `any` of the arguments must match, leaving out those
whose name begins with `x-`; `all-with-x` and `any-with-x` look at these too. An argument without a
value (void) matches by mere presence of the header.
"""

from enum import Enum
from typing import Final

from penstock.broker.errors import PreconditionFailed
from penstock.broker.exchanges.exchange import Binding, Exchange
from penstock.broker.field_types import same_value, type_name
from penstock.broker.message import Properties

MATCH_ARGUMENT: Final = "x-match"


class Match(Enum):
    ALL = "all"
    ANY = "any"
    ALL_WITH_X = "all-with-x"
    ANY_WITH_X = "any-with-x"


class HeadersPattern:
    """The arguments of one binding, read once."""

    def __init__(self, arguments: dict[str, object]) -> None:
        match = match_of(arguments)
        with_x = match in {Match.ALL_WITH_X, Match.ANY_WITH_X}
        self._any: bool = match in {Match.ANY, Match.ANY_WITH_X}
        self._wanted: dict[str, object] = {
            name: value
            for name, value in arguments.items()
            if name != MATCH_ARGUMENT and (with_x or not name.startswith("x-"))
        }

    def matches(self, headers: dict[str, object]) -> bool:
        any_match = self._any
        for name, value in self._wanted.items():
            matched = name in headers and (value is None or same_value(value, headers[name]))
            if matched == any_match:
                # The first hit decides `any`, the first miss decides `all`.
                return any_match
        return not any_match


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

    def match(self, routing_key: str, properties: Properties, found: list[Binding]) -> None:
        if not self._patterns:
            return
        headers = properties.headers()
        for binding, pattern in self._patterns.items():
            if pattern.matches(headers):
                found.append(binding)

    def add(self, binding: Binding) -> None:
        self._patterns[binding] = HeadersPattern(binding.arguments)

    def remove(self, binding: Binding) -> None:
        del self._patterns[binding]

    def check_binding(self, routing_key: str, arguments: dict[str, object]) -> None:
        match_of(arguments)


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
