"""Who may connect: as many clients as configured, and besides them the servers of the cluster.

Whoever connects says only at its login whether it is a server. So a member of a cluster accepts some
connections beyond its limit: of these, a client is turned away at its login, and the oldest that has
not logged in gives way to a new one. A server logs in within milliseconds.
"""

from penstock.dialects.connection import Connection
from penstock.dialects.container import Container
from penstock.dialects.peers import PEER_CONNECTIONS_MAX


class ConnectionPlaces:
    """Held by the node."""

    def __init__(self, container: Container, connections: dict[int, Connection]) -> None:
        self._container: Container = container
        self._connections: dict[int, Connection] = connections
        # Those that came when all places were taken, oldest first; a server stays among them.
        self.surplus: dict[int, Connection] = {}

    def client_count(self) -> int:
        """Everybody who is not known to be a server."""
        return len(self._connections) - self._container.peer_count

    def has_peer_places(self) -> bool:
        """Whether one more may connect though all places are taken, in case it is a server."""
        return self._container.peers is not None

    def make_peer_place(self) -> bool:
        """Whether there is a place beyond the limit."""
        if not self.has_peer_places():
            return False
        surplus = self.surplus
        if len(surplus) >= PEER_CONNECTIONS_MAX:
            oldest = surplus.pop(next(iter(surplus)))
            if not oldest.protocol.is_peer():
                oldest.outgoing.transport.abort()
        return True
