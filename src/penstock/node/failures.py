"""The interface for reporting internal errors of a node."""

from mypy_extensions import mypyc_attr

from penstock.dialects.connection import Connection


@mypyc_attr(allow_interpreted_subclasses=True)
class FailureListener:
    """Implemented by the server. Without one, as in the simulator, every exception is raised where
    it occurs.
    """

    def connection_failed(self, connection: Connection, doing: str, error: Exception) -> None:
        """Only this connection is affected, and the node closes it."""
        raise NotImplementedError

    def failed(self, doing: str, error: Exception) -> None:
        """The error belongs to no single connection: what all of them share may be damaged."""
        raise NotImplementedError
