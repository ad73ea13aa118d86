"""Whether clients may work with this server now: it is the root of its cluster, or has none.

A client that has logged in and opens its connection while no root is known is *held*: it gets
neither an answer nor a refusal, and heartbeats go on. It is opened when this server may serve,
closed when another server is the root, and closed after `Serving.pause_ms` at the latest.

Without a cluster there is no `Serving`, and nobody is held.
"""

import hmac
from abc import ABC, abstractmethod
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.errors import NotRoot
from penstock.broker.timers import Timer, Timers
from penstock.dialects.protocol_connection import ProtocolConnection

# What a client may present in its properties: the SHA-256 of the cluster's key, in hexadecimal.
CLUSTER_KEY: Final = "cluster_key"
WRONG_CLUSTER_KEY: Final = (
    "the client property cluster_key is not the SHA-256 of this cluster's key in hexadecimal"
)
NO_ROOT: Final = "the cluster has elected no root in time; try again, or try another server"
NO_ROOT_KNOWN: Final = "the cluster has no active root at the moment; try again"


@mypyc_attr(allow_interpreted_subclasses=True)
class Serving(ABC):
    """Asked by both dialects when a client opens its connection. Implemented by the node."""

    @abstractmethod
    def is_serving(self, now: int) -> bool:
        """Whether this server is the active root."""

    @abstractmethod
    def root_address(self, now: int) -> str:
        """Where the active root listens, if that is another server; else empty."""

    @abstractmethod
    def pause_ms(self) -> int:
        """How long a client is held at most (T_pause)."""

    @abstractmethod
    def key_digest(self) -> str:
        """The SHA-256 of the cluster's key, in hexadecimal."""


class HeldClient(Timer):
    """A client that waits for the answer to its open. It is due when it has waited for too long."""

    def __init__(self, client: ProtocolConnection, number: int) -> None:
        super().__init__()
        self.connection = number
        self.client: ProtocolConnection = client

    def fire(self, now: int) -> None:
        self.client.stop(NO_ROOT, now)


class HeldClients:
    """All held clients of a server, in the order in which they came. Held by the container."""

    def __init__(self, timers: Timers) -> None:
        self._timers: Timers = timers
        # None without a cluster.
        self.serving: Serving | None = None
        # A dictionary for its order.
        self._clients: dict[HeldClient, None] = {}

    def count(self) -> int:
        return len(self._clients)

    def may_open(self, client: HeldClient, now: int) -> bool:
        """Whether a client may be opened at once. If not, it is held, or was turned away."""
        serving = self.serving
        if serving is None or serving.is_serving(now):
            return True
        address = serving.root_address(now)
        if address:
            client.client.stop(elsewhere(address), now)
        else:
            self._clients[client] = None
            self._timers.schedule(client, now + serving.pause_ms())
        return False

    def drop(self, client: HeldClient) -> None:
        """The client has gone; called for every connection that ends."""
        if client in self._clients:
            del self._clients[client]
            self._timers.cancel(client)

    def changed(self, now: int) -> None:
        """The role of this server has changed: held clients are opened, or closed when another
        server is the root.
        """
        serving = self.serving
        assert serving is not None, "called by the node of a cluster member"
        address = serving.root_address(now)
        while self._clients and (address or serving.is_serving(now)):
            client = next(iter(self._clients))
            self.drop(client)
            if address:
                client.client.stop(elsewhere(address), now)
            else:
                client.client.admit(now)

    def check_root(self, now: int) -> None:
        """Raises `NotRoot` where nothing may be changed: on a server that is not the active root."""
        serving = self.serving
        if serving is not None and not serving.is_serving(now):
            address = serving.root_address(now)
            raise NotRoot(elsewhere(address) if address else NO_ROOT_KNOWN)

    def why_refused(self, properties: dict[str, object]) -> str:
        """Why the properties of a client do not let it in; empty if they do."""
        presented = properties.get(CLUSTER_KEY)
        if self.serving is None or presented is None:
            return ""
        text = presented if isinstance(presented, str) else ""
        is_right = hmac.compare_digest(
            text.lower().encode("utf-8", "replace"), self.serving.key_digest().encode()
        )
        return "" if is_right else WRONG_CLUSTER_KEY


def elsewhere(address: str) -> str:
    return f"another server is the root of this cluster: connect to {address}"
