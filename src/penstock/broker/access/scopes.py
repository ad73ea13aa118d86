"""The scopes of an OAuth 2 token, as RabbitMQ's plugin reads them.

    read:VHOST/NAME               read permission on queues and exchanges
    write:VHOST/NAME/ROUTING-KEY  the same for write, and for these routing keys of topic exchanges
    configure:VHOST/NAME
    tag:administrator             a tag of the user

VHOST, NAME and ROUTING-KEY are patterns: `*` stands for any text, everything else for itself.
Special characters are percent-encoded; `+` is a space. A scope of another form, or with a percent sign
that encodes nothing, grants nothing.

Patterns are matched part by part and not as regular expressions, so that no pattern is costly.
"""

from typing import Final
from urllib.parse import unquote_to_bytes

from penstock.broker.access.permissions import Permission

TAG_PREFIX: Final = "tag:"
_WILDCARD: Final = "*"
_HEXADECIMAL: Final = frozenset("0123456789abcdefABCDEF")
_PERMISSIONS: Final = {
    "configure": Permission.CONFIGURE,
    "read": Permission.READ,
    "write": Permission.WRITE,
}


class ScopePattern:
    """A text with wildcards. Held by a scope."""

    def __init__(self, parts: list[str]) -> None:
        # What stands before, between and behind the wildcards.
        self._parts: list[str] = parts

    def matches(self, text: str) -> bool:
        parts = self._parts
        first = parts[0]
        if len(parts) == 1:
            return text == first
        last = parts[-1]
        end = len(text) - len(last)
        at = len(first)
        if end < at or not text.startswith(first) or not text.endswith(last):
            return False
        for index in range(1, len(parts) - 1):
            part = parts[index]
            found = text.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True


class Scope:
    """A permission on what the patterns match. Held by the grant of a token."""

    def __init__(
        self,
        permission: Permission,
        vhost: ScopePattern,
        name: ScopePattern,
        routing_key: ScopePattern | None,
    ) -> None:
        self.permission: Permission = permission
        self.vhost: ScopePattern = vhost
        self.name: ScopePattern = name
        # None: the scope says nothing about the routing keys of topic exchanges.
        self.routing_key: ScopePattern | None = routing_key


def read_scopes(texts: list[str]) -> list[Scope]:
    """Of those without their prefix; what is not a permission is left out."""
    found: list[Scope] = []
    for text in texts:
        scope = _read_scope(text)
        if scope is not None:
            found.append(scope)
    return found


def read_tags(texts: list[str]) -> tuple[str, ...]:
    tags = [text[len(TAG_PREFIX) :] for text in texts if text.startswith(TAG_PREFIX)]
    return tuple(sorted({tag for tag in tags if tag}))


def _read_scope(text: str) -> Scope | None:
    word, _, rest = text.partition(":")
    permission = _PERMISSIONS.get(word)
    segments = rest.split("/")
    if permission is None or not 2 <= len(segments) <= 3:
        return None
    patterns: list[ScopePattern] = []
    for segment in segments:
        pattern = _read_pattern(segment)
        if pattern is None:
            return None
        patterns.append(pattern)
    routing_key = patterns[2] if len(patterns) == 3 else None
    return Scope(permission, patterns[0], patterns[1], routing_key)


def _read_pattern(segment: str) -> ScopePattern | None:
    parts: list[str] = []
    for part in segment.split(_WILDCARD):
        for encoded in part.split("%")[1:]:
            if len(encoded) < 2 or not _HEXADECIMAL.issuperset(encoded[:2]):
                return None
        octets = unquote_to_bytes(part.replace("+", " "))
        parts.append(octets.decode("utf-8", "surrogateescape"))
    return ScopePattern(parts)
