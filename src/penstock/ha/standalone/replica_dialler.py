"""How a server reaches the source of a replica."""

from abc import ABC, abstractmethod

from mypy_extensions import mypyc_attr

from penstock.client.uri import Address
from penstock.world.network import DialListener


@mypyc_attr(allow_interpreted_subclasses=True)
class ReplicaDialler(ABC):
    """Given to the node by the world that drives it. As a `Dialler`, for addresses of clients: these
    say how TLS is used.
    """

    @abstractmethod
    def dial(self, address: Address, listener: DialListener) -> None:
        """Returns at once; the listener is called later, never from within this call."""
