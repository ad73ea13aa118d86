"""Keeps clients away from a backup: they work with the primary, the root of the cluster.

A client that has logged in and opens its connection while no root is known is *held*: it gets
neither an answer nor a refusal, and heartbeats go on. It is opened when this server may serve,
closed when another server is the root, and closed after `RootView.pause_ms` at the latest.

A backup refuses at once, with the address of the root, so that the client tries there.
"""

import hmac
from abc import ABC, abstractmethod
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.errors import NotRoot
from penstock.broker.timers import Timers
from penstock.dialects.admission import Admission, OpeningClient

# What a client may present in its properties: the SHA-256 of the cluster's key, in hexadecimal.
CLUSTER_KEY: Final = "cluster_key"
WRONG_CLUSTER_KEY: Final = (
    "the client property cluster_key is not the SHA-256 of this cluster's key in hexadecimal"
)
NO_ROOT_KNOWN: Final = "the cluster has no active root at the moment; try again"


@mypyc_attr(allow_interpreted_subclasses=True)
class RootView(ABC):
    """What this server knows of the root. Implemented by the node."""

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


class ConnectionObserver(Admission):
    """Held by the container of a cluster's member."""

    def __init__(self, timers: Timers, root: RootView) -> None:
        super().__init__()
        self.is_clustered = True
        self._timers: Timers = timers
        self._root: RootView = root
        # Held clients, in the order in which they came. A dictionary for its order.
        self._clients: dict[OpeningClient, None] = {}

    def count(self) -> int:
        """Of held clients."""
        return len(self._clients)

    def may_open(self, client: OpeningClient, now: int) -> bool:
        if self._root.is_serving(now):
            return True
        address = self._root.root_address(now)
        if address:
            client.client.turn_away(elsewhere(address), now)
        else:
            self._clients[client] = None
            self._timers.schedule(client, now + self._root.pause_ms())
        return False

    def pause_ms(self) -> int:
        return self._root.pause_ms()

    def drop(self, client: OpeningClient) -> None:
        if client in self._clients:
            del self._clients[client]
            self._timers.cancel(client)

    def changed(self, now: int) -> None:
        """The role of this server has changed: held clients are opened, or closed when another
        server is the root.
        """
        address = self._root.root_address(now)
        while self._clients and (address or self._root.is_serving(now)):
            client = next(iter(self._clients))
            self.drop(client)
            if address:
                client.client.turn_away(elsewhere(address), now)
            else:
                client.client.admit(now)

    def check_root(self, now: int) -> None:
        if not self._root.is_serving(now):
            address = self._root.root_address(now)
            raise NotRoot(elsewhere(address) if address else NO_ROOT_KNOWN)

    def why_refused(self, properties: dict[str, object]) -> str:
        presented = properties.get(CLUSTER_KEY)
        if presented is None:
            return ""
        text = presented if isinstance(presented, str) else ""
        is_right = hmac.compare_digest(
            text.lower().encode("utf-8", "replace"), self._root.key_digest().encode()
        )
        return "" if is_right else WRONG_CLUSTER_KEY


def elsewhere(address: str) -> str:
    return f"another server is the root of this cluster: connect to {address}"
