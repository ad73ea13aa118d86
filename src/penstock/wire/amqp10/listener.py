"""The callbacks of a connection: the interface between the wire and the dialect or client.

Deliveries do not pass here: every link has a listener of its own, `receiving.DeliveryListener` or
`sending.SettlementListener`.
"""

from mypy_extensions import mypyc_attr

from penstock.wire.amqp10.errors import ConnectionFault, LinkFault, SessionFault
from penstock.wire.amqp10.link import Link
from penstock.wire.amqp10.performatives_generated import Attach, Begin, Open
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import Composite


@mypyc_attr(allow_interpreted_subclasses=True)
class ConnectionListener:
    """Implemented by the server's dialect and by the client's conversation.

    All but the three endings may raise faults, and `Malformed` for what the wire passed on
    undecoded; the connection answers the peer. Any other exception is a defect and leaves
    `Connection.receive`.
    """

    def sasl_began(self) -> None:
        """Server only: the peer wants a SASL layer; send sasl-mechanisms with `send_sasl`."""
        raise NotImplementedError

    def sasl_received(self, frame: Composite) -> None:
        """Every SASL frame, in the order that the states allow. Answer with `send_sasl`, now or
        later; what the peer sends ahead is held back. A sasl-outcome needs no answer.
        """
        raise NotImplementedError

    def open_received(self, opened: Open) -> None:
        """The peer's open. A server answers with `Connection.open`, now or later."""
        raise NotImplementedError

    def session_begun(self, session: Session, begin: Begin) -> None:
        """The peer's begin; our own has been sent, or is with it answered."""
        raise NotImplementedError

    def link_attached(self, session: Session, link: Link, attach: Attach) -> None:
        """The peer's attach. When it began the link (`link.handle` is -1), set `link.listener` and
        answer with `Connection.attach` or `Connection.refuse`, now or later.
        """
        raise NotImplementedError

    def link_ended(
        self, session: Session, link: Link, fault: LinkFault | None, closed: bool
    ) -> None:
        """Once per link, unless its session ends first. With `closed` the link is gone, without
        it is suspended: `link.unsettled` is what was not settled.

        After a fault of ours it comes when detach is sent, after an orderly detach of ours when
        the peer has answered. `fault.from_peer` says which side gave the reason.
        """
        raise NotImplementedError

    def session_ended(self, session: Session, fault: SessionFault | None) -> None:
        """Once per session, unless the connection ends first: all links are gone with it."""
        raise NotImplementedError

    def connection_ended(self, fault: ConnectionFault | None) -> None:
        """Once, and the last call: all sessions are gone with it."""
        raise NotImplementedError
