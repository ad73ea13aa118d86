"""The sending half of a connection: headers, open, begin, attach, all endings, heartbeats.

`hearer.Hearer` adds the receiving half; it is the only user of this class. Transfers, flows and
dispositions are sent by links and sessions themselves.

Invariants
- What may be sent now is decided by the SENT tables of `states`; a frame that comes too late is
  dropped.
- The listener is told of every ending at most once, and gets no call about an endpoint after the
  enclosing one has ended.
"""

from typing import Final

from penstock.wire.amqp10.assembler import Assembler
from penstock.wire.amqp10.conditions_generated import (
    CONNECTION_FORCED,
    INVALID_FIELD,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
)
from penstock.wire.amqp10.errors import ConnectionFault, Fault, LinkFault, SessionFault
from penstock.wire.amqp10.framing import (
    AMQP_FRAME,
    HEARTBEAT,
    PROTOCOL_HEADER,
    SASL_FRAME,
    SASL_HEADER,
    encode_frame,
)
from penstock.wire.amqp10.limits import FRAME_MAX_FLOOR, Limits
from penstock.wire.amqp10.link import Link
from penstock.wire.amqp10.listener import ConnectionListener
from penstock.wire.amqp10.performatives_generated import (
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    END,
    OPEN,
    Attach,
    Begin,
    Close,
    Detach,
    End,
    Open,
    SaslOutcome,
)
from penstock.wire.amqp10.receiving import DeliveryListener, ReceivingLink
from penstock.wire.amqp10.sending import SendingLink, SettlementListener
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.states import (
    CLOSING,
    CONNECTION_SENT,
    LINK_SENT,
    PROTOCOL,
    SASL_SENT,
    SESSION_SENT,
    SPEAKING,
    ConnectionState,
    LinkState,
    Role,
    SaslState,
    SessionState,
)
from penstock.wire.amqp10.values import Composite
from penstock.wire.outgoing import Outgoing
from penstock.wire.pausable import PausableInput

# When the handshake or the closing began is taken from the first tick after it.
_UNSET: Final = -1


