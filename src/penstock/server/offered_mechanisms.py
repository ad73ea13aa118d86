"""Which SASL mechanisms a listener offers: those of the configuration, or the default ones.

ANONYMOUS is the exception in the default: everybody who reaches the listener is the default user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from penstock.dialects.mechanisms import ALL_MECHANISMS, ANONYMOUS
from penstock.server.server import is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterable

# By listeners on loopback addresses only, everywhere, nowhere.
Anonymous = Literal["loopback", "always", "never"]
MechanismName = Literal["PLAIN", "AMQPLAIN", "SCRAM-SHA-256", "EXTERNAL", "ANONYMOUS"]


def offered_mechanisms(
    configured: Iterable[str], anonymous: Anonymous, hosts: Iterable[str]
) -> tuple[str, ...]:
    """`hosts` are all that the server listens on. A list that names ANONYMOUS offers it."""
    names = tuple(configured)
    if names:
        return names
    if allows_anonymous(anonymous, hosts):
        return ALL_MECHANISMS
    return tuple(name for name in ALL_MECHANISMS if name != ANONYMOUS)


def allows_anonymous(setting: Anonymous, hosts: Iterable[str]) -> bool:
    """One host that is public counts for all: a proxy in front of it makes its clients look as if
    they came from this machine.
    """
    if setting != "loopback":
        return setting == "always"
    # An empty host means every address of the machine.
    return all(host == "localhost" or (host != "" and is_loopback(host)) for host in hosts)
