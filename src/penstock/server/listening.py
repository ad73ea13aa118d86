"""The sockets that a broker listens on: one for each address, all on the same port.

`localhost` is both of a machine's loopback addresses, because clients disagree on which of them the
name means. A machine without IPv6 has one of them, and the broker carries on with it.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

log = structlog.get_logger()

LOCALHOST: Final = "localhost"
# In this order: the first one is what the ready line shows first.
LOOPBACK_ADDRESSES: Final = ("127.0.0.1", "::1")
# The errors of a machine that has no IPv6, or has it switched off.
_NO_SUCH_ADDRESS: Final = frozenset(
    {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT}
)
# A free port of the first address may be taken on the second; so many others are tried before the
# addresses get different ports.
FREE_PORT_TRIES: Final = 20


class _Place(NamedTuple):
    """An address as `getaddrinfo` returns it."""

    family: int
    kind: int
    protocol: int
    address: tuple[Any, ...]
    # Whether the host has an IPv4 address as well, and this is its other one.
    may_be_missing: bool


class CannotListen(OSError):
    """An address cannot be bound."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"cannot listen on {address}: {reason}")
        self.address = address
        self.reason = reason


class PortTaken(Exception):
    """The free port of the first address is in use on another one."""


def bound(
    hosts: Sequence[str],
    port: int,
    backlog: int,
    make_socket: Callable[[int, int, int], socket.socket] = socket.socket,
) -> list[socket.socket]:
    """Listening sockets, at least one, in the order of the hosts. Raises `CannotListen`."""
    assert hosts, "a broker listens somewhere"
    binding = _Binding(hosts, backlog, make_socket)
    if port:
        return binding.bind(port)
    for _ in range(FREE_PORT_TRIES):
        try:
            return binding.bind(0)
        except PortTaken:
            continue
    return binding.bind(0, is_shared=False)


def address_of(listening: socket.socket) -> tuple[str, int]:
    name = listening.getsockname()
    return str(name[0]), int(name[1])


def shown(address: tuple[str, int]) -> str:
    """The address as it is written in a URL."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Binding:
    """One attempt after the other to get all addresses on one port. Held by `bound`."""

    def __init__(
        self,
        hosts: Sequence[str],
        backlog: int,
        make_socket: Callable[[int, int, int], socket.socket],
    ) -> None:
        self._places = list(dict.fromkeys(place for host in hosts for place in _places(host)))
        self._backlog = backlog
        self._make_socket = make_socket

    def bind(self, port: int, *, is_shared: bool = True) -> list[socket.socket]:
        sockets: list[socket.socket] = []
        try:
            for place in self._places:
                is_first_ones = not port and is_shared and bool(sockets)
                wanted = address_of(sockets[0])[1] if is_first_ones else port
                try:
                    sockets.append(self._opened(place, wanted))
                except OSError as error:
                    if is_first_ones and error.errno == errno.EADDRINUSE:
                        raise PortTaken from error
                    if not place.may_be_missing or error.errno not in _NO_SUCH_ADDRESS:
                        address = shown((place.address[0], wanted))
                        raise CannotListen(address, error.strerror or str(error)) from error
                    log.warning(
                        "IPv6 address not available on this machine; not listening on it",
                        address=place.address[0],
                        reason=error.strerror,
                    )
        except Exception:
            for opened in sockets:
                opened.close()
            raise
        return sockets

    def _opened(self, place: _Place, port: int) -> socket.socket:
        listening = self._make_socket(place.family, place.kind, place.protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if place.family == socket.AF_INET6:
                # Each family has a socket of its own.
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind((place.address[0], port, *place.address[2:]))
            listening.listen(self._backlog)
            listening.setblocking(False)
        except OSError:
            listening.close()
            raise
        return listening


def _places(host: str) -> list[_Place]:
    names = LOOPBACK_ADDRESSES if host == LOCALHOST else (host,)
    found: list[tuple[int, int, int, tuple[Any, ...]]] = []
    for name in names:
        try:
            told = socket.getaddrinfo(
                name or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        except OSError as error:
            raise CannotListen(name, error.strerror or str(error)) from error
        found += [(family, kind, protocol, address) for family, kind, protocol, _, address in told]
    has_ipv4 = any(family == socket.AF_INET for family, *_ in found)
    # IPv4 first, whatever the system prefers: it is there on every machine.
    found.sort(key=lambda place: place[0] != socket.AF_INET)
    return [_Place(*place, has_ipv4 and place[0] == socket.AF_INET6) for place in found]