class Speaker(PausableInput):
    """State, sessions and output of one connection."""

    def __init__(
        self,
        role: Role,
        listener: ConnectionListener,
        outgoing: Outgoing,
        limits: Limits,
        container_id: str,
        sasl_required: bool,
    ) -> None:
        self.role: Role = role
        self.listener: ConnectionListener = listener
        self.outgoing: Outgoing = outgoing
        self.limits: Limits = limits
        self.container_id: str = container_id
        # Server: whether a peer must log in; client: see `start`.
        self.sasl_required: bool = sasl_required
        self.state: ConnectionState = ConnectionState.START
        self.sasl: SaslState = SaslState.NONE
        self._is_authenticated: bool = False
        # A protocol header is what comes next, not a frame.
        self._awaits_header: bool = True
        self._told: bool = False
        self._tell_when_closed: bool = False

        # Sessions by the number we use, and by the number the peer uses.
        self._outgoing_channels: dict[int, Session] = {}
        self._incoming_channels: dict[int, Session] = {}

        # From the two opens: how large an incoming and an outgoing frame may be.
        self.incoming_frame_max: int = limits.frame_max_before_open
        self.outgoing_frame_max: int = FRAME_MAX_FLOOR
        self.outgoing_channel_max: int = 0xFFFF
        self.remote: Open | None = None

        # Deliveries that come in several frames.
        self.assembler: Assembler = Assembler(limits.assembly_bytes_max)
        # Set when the start of the next frame is unknown.
        self._deaf: bool = False

        # Time, in milliseconds.
        self.last_received: int = 0
        self._beat_interval: int = 0
        self._beat_due: int = 0
        self._phase_began: int = _UNSET
        # Server: the login or the peer's open waits for our answer, an open with heartbeats, and for as
        # long as it takes: the time of the handshake does not run.
        self.is_answer_withheld: bool = False
        # How many writes there were when our open was appended to the output.
        self._open_after: int = 0

    def start(self, sasl: bool) -> None:
        """Client: send the first protocol header, that of the SASL layer or AMQP's own."""
        assert self.role is Role.CLIENT
        assert self.state is ConnectionState.START
        if sasl:
            self.outgoing.push(SASL_HEADER)
            self.sasl = SaslState.AWAITING_MECHANISMS
        else:
            self._say_header()

    def _say_header(self) -> None:
        self.outgoing.push(PROTOCOL_HEADER)
        self._move(PROTOCOL)

    def _move(self, code: int) -> None:
        after = CONNECTION_SENT.get((self.state, code))
        assert after is not None, f"performative {code} must not be sent while {self.state.value}"
        self.state = after

    def send_sasl(self, frame: Composite) -> None:
        """Any frame of the SASL layer, when it is our turn."""
        if self.state is ConnectionState.ENDED:
            return
        after = SASL_SENT.get((self.sasl, frame.identity()))
        assert after is not None, f"{frame!r} must not be sent while {self.sasl.value}"
        self.sasl = after
        self.outgoing.push(encode_frame(SASL_FRAME, 0, frame.encode()))
        if isinstance(frame, SaslOutcome):
            if frame.code == 0:
                self._is_authenticated = True
                self._awaits_header = True
            else:
                self._end(ConnectionFault(UNAUTHORIZED_ACCESS, f"SASL outcome {frame.code}"))
        self._resume()

    def open(
        self,
        hostname: str | None = None,
        properties: dict[str, object] | None = None,
        offered: list[str] | None = None,
        desired: list[str] | None = None,
    ) -> None:
        """Client: after the header, also without waiting for the peer's. Server: the answer."""
        if self.state in CLOSING:
            return
        self._move(OPEN)
        limits = self.limits
        said = Open(
            self.container_id,
            hostname,
            limits.frame_max,
            limits.channel_max,
            limits.idle_ms or None,
            offered_capabilities=offered,
            desired_capabilities=desired,
            properties=properties,
        )
        frame = encode_frame(AMQP_FRAME, 0, said.encode())
        assert len(frame) <= self.outgoing_frame_max, "an open larger than the peer's frames"
        self.outgoing.push(frame)
        self._open_after = self.outgoing.sent_count
        self.incoming_frame_max = limits.frame_max
        self._resume()

    def begin(self, properties: dict[str, object] | None = None) -> Session:
        """Begin a session; the listener gets `session_begun` with the peer's answer."""
        assert self.state in SPEAKING
        session = Session(self._free_channel(), self.outgoing, self.limits, self.outgoing_frame_max)
        self._say_begin(session, properties)
        return session

    def _free_channel(self) -> int:
        for number in range(len(self._outgoing_channels) + 1):
            if number not in self._outgoing_channels and number <= self.outgoing_channel_max:
                return number
        raise ConnectionFault(NOT_ALLOWED, "no channel is left for a session")

    def _say_begin(self, session: Session, properties: dict[str, object] | None) -> None:
        after = SESSION_SENT.get((session.state, BEGIN))
        assert after is not None
        session.state = after
        session.is_open = True
        self._outgoing_channels[session.channel] = session
        begin = Begin(
            session.remote_channel if session.remote_channel >= 0 else None,
            session.next_outgoing_id,
            session.incoming_window,
            session.outgoing_window,
            session.handle_max,
            properties=properties,
        )
        self._say(session.channel, begin)

    def _say(self, channel: int, performative: Composite) -> None:
        self.outgoing.push(encode_frame(AMQP_FRAME, channel, performative.encode()))

    def attach_receiver(
        self, session: Session, name: str, listener: DeliveryListener, attach: Attach
    ) -> ReceivingLink:
        """A link of our own on which we receive; name, handle and role are filled in."""
        link = ReceivingLink(session, name, listener, self.limits.message_bytes_max)
        self.attach(session, link, attach)
        return link

    def attach_sender(
        self, session: Session, name: str, listener: SettlementListener, attach: Attach
    ) -> SendingLink:
        """A link of our own on which we send."""
        link = SendingLink(session, name, listener)
        self.attach(session, link, attach)
        return link

    def attach(self, session: Session, link: Link, attach: Attach) -> None:
        """Our attach: begins a link, or answers the peer's. The caller says source, target, modes,
        unsettled map, properties and, of a sender, the initial delivery-count if it is not 0.
        """
        if not session.is_open or link.state in {LinkState.DETACH_SENT, LinkState.ENDED}:
            return
        after = LINK_SENT.get((link.state, ATTACH))
        assert after is not None, f"attach must not be sent while {link.state.value}"
        handle = session.free_handle()
        if handle < 0:
            fault = SessionFault(RESOURCE_LIMIT_EXCEEDED, "no handle is left for a link")
            self.end_session(session, fault)
            return
        attach.name = link.name
        attach.handle = handle
        attach.role = link.is_receiver
        if isinstance(link, ReceivingLink):
            attach.initial_delivery_count = None
            attach.max_message_size = link.own_message_bytes_max
        elif attach.initial_delivery_count is None:
            attach.initial_delivery_count = 0
        link.state = after
        link.said(attach)
        session.links[handle] = link
        self._say(session.channel, attach)
        if after is LinkState.ATTACHED:
            link.attached()

    def refuse(self, session: Session, link: Link, fault: LinkFault) -> None:
        """Answer the peer's attach with one that has neither source nor target, and detach."""
        if link.state is LinkState.ATTACH_RECEIVED and session.is_open:
            remote = link.remote
            assert remote is not None
            answer = Attach(
                snd_settle_mode=remote.snd_settle_mode, rcv_settle_mode=remote.rcv_settle_mode
            )
            if link.is_receiver:
                answer.source = remote.source
            else:
                answer.target = remote.target
            self.attach(session, link, answer)
        self.detach(session, link, fault, True)

    def detach(self, session: Session, link: Link, fault: LinkFault | None, closed: bool) -> None:
        """End the link (`closed`) or suspend it. With a fault the listener is told at once."""
        if link.state is LinkState.ATTACH_RECEIVED and fault is not None:
            self.refuse(session, link, fault)
            return
        after = LINK_SENT.get((link.state, DETACH))
        if after is None or not session.is_open:
            return
        self._say_detach(session, link, fault, closed, after)
        link.was_closed = closed
        if fault is not None:
            self.listener.link_ended(session, link, fault, closed)
        else:
            link.tell_when_ended = True

    def _say_detach(
        self, session: Session, link: Link, fault: Fault | None, closed: bool, after: LinkState
    ) -> None:
        link.state = after
        self.assembler.release(link)
        link.silence()
        error = None if fault is None else fault.error()
        self._say(session.channel, Detach(link.handle, closed, error))

    def end_session(self, session: Session, fault: SessionFault | None) -> None:
        """End a session and all its links. With a fault the listener is told at once."""
        after = SESSION_SENT.get((session.state, END))
        if after is None or self.state in CLOSING:
            return
        self._say_end(session, fault, after)
        if fault is not None:
            self.listener.session_ended(session, fault)
        else:
            session.tell_when_ended = True

    def _say_end(self, session: Session, fault: Fault | None, after: SessionState) -> None:
        session.state = after
        for link in session.all_links():
            self.assembler.release(link)
        session.silence()
        if session.remote_channel >= 0:
            del self._outgoing_channels[session.channel]
        # Otherwise the peer's begin is still to come, and says which one it answers.
        self._say(session.channel, End(None if fault is None else fault.error()))

    def close(self, fault: ConnectionFault | None) -> None:
        """Send close, with the reason if there is one. Before an open there is nothing to close but
        the transport; a server that has received one sends its own first.
        """
        if self.state in CLOSING:
            return
        if self.state in {ConnectionState.HEADER_EXCHANGED, ConnectionState.OPEN_RECEIVED}:
            if self.sasl is SaslState.NONE:
                self._move(OPEN)
                self._say(0, Open(self.container_id, max_frame_size=self.limits.frame_max))
                self.incoming_frame_max = self.limits.frame_max
        after = CONNECTION_SENT.get((self.state, CLOSE))
        if after is None:
            self._end(fault)
            return
        self._say(0, Close(None if fault is None else fault.error()))
        self.state = after
        self._phase_began = _UNSET
        self._forget_sessions()
        if fault is None:
            self._tell_when_closed = True
        else:
            self._tell(fault)

    def hang_up(self, fault: ConnectionFault) -> None:
        """End without saying anything; the fault is for the listener."""
        self._end(fault)

    def negotiate(self, remote: Open) -> None:
        """Apply the peer's open; raises a fault for values that are not supported."""
        self.remote = remote
        if remote.max_frame_size < FRAME_MAX_FLOOR:
            text = f"max-frame-size {remote.max_frame_size} is below {FRAME_MAX_FLOOR}"
            raise ConnectionFault(INVALID_FIELD, text)
        idle = remote.idle_time_out or 0
        if 0 < idle < self.limits.idle_ms_floor:
            text = f"idle-time-out {idle} ms is below {self.limits.idle_ms_floor} ms"
            raise ConnectionFault(INVALID_FIELD, text)
        # Our own frames are no larger than those we accept: the peer's limit may be absurd.
        self.outgoing_frame_max = min(remote.max_frame_size, self.limits.frame_max)
        self.outgoing_channel_max = min(remote.channel_max, self.limits.channel_max)
        self._beat_interval = idle // 2
        for session in self._outgoing_channels.values():
            # Begun before the peer's open had arrived.
            session.frame_max = self.outgoing_frame_max

    def tick(self, now: int) -> None:
        """Call about once a second."""
        if self.state is ConnectionState.OPENED:
            self._beat(now)
            return
        if self.state is ConnectionState.ENDED:
            return
        if self.is_answer_withheld and self.state not in CLOSING:
            self._phase_began = _UNSET
            if self.state is ConnectionState.OPEN_RECEIVED:
                # The peer does not know our idle-time-out yet, but we know its.
                self._beat_if_due(now)
            return
        if self._phase_began == _UNSET:
            self._phase_began = now
        elif self.state in CLOSING:
            if now - self._phase_began >= self.limits.closing_ms:
                self._end(None)
        elif now - self._phase_began >= self.limits.handshake_ms:
            phase = self.state.value if self.sasl is SaslState.NONE else self.sasl.value
            self._end(ConnectionFault(CONNECTION_FORCED, f"handshake timeout, {phase}"))

    def _beat(self, now: int) -> None:
        idle = self.limits.idle_ms
        if idle and now - self.last_received > 2 * idle:
            # The specification asks to send the reason, should the peer still read.
            fault = ConnectionFault(RESOURCE_LIMIT_EXCEEDED, f"nothing received for {2 * idle} ms")
            if self.outgoing.is_waiting:
                # What waits for the journal must not leave before it is durable.
                self.outgoing.push_ahead(encode_frame(AMQP_FRAME, 0, Close(fault.error()).encode()))
                self._end(fault)
            else:
                self._say(0, Close(fault.error()))
                self._end(fault)
                # ... but not to wait for it: output that is not sent now would never be sent.
                self.outgoing.flush()
            self.outgoing.transport.abort()
        else:
            self._beat_if_due(now)

    def _beat_if_due(self, now: int) -> None:
        if self._beat_interval and now >= self._beat_due:
            # Also while other frames are sent: links write directly, and eight bytes per half
            # interval are cheaper than watching every write.
            self._beat_due = now + self._beat_interval
            if self.is_answer_withheld or self.outgoing.sent_count > self._open_after:
                self.outgoing.push_ahead(HEARTBEAT)
            else:
                # Nothing may come before our open, which waits as well.
                self.outgoing.push(HEARTBEAT)

    def lost(self) -> None:
        """The transport is gone."""
        if self.state in CLOSING:
            self._end(None)
        else:
            self._end(ConnectionFault(CONNECTION_FORCED, "the peer went away without close"))

    def _end(self, fault: ConnectionFault | None) -> None:
        """Nothing more is sent or handled. The transport closes when the pending output is sent."""
        if self.state is ConnectionState.ENDED:
            return
        self.state = ConnectionState.ENDED
        self.sasl = SaslState.NONE
        self._forget_sessions()
        self._forget_input()
        self.outgoing.close()
        self._tell(fault)

    def _tell(self, fault: ConnectionFault | None) -> None:
        if not self._told:
            self._told = True
            self.listener.connection_ended(fault)

    def _forget_sessions(self) -> None:
        for sessions in (self._outgoing_channels, self._incoming_channels):
            for session in sessions.values():
                # The frame loop may hold one of them, and so may the owner.
                session.silence()
            sessions.clear()
        self.assembler.forget()

    def _resume(self) -> None:
        """The listener has decided: handle what the peer sent ahead."""

    def _forget_input(self) -> None:
        """Drop what was kept of an incomplete frame."""
