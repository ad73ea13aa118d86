"""Who hears of defects of ours that were met while the node worked."""

from mypy_extensions import mypyc_attr

from penstock.dialects.connection import Connection


@mypyc_attr(allow_interpreted_subclasses=True)
class FailureListener:
    """The server. Without one, as in the simulator, every exception is raised where it is met."""

    def connection_failed(self, connection: Connection, doing: str, error: Exception) -> None:
        """Only this connection is concerned, and the node ends it."""
        raise NotImplementedError

    def failed(self, doing: str, error: Exception) -> None:
        """No single connection is to blame: what all of them share may be damaged."""
        raise NotImplementedError
