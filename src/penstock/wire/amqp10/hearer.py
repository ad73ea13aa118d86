"""The receiving half of a connection, frame by frame: the general path of the control plane.

One whole frame comes in: a heartbeat, a SASL frame, or a performative with its payload. Transfers
are assembled by the connection's `Assembler`; `connection.Connection` finds the frames in the
octets and takes a shorter path where it can; it is the only user of this class.

Invariants
- Faults and `Malformed`, whether raised here or by a listener, end in `_fail` and nowhere else.
- A peer that overruns the session's window ends its session.
- A closing connection handles only open and close, an ended session only end, a detached link only
  detach.
"""

from penstock.formats.octets import Malformed
from penstock.wire.amqp10.conditions_generated import (
    CONNECTION_FRAMING_ERROR,
    DECODE_ERROR,
    ILLEGAL_STATE,
    INVALID_FIELD,
    SESSION_ERRANT_LINK,
    SESSION_HANDLE_IN_USE,
    SESSION_UNATTACHED_HANDLE,
    SESSION_WINDOW_VIOLATION,
    UNAUTHORIZED_ACCESS,
)
from penstock.wire.amqp10.decoding import Reader
from penstock.wire.amqp10.errors import (
    ConnectionFault,
    Fault,
    LinkFault,
    SessionFault,
    connection_fault_of,
    link_fault_of,
    session_fault_of,
)
from penstock.wire.amqp10.framing import AMQP_FRAME, DATA_OFFSET_MIN, SASL_FRAME
from penstock.wire.amqp10.link import Link
from penstock.wire.amqp10.performatives_generated import (
    ATTACH,
    BEGIN,
    DETACH,
    END,
    FLOW,
    FRAMES,
    NAMES,
    TRANSFER,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    SaslOutcome,
    Transfer,
    decode_composite,
)
from penstock.wire.amqp10.receiving import DeliveryListener, ReceivingLink
from penstock.wire.amqp10.sending import SendingLink, SettlementListener
from penstock.wire.amqp10.serial import difference
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.speaker import Speaker
from penstock.wire.amqp10.states import (
    CLOSING,
    CONNECTION_RECEIVED,
    LINK_RECEIVED,
    LINK_SENT,
    SASL_RECEIVED,
    SESSION_RECEIVED,
    SESSION_SENT,
    ConnectionState,
    LinkState,
    SaslState,
    SessionState,
)
from penstock.wire.amqp10.values import Composite


