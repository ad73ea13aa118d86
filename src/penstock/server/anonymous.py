"""Whether a server lets AMQP 1.0 clients in that name no user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from penstock.server.server import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterable

# By a server that listens on loopback addresses only, everywhere, nowhere.
Anonymous = Literal["loopback", "always", "never"]


def allows_anonymous(setting: Anonymous, hosts: Iterable[str]) -> bool:
    """`hosts` are all that the server listens on, for AMQP and for HTTP. One that is public counts
    for all: a proxy in front of it makes its clients look as if they came from this machine.
    """
    if setting != "loopback":
        return setting == "always"
    # An empty one is every address of the machine.
    return all(host == "localhost" or (host != "" and is_loopback(host)) for host in hosts)
