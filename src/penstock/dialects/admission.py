"""Which clients may open their connections here, and whether anything may be changed.

A server without a cluster admits everybody. A member of a cluster has a `ConnectionObserver` of the room
`ha` in its place: it holds clients while no root is known, and sends them to the root.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.timers import Timer
from penstock.dialects.protocol_connection import ProtocolConnection

NO_ROOT: Final = "the cluster has elected no root in time; try again, or try another server"


class OpeningClient(Timer):
    """A client that has asked to be opened. It is due when it has waited for too long."""

    def __init__(self, client: ProtocolConnection, number: int) -> None:
        super().__init__()
        self.connection = number
        self.client: ProtocolConnection = client

    def fire(self, now: int) -> None:
        self.client.turn_away(NO_ROOT, now)


@mypyc_attr(allow_interpreted_subclasses=True)
class Admission:
    """Held by the container."""

    def __init__(self) -> None:
        # Whether this server is a member of a cluster.
        self.is_clustered: bool = False

    def may_open(self, client: OpeningClient, now: int) -> bool:
        """Whether a client may be opened at once. If not, it is held, or was turned away."""
        return True

    def pause_ms(self) -> int:
        """How long a client waits for a root at most (T_pause)."""
        return 0

    def drop(self, client: OpeningClient) -> None:
        """The client has gone; called for every connection that ends."""

    def check_root(self, now: int) -> None:
        """Raises `NotRoot` where nothing may be changed."""

    def why_refused(self, properties: dict[str, object]) -> str:
        """Why the properties of a client do not let it in; empty if they do."""
        return ""
