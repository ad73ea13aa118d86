"""The names by which the server may be addressed, and the origins whose pages may use it.

A page of evil.example can have its own name resolve to 127.0.0.1 and then talk to a server there as
if it came from it (DNS rebinding). The browser sends the name in the Host header, so a server that
accepts only its own names is safe from this. An IP address cannot be rebound: a client that sends
one has connected to it.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

# In the list of names: the Host header is not checked.
ANY_HOST: Final = "*"
_LOCALHOST: Final = "localhost"
# Host headers as RFC 9110 has them: an IPv6 address in brackets, which may have a zone, or a name or
# an IPv4 address; then perhaps a port.
_IN_BRACKETS: Final = re.compile(r"\[([0-9a-f:.]+)(?:%[a-z0-9._~%-]+)?\](?::[0-9]*)?")
_NAMED: Final = re.compile(r"([^\[\]:%/@]+)(?::[0-9]*)?")
# What stands before `.localhost`.
_LABELS: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")
# Methods that change nothing.
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# How much of a name is repeated in an error.
_SHOWN_MAX: Final = 100


def host_names(*names: str) -> tuple[str, ...]:
    """Names as they are compared, with the machine's own."""
    return tuple(sorted({_plain(name) for name in (*names, socket.gethostname()) if name}))


class Hosts:
    """Held by the application and by the WebSocket's door."""

    def __init__(self, names: tuple[str, ...], origins: tuple[str, ...]) -> None:
        """`names` come from `host_names`."""
        self._names = frozenset(names)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins)

    def objection(self, headers: Mapping[str, str]) -> Problem | None:
        """The objection to the name by which the server is addressed; None without one."""
        host = headers.get("host")
        # Only HTTP/1.0 clients may omit it, and no browser uses HTTP/1.0.
        if host is None or self._is_ours(host):
            return None
        return Problem(
            421,
            f"{host[:_SHOWN_MAX]!r} in the Host header is not an allowed name of this broker",
            "Address the broker by its IP address, or add the name to http.allowed_hosts in the "
            "configuration file.",
            headers={"Connection": "close"},
        )

    def _is_ours(self, host: str) -> bool:
        if ANY_HOST in self._names:
            return True
        host = host.strip().lower()
        bracketed = _IN_BRACKETS.fullmatch(host)
        if bracketed is not None:
            return _is_address(bracketed[1])
        named = _NAMED.fullmatch(host)
        if named is None:
            return False
        name = _plain(named[1])
        if name == _LOCALHOST or name in self._names or _is_address(name):
            return True
        before, dot, last = name.rpartition(".")
        return bool(dot) and last == _LOCALHOST and _LABELS.fullmatch(before) is not None

    def origin_objection(self, headers: Mapping[str, str]) -> Problem | None:
        """The objection to the origin that a browser sends; None without one. The parser has
        refused requests with two.
        """
        origin = headers.get("origin")
        if origin is None or origin.lower() in self._origins:
            return None
        if _place_of(origin) == headers.get("host", "").lower():
            return None
        # Otherwise any page that is open on this machine could log in as the default user.
        return Problem(
            403,
            f"web pages from {origin[:_SHOWN_MAX]!r} are not allowed to open WebSockets or to "
            "change anything",
            "To allow it, add the origin to http.websocket_origins in the configuration file.",
        )


def changes_something(method: str) -> bool:
    return method not in _READING


def _place_of(origin: str) -> str:
    try:
        return urlsplit(origin.lower()).netloc
    except ValueError:
        return ""


def _plain(name: str) -> str:
    return name.strip().lower().rstrip(".")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
