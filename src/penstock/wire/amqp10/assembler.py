"""Transfers and dispositions on the general path: deliveries of many frames, aborted, resumed.

Between `speaker.Speaker` and `hearer.Hearer`; nobody else uses this class.

Invariants
- A peer that overruns the session's window ends its session, one that overruns the link's credit
  or the link's largest message ends its link.
- Deliveries in the making hold no more octets than `Limits.assembly_bytes_max`, all links
  together.
"""

from penstock.wire.amqp10.conditions_generated import (
    INVALID_FIELD,
    LINK_MESSAGE_SIZE_EXCEEDED,
    LINK_TRANSFER_LIMIT_EXCEEDED,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    SESSION_ERRANT_LINK,
    SESSION_UNATTACHED_HANDLE,
    SESSION_WINDOW_VIOLATION,
)
from penstock.wire.amqp10.errors import ConnectionFault, Fault, LinkFault, SessionFault
from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.link import RCV_FIRST, RCV_SECOND, Link
from penstock.wire.amqp10.listener import ConnectionListener
from penstock.wire.amqp10.performatives_generated import TRANSFER, Disposition, Transfer
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.serial import advance, difference
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.speaker import Speaker
from penstock.wire.amqp10.states import LINK_RECEIVED, LinkState, Role
from penstock.wire.amqp10.values import Composite
from penstock.wire.octets import Malformed
from penstock.wire.outgoing import Outgoing


