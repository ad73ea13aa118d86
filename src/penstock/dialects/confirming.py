"""Answering publishers at the end of a tick, in whatever way their dialect does it."""

from mypy_extensions import mypyc_attr

from penstock.broker.message import Publisher
from penstock.wire.outgoing import Outgoing


@mypyc_attr(allow_interpreted_subclasses=True)
class Confirming(Publisher):
    """A publisher that hears what became of its messages: a channel in confirm mode, a link whose
    deliveries came unsettled. Listed in `Container.confirm_list` while it has something to answer.
    """

    def flush(self) -> None:
        """Answer what can be answered; called once per tick, after the journal was written."""
        raise NotImplementedError

    def is_waiting(self) -> bool:
        """Whether the journal has to become safer before more can be answered."""
        raise NotImplementedError

    def list_again(self) -> None:
        """The journal is safer than before."""
        raise NotImplementedError

    def outgoing_of(self) -> Outgoing | None:
        """The output of the connection that is answered; None when it is no connection, or gone.
        A defect met in `flush` is put down to it.
        """
        return None