class Hearer(Speaker):
    """Handles the whole frames of one connection."""

    def _frame(self, data: bytes, position: int, after: int) -> None:
        """The general path, for one whole frame."""
        offset = data[position + 4]
        kind = data[position + 5]
        channel = data[position + 6] << 8 | data[position + 7]
        start = position + 4 * offset
        if offset < DATA_OFFSET_MIN or start > after:
            self._framing_fault(
                f"invalid data offset {offset} in a frame of {after - position} octets"
            )
            return
        wanted = AMQP_FRAME if self.sasl is SaslState.NONE else SASL_FRAME
        if kind != wanted:
            self._framing_fault(f"frame of type {kind} received, type {wanted} expected")
            return
        try:
            reader = Reader(data, start, after)
            if kind == SASL_FRAME:
                self._sasl_frame(decode_composite(reader))
            # Otherwise it is a heartbeat.
            elif start < after:
                performative = decode_composite(reader)
                # mypyc does not take a slice that ends before it starts for an empty one.
                payload = data[reader.at : after] if reader.at < after else b""
                self._performative(channel, performative, payload)
        except (Fault, Malformed) as error:
            self._fail(None, None, error)

    def _sasl_frame(self, frame: Composite) -> None:
        after = SASL_RECEIVED.get((self.sasl, frame.identity()))
        if after is None:
            text = f"{frame.wire_name()} received while {self.sasl.value}"
            raise ConnectionFault(ILLEGAL_STATE, text)
        self.sasl = after
        self.listener.sasl_received(frame)
        if isinstance(frame, SaslOutcome):
            if frame.code == 0:
                self._awaits_header = True
                self._say_header()
            else:
                fault = ConnectionFault(UNAUTHORIZED_ACCESS, f"SASL outcome {frame.code}")
                fault.from_peer = True
                self._end(fault)

    def _performative(self, channel: int, said: Composite, payload: bytes) -> None:
        code = said.identity()
        if code not in FRAMES:
            raise Malformed(f"{said.wire_name()} is not a performative")
        if isinstance(said, (Open, Close)):
            after = CONNECTION_RECEIVED.get((self.state, code))
            if after is None:
                text = f"{said.wire_name()} received while {self.state.value}"
                raise ConnectionFault(ILLEGAL_STATE, text)
            if isinstance(said, Open):
                self.state = after
                self._opened(said)
            else:
                self._closed(said, after)
            return
        if self.state in CLOSING:
            return
        if self.state is not ConnectionState.OPENED:
            text = f"{said.wire_name()} received while {self.state.value}"
            raise ConnectionFault(ILLEGAL_STATE, text)
        if channel > self.limits.channel_max:
            text = f"channel {channel} is above channel-max {self.limits.channel_max}"
            raise ConnectionFault(CONNECTION_FRAMING_ERROR, text)
        if isinstance(said, Begin):
            self._begun(channel, said)
            return
        session = self._incoming_channels.get(channel)
        if session is None:
            text = f"{said.wire_name()} on channel {channel}, which has no session"
            raise ConnectionFault(ILLEGAL_STATE, text)
        self._on_session(session, said, payload)

    def _opened(self, opened: Open) -> None:
        if self.state in CLOSING:
            return
        self.negotiate(opened)
        self.listener.open_received(opened)

    def _closed(self, close: Close, after: ConnectionState) -> None:
        if after is ConnectionState.CLOSE_RECEIVED:
            self.state = after
            self._forget_sessions()
            self._say(0, Close())
        self._end(connection_fault_of(close.error))

    def _begun(self, channel: int, begin: Begin) -> None:
        if channel in self._incoming_channels:
            text = f"begin on channel {channel}, which already has a session"
            raise ConnectionFault(ILLEGAL_STATE, text)
        if begin.remote_channel is None:
            number = self._free_channel()
            session = Session(number, self.outgoing, self.limits, self.outgoing_frame_max)
        else:
            asked = self._find_begun(begin.remote_channel)
            if asked is None:
                text = f"begin answers channel {begin.remote_channel}, on which no begin was sent"
                raise ConnectionFault(INVALID_FIELD, text)
            session = asked
        after = SESSION_RECEIVED.get((session.state, BEGIN))
        assert after is not None
        session.state = after
        session.remote_channel = channel
        self._incoming_channels[channel] = session
        if after is SessionState.END_SENT:
            return
        session.begun_by_peer(begin)
        if after is SessionState.BEGIN_RECEIVED:
            self._say_begin(session, None)
        try:
            self.listener.session_begun(session, begin)
        except (Fault, Malformed) as error:
            self._fail(session, None, error)

    def _find_begun(self, number: int) -> Session | None:
        session = self._outgoing_channels.get(number)
        return session if session is not None and session.remote_channel < 0 else None

    def _on_session(self, session: Session, said: Composite, payload: bytes) -> None:
        after = SESSION_RECEIVED.get((session.state, said.identity()))
        assert after is not None, "a session that is mapped takes every performative"
        try:
            if isinstance(said, End):
                session.state = after
                self._session_ended(session, said)
            elif session.state is SessionState.END_SENT:
                return
            elif isinstance(said, Transfer):
                self._transfer_frame(session, said, payload)
            elif isinstance(said, Disposition):
                self._disposition(session, said)
            elif isinstance(said, Flow):
                self._flow(session, said)
            elif isinstance(said, Attach):
                self._attached(session, said)
            elif isinstance(said, Detach):
                self._detached(session, said)
        except (Fault, Malformed) as error:
            self._fail(session, None, error)

    def _session_ended(self, session: Session, end: End) -> None:
        self._incoming_channels.pop(session.remote_channel, None)
        if session.state is SessionState.ENDED:
            if self._outgoing_channels.get(session.channel) is session:
                del self._outgoing_channels[session.channel]
            if session.tell_when_ended:
                session.tell_when_ended = False
                self.listener.session_ended(session, session_fault_of(end.error))
            return
        after = SESSION_SENT[session.state, END]
        self._say_end(session, None, after)
        self.listener.session_ended(session, session_fault_of(end.error))

    def _attached(self, session: Session, attach: Attach) -> None:
        if attach.handle > session.handle_max:
            text = f"handle {attach.handle} is above handle-max {session.handle_max}"
            raise ConnectionFault(CONNECTION_FRAMING_ERROR, text)
        if session.by_remote_handle(attach.handle) is not None:
            text = f"handle {attach.handle} is in use"
            raise SessionFault(SESSION_HANDLE_IN_USE, text)
        link = _awaiting(session, attach) or self._new_link(session, attach)
        after = LINK_RECEIVED.get((link.state, ATTACH))
        assert after is not None
        link.state = after
        link.heard(attach)
        session.map_remote(link)
        if after is LinkState.DETACH_SENT:
            return
        if isinstance(link, ReceivingLink):
            if attach.initial_delivery_count is None:
                raise SessionFault(
                    INVALID_FIELD, "the attach of a sender needs an initial-delivery-count"
                )
            link.delivery_count = attach.initial_delivery_count
        if after is LinkState.ATTACHED:
            link.attached()
        try:
            self.listener.link_attached(session, link, attach)
        except (Fault, Malformed) as error:
            self._fail(session, link, error)

    def _new_link(self, session: Session, attach: Attach) -> Link:
        if attach.role:
            return SendingLink(session, attach.name, SettlementListener())
        size_max = self.limits.message_bytes_max
        return ReceivingLink(session, attach.name, DeliveryListener(), size_max)

    def _detached(self, session: Session, detach: Detach) -> None:
        link = self._link(session, detach.handle, DETACH)
        after = LINK_RECEIVED[link.state, DETACH]
        fault = link_fault_of(detach.error)
        if after is LinkState.DETACH_RECEIVED:
            if link.state is LinkState.ATTACH_RECEIVED:
                # An attach is answered with an attach, even one that is gone already.
                self.attach(session, link, Attach())
            link.state = after
            self._say_detach(session, link, None, detach.closed, LINK_SENT[after, DETACH])
            session.forget(link)
            self.listener.link_ended(session, link, fault, detach.closed)
        else:
            link.state = after
            session.forget(link)
            if link.tell_when_ended:
                link.tell_when_ended = False
                self.listener.link_ended(session, link, fault, link.was_closed or detach.closed)
        if session.is_stalled and session.outgoing_window > 0:
            # The link's unsettled deliveries occupied the window of others.
            self._wake(session)

    def _link(self, session: Session, handle: int, code: int) -> Link:
        link = session.by_remote_handle(handle)
        if link is None or (link.state, code) not in LINK_RECEIVED:
            text = f"{NAMES[code]} on handle {handle}, which is not attached"
            raise SessionFault(SESSION_UNATTACHED_HANDLE, text)
        return link

    def _flow(self, session: Session, flow: Flow) -> None:
        session.flow_from_peer(flow)
        link: Link | None = None
        if flow.handle is not None:
            link = self._link(session, flow.handle, FLOW)
        if session.is_stalled and session.remote_incoming_window > 0:
            self._wake(session)
        if link is None:
            if flow.echo and session.is_open:
                session.send_flow(Flow())
            return
        try:
            self._link_flow(link, flow)
        except (Fault, Malformed) as error:
            self._fail(session, link, error)

    def _link_flow(self, link: Link, flow: Flow) -> None:
        if isinstance(link, SendingLink):
            if link.state is LinkState.DETACH_SENT:
                return
            link.flow_from_receiver(flow)
            if not link.is_attached:
                return
            link.listener.credit_changed(link)
        elif isinstance(link, ReceivingLink) and link.is_attached:
            if link.flow_from_sender(flow):
                link.listener.drained(link)
        # The listener may have sent or detached meanwhile.
        if flow.echo and link.is_attached:
            if isinstance(link, (SendingLink, ReceivingLink)):
                link.send_flow(False)

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
            # The owner was not told of this frame, so the window must be opened again here.
            session.flow_if_needed()

    def _transfer_to(self, session: Session, transfer: Transfer, payload: bytes) -> None:
        link = session.by_remote_handle(transfer.handle)
        if link is None or (link.state, TRANSFER) not in LINK_RECEIVED:
            text = f"transfer on handle {transfer.handle}, which is not attached"
            raise SessionFault(SESSION_UNATTACHED_HANDLE, text)
        if link.state is LinkState.DETACH_SENT:
            return
        if not isinstance(link, ReceivingLink):
            text = f"transfer on handle {transfer.handle}, which was attached as a receiver"
            raise SessionFault(SESSION_ERRANT_LINK, text)
        try:
            self.assembler.add(session, link, transfer, payload)
        except (Fault, Malformed) as error:
            self._fail(session, link, error)

    def _disposition(self, session: Session, said: Disposition) -> None:
        first = said.first
        last = first if said.last is None else said.last
        if difference(last, first) < 0:
            raise SessionFault(INVALID_FIELD, f"invalid disposition range, {first} to {last}")
        if said.role:
            self._update_sent(session, first, last, said.state, said.settled)
        elif said.settled:
            for link in list(session.receivers.values()):
                self._settled_by_sender(session, link, first, last, said.state)

    def _update_sent(
        self, session: Session, first: int, last: int, state: Composite | None, settled: bool
    ) -> None:
        """A disposition of the receiver for our deliveries."""
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
        """There is room in the session again: finish what is partly sent, then ask for more."""
        session.is_stalled = False
        for link in list(session.senders.values()):
            if not link.is_attached:
                continue
            try:
                link.continue_sending()
                # A draining link has to confirm the drain, even when it has used up its credit.
                if (link.credit > 0 or link.is_draining) and not link.is_waiting():
                    link.listener.credit_changed(link)
            except (Fault, Malformed) as error:
                self._fail(session, link, error)

    def _framing_fault(self, text: str) -> None:
        self._deaf = True
        self._forget_input()
        self._fail(None, None, ConnectionFault(CONNECTION_FRAMING_ERROR, text))

    def _fail(self, session: Session | None, link: Link | None, error: Exception) -> None:
        """Answer an exception that was raised while this link of this session was handled."""
        if isinstance(error, LinkFault) and session is not None and link is not None:
            self.detach(session, link, error, True)
        elif isinstance(error, SessionFault) and session is not None:
            self.end_session(session, error)
        elif isinstance(error, ConnectionFault):
            self.close(error)
        elif isinstance(error, LinkFault) and session is not None:
            self.end_session(session, SessionFault(error.condition, error.description, error.info))
        elif isinstance(error, Fault):
            self.close(ConnectionFault(error.condition, error.description, error.info))
        else:
            self.close(ConnectionFault(DECODE_ERROR, str(error)))


def _awaiting(session: Session, attach: Attach) -> Link | None:
    """Our link that this attach answers."""
    for link in session.links.values():
        if link.name == attach.name and link.is_receiver != attach.role and link.remote is None:
            return link
    return None