class Assembler(Speaker):
    """What one connection makes of transfers and dispositions."""

    def __init__(
        self,
        role: Role,
        listener: ConnectionListener,
        outgoing: Outgoing,
        limits: Limits,
        container_id: str,
        sasl_required: bool,
    ) -> None:
        super().__init__(role, listener, outgoing, limits, container_id, sasl_required)
        # Set when nobody knows any more where the next frame begins.
        self._deaf: bool = False
        # Octets of deliveries in the making, all links together.
        self._assembling: int = 0
        # How often a delivery that was held came to its end.
        self.released_count: int = 0

    def _transfer_frame(self, session: Session, transfer: Transfer, payload: bytes) -> None:
        if session.incoming_window <= 0:
            raise SessionFault(
                SESSION_WINDOW_VIOLATION,
                f"transfer {session.next_incoming_id} is beyond the incoming window",
            )
        session.frame_received()
        untaken = session.untaken
        self._transfer_to(session, transfer, payload)
        if session.untaken == untaken:
            # The owner heard nothing of this frame, so nobody but us opens the window again.
            session.flow_if_needed()

    def _transfer_to(self, session: Session, transfer: Transfer, payload: bytes) -> None:
        link = session.by_remote_handle(transfer.handle)
        if link is None or (link.state, TRANSFER) not in LINK_RECEIVED:
            text = f"transfer on handle {transfer.handle}, which is not attached"
            raise SessionFault(SESSION_UNATTACHED_HANDLE, text)
        if link.state is LinkState.DETACH_SENT:
            return
        if not isinstance(link, ReceivingLink):
            text = f"transfer on handle {transfer.handle}, whose sender we are"
            raise SessionFault(SESSION_ERRANT_LINK, text)
        try:
            self._transfer_on_link(session, link, transfer, payload)
        except (Fault, Malformed) as error:
            self._fail(session, link, error)

    def _transfer_on_link(
        self, session: Session, link: ReceivingLink, transfer: Transfer, payload: bytes
    ) -> None:
        first = link.first
        if first is None:
            first = self._first_transfer(link, transfer)
        elif transfer.delivery_id is not None and transfer.delivery_id != first.delivery_id:
            text = f"delivery {transfer.delivery_id} begins before {first.delivery_id} is complete"
            raise LinkFault(NOT_ALLOWED, text)
        if transfer.aborted:
            self._release(link)
            link.forget_assembly()
            return
        size = len(link.assembly) + len(payload)
        if 0 < link.own_message_bytes_max < size:
            text = f"message is larger than {link.own_message_bytes_max} octets"
            raise LinkFault(LINK_MESSAGE_SIZE_EXCEEDED, text)
        # Settled once is settled, and the last state counts (specification 2.7.5).
        link.is_settled = link.is_settled or transfer.settled is True
        if transfer.state is not None:
            link.held_state = transfer.state
        if transfer.more:
            self._hold(len(payload))
            link.first = first
            link.expects_whole = False
            link.assembly += payload
            return
        self._complete(session, link, first, payload)

    def _first_transfer(self, link: ReceivingLink, transfer: Transfer) -> Transfer:
        if link.credit + link.overdraft <= 0:
            raise LinkFault(LINK_TRANSFER_LIMIT_EXCEEDED, "transfer without credit")
        if transfer.delivery_id is None or transfer.delivery_tag is None:
            raise LinkFault(INVALID_FIELD, "a delivery begins without id or tag")
        if transfer.delivery_id in link.unsettled:
            raise LinkFault(INVALID_FIELD, f"delivery {transfer.delivery_id} is not settled")
        if transfer.rcv_settle_mode == RCV_SECOND and link.rcv_settle_mode == RCV_FIRST:
            raise LinkFault(INVALID_FIELD, "rcv-settle-mode second on a link that agreed on first")
        link.credit -= 1
        link.delivery_count = advance(link.delivery_count, 1)
        link.is_settled = False
        link.held_state = None
        return transfer

    def _complete(
        self, session: Session, link: ReceivingLink, first: Transfer, payload: bytes
    ) -> None:
        whole = payload
        if link.assembly:
            whole = bytes(link.assembly) + payload
        settled = link.is_settled
        state: Composite | None = link.held_state
        self._release(link)
        link.forget_assembly()
        delivery_id = first.delivery_id
        tag = first.delivery_tag
        assert delivery_id is not None
        assert tag is not None
        if not settled:
            link.unsettled[delivery_id] = tag
        session.untaken += 1
        message_format = first.message_format or 0
        link.delivery_settle_mode = first.rcv_settle_mode
        if first.resume:
            link.listener.delivery_resumed(
                link, delivery_id, tag, whole, settled, message_format, state
            )
        else:
            link.listener.delivery_received(
                link, delivery_id, tag, whole, settled, message_format, state
            )
        link.delivery_settle_mode = None

    def _hold(self, size: int) -> None:
        if self._assembling + size > self.limits.assembly_bytes_max:
            text = f"more than {self.limits.assembly_bytes_max} octets of unfinished deliveries"
            raise ConnectionFault(RESOURCE_LIMIT_EXCEEDED, text)
        self._assembling += size

    def _release(self, link: Link) -> None:
        if isinstance(link, ReceivingLink) and link.assembly:
            self._assembling -= len(link.assembly)
            link.assembly = bytearray()
            self.released_count += 1

    def _forget_sessions(self) -> None:
        super()._forget_sessions()
        self._assembling = 0

    def _disposition(self, session: Session, said: Disposition) -> None:
        first = said.first
        last = first if said.last is None else said.last
        if difference(last, first) < 0:
            raise SessionFault(INVALID_FIELD, f"disposition of {first} to {last}")
        if said.role:
            self._update_sent(session, first, last, said.state, said.settled)
        elif said.settled:
            for link in list(session.receivers.values()):
                self._settled_by_sender(session, link, first, last, said.state)

    def _update_sent(
        self, session: Session, first: int, last: int, state: Composite | None, settled: bool
    ) -> None:
        """The receiver's word on deliveries of ours."""
        for link in list(session.senders.values()):
            if link.unsettled:
                try:
                    link.update(first, last, state, settled)
                except (Fault, Malformed) as error:
                    self._fail(session, link, error)
        if session.is_stalled and session.outgoing_window > 0:
            self._wake(session)

    def _settled_by_sender(
        self, session: Session, link: ReceivingLink, first: int, last: int, state: Composite | None
    ) -> None:
        try:
            for delivery_id, tag in link.forget_range(first, last):
                link.listener.sender_settled(link, delivery_id, tag, state)
        except (Fault, Malformed) as error:
            self._fail(session, link, error)

    def _wake(self, session: Session) -> None:
        raise NotImplementedError

    def _fail(self, session: Session | None, link: Link | None, error: Exception) -> None:
        raise NotImplementedError
