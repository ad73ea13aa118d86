"""Connections of other servers of the cluster: how the AMQP 0-9-1 dialect passes them on.

A peer logs in as `cluster` with SCRAM-SHA-256 and the cluster's key as its password, which never
crosses the wire. From its open on, everything it says goes to a `PeerSession`; the dialect keeps
the connection itself.
"""

from abc import ABC, abstractmethod
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.dialects.peer import Peer
from penstock.formats.scram_keys import ScramKeys
from penstock.wire.amqp091.connection import Connection as WireConnection
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp091.methods_generated import Method

# Connections of servers at one time; they do not count for the limit of connections. Each of at most
# fifteen members dials once, and may dial again before the end of its old connection was noticed.
PEER_CONNECTIONS_MAX: Final = 64
TOO_MANY_PEERS: Final = f"the limit of {PEER_CONNECTIONS_MAX} connections of servers is reached"


@mypyc_attr(allow_interpreted_subclasses=True)
class PeerSession(ABC):
    """One connection of a peer, from its open to its end. Held by the dialect's connection."""

    @abstractmethod
    def method_received(self, channel: int, method: Method, now: int) -> None:
        """A method of class cluster without content. May raise a fault."""

    @abstractmethod
    def content_received(self, method: bytes, body: bytes, now: int) -> None:
        """A method of class cluster with its content. May raise a fault."""

    @abstractmethod
    def drained(self) -> None:
        """The socket has room again."""

    @abstractmethod
    def ended(self, reason: str, now: int) -> None:
        """Once, and the last call."""

    @abstractmethod
    def held_bytes(self) -> int:
        """Bytes that wait to be sent, and are not in the connection's output yet."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Peers(ABC):
    """The cluster as the dialect sees it. Held by the container of a cluster member."""

    @abstractmethod
    def keys(self) -> ScramKeys:
        """Of the cluster's key."""

    @abstractmethod
    def limits(self) -> Limits:
        """Of connections of peers."""

    @abstractmethod
    def why_refused(self, peer: Peer) -> str:
        """Why peers may not connect in this way; empty if they may."""

    @abstractmethod
    def opened(self, wire: WireConnection, peer: Peer, now: int) -> PeerSession:
        """A peer has logged in and opened its connection."""
