"""The node as its parts see it: the store, the answers of a tick, the membership in a cluster."""

from mypy_extensions import mypyc_attr

from penstock.node.stored import StorageOwner
from penstock.wire.outgoing import Outgoing


@mypyc_attr(allow_interpreted_subclasses=True)
class NodeOwner(StorageOwner):
    """Implemented by `Node`, and by doubles in tests."""

    def answer_failed(
        self, outgoing: Outgoing | None, doing: str, error: Exception, now: int
    ) -> None:
        """An internal error occurred while the owner of this output was answered; None when it is
        nobody's.
        """
        raise NotImplementedError

    # In a cluster.

    def committed(self, position: int) -> None:
        """All servers that must have the journal up to here have it: clients may be told."""
        raise NotImplementedError

    def close_clients(self, reason: str, now: int) -> None:
        """They are not served here any more. What has not been sent to them is dropped, so that
        nothing more is delivered or confirmed; their consumers return what they have.
        """
        raise NotImplementedError

    def set_alarm(
        self, source: str, reason: str, now: int, figures: dict[str, object] | None = None
    ) -> None:
        """Publishers wait while there is a reason; empty for none."""
        raise NotImplementedError

    def store_tick(self, now: int) -> None:
        """Write what has changed since the last tick."""
        raise NotImplementedError
