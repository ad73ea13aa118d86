"""One client's AMQP 1.0 connection: the login, the open, its sessions, and what happens to them.

Wire faults and the broker's refusals both end up in `wire.amqp10.Connection.receive`, which answers
the client; here they are only raised.

Invariants: a session is here exactly while it is mapped on the wire; when the connection ends, by
whatever means, all its links end or are suspended, then its exclusive queues go.
"""

from collections.abc import Iterator

from penstock.broker.entry import QueueEntry
from penstock.broker.errors import Refusal
from penstock.broker.events import EventKind
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.admission import OpeningClient
from penstock.dialects.amqp10 import login
from penstock.dialects.amqp10.context import ConnectionContext
from penstock.dialects.amqp10.dialect import Dialect10
from penstock.dialects.amqp10.faults import condition_of, kind_of, link_fault_of
from penstock.dialects.amqp10.links.link_end import LinkEnd, LinkPart, Parting
from penstock.dialects.amqp10.session import SessionLinks
from penstock.dialects.container import Container
from penstock.dialects.facts import ChannelFacts, ConnectionFacts, ConsumerFacts
from penstock.dialects.input_pause import ALARM, LOGIN, NOT_COMPLETED
from penstock.dialects.login import Login
from penstock.dialects.login_listener import LOGIN_EXPIRED, LoginListener
from penstock.dialects.mechanisms import AMQPLAIN, ANONYMOUS, ANONYMOUS_REFUSED, Anonymous
from penstock.dialects.noting import Noting
from penstock.dialects.peer import Peer
from penstock.dialects.protocol_connection import ProtocolConnection
from penstock.dialects.turn import TOPOLOGY_UNITS
from penstock.dialects.unsettled_part import UnsettledPart
from penstock.formats.octets import Malformed
from penstock.wire.amqp10.conditions_generated import (
    CONNECTION_FORCED,
    INTERNAL_ERROR,
    RESOURCE_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
)
from penstock.wire.amqp10.connection import Connection as WireConnection
from penstock.wire.amqp10.errors import ConnectionFault, LinkFault, SessionFault
from penstock.wire.amqp10.link import Link
from penstock.wire.amqp10.listener import ConnectionListener
from penstock.wire.amqp10.performatives_generated import (
    Attach,
    Begin,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.states import Role
from penstock.wire.amqp10.values import Composite
from penstock.wire.outgoing import DrainListener, Outgoing


class Connection(ConnectionListener, ProtocolConnection):
    """Held by the node's connection from the protocol header to the end of the transport."""

    def __init__(self, dialect: Dialect10, peer: Peer, now: int) -> None:
        container = dialect.container
        self.container: Container = container
        self._dialect: Dialect10 = dialect
        self.peer: Peer = peer
        self.outgoing: Outgoing = peer.outgoing
        self.number: int = peer.number
        self.noting: Noting = Noting(container.events, "AMQP 1.0", peer)
        peer.outgoing.listener = ConnectionDrain(self)
        self.wire: WireConnection = WireConnection(
            Role.SERVER,
            self,
            peer.outgoing,
            dialect.limits,
            dialect.container_id,
            True,
        )
        self._context: ConnectionContext = ConnectionContext(
            container, self.wire, peer.number, dialect.container_id, now
        )
        self._context.creates_queues = dialect.settings.creates_queues
        self._context.noting = self.noting
        self.login: Login = Login(
            container,
            peer,
            self.noting,
            self._context.input_pause,
            ConnectionLogin(self),
            dialect.login_counts,
        )
        self.wire.sasl_required = not self.login.allows_anonymous()
        self._sessions: dict[Session, SessionLinks] = {}
        # The open of a client without a SASL layer, while its login is checked.
        self._held_open: Open | None = None
        # Of a client that opens its connection at a cluster member, and its open.
        self._held: OpeningClient | None = None
        self._wanted: Open | None = None
        self.ended: bool = False
        self._has_hung_up: bool = False
        # It may complete the message that it is in the middle of, though an alarm lasts.
        self._is_finishing: bool = False

    # Calls from the node.

    def received(self, data: bytes, now: int) -> None:
        self._context.now = now
        released_count = self.wire.assembler.released_count
        self._context.turn.receive(data, now)
        if self._is_finishing:
            self._finish_one(released_count)
        elif self.container.alarm:
            self._stop_assembling()

    def _finish_one(self, released_count: int) -> None:
        """End the turn to complete one message, even if more follows it."""
        if self.wire.assembler.octets and self.wire.assembler.released_count == released_count:
            return
        self._is_finishing = False
        if self.container.alarm:
            self._stop_assembling()

    def unfinished_octets(self) -> int:
        """Of messages that an alarm has stopped in the middle, or that it completes now. What waits
        in the transport behind them is held by the alarm as well.
        """
        if not self._is_finishing and not self._context.input_pause.is_paused_for(ALARM):
            return 0
        return self.wire.assembler.octets + self.outgoing.transport.unheard_bytes()

    def is_finishing(self) -> bool:
        return self._is_finishing and not self.ended

    def finish(self, now: int) -> None:
        """Its turn to complete a message, though the alarm lasts."""
        self._context.now = now
        self._is_finishing = True
        self._context.input_pause.resume(ALARM)

    def give_up_unfinished(self, now: int) -> None:
        self._context.now = now
        self.wire.close(ConnectionFault(RESOURCE_LIMIT_EXCEEDED, NOT_COMPLETED))

    def _stop_assembling(self) -> None:
        """A producer without credit may still complete what it has begun, which may be as large as
        the largest message. While an alarm lasts it does not.
        """
        if self.wire.assembler.octets and not self.ended and not self._has_hung_up:
            self._context.input_pause.pause(ALARM)

    def tick(self, now: int) -> None:
        self._context.now = now
        if self._context.input_pause.is_paused() and self.outgoing.transport.has_hung_up():
            # Otherwise its unfinished message would keep the alarm up. It can send little more.
            self._has_hung_up = True
            self._context.input_pause.resume(ALARM)
        if self._context.input_pause.is_paused():
            # The connection is not read now.
            self.wire.last_received = now
        for end in self._ends():
            end.tick(now)
        self.wire.tick(now)

    def lost(self, now: int) -> None:
        """The transport is gone."""
        self._context.now = now
        self.noting.is_lost = True
        self.wire.lost()

    def failed(self, now: int) -> None:
        """An internal error occurred while this connection was served; others are not affected."""
        self._context.now = now
        self.wire.close(ConnectionFault(INTERNAL_ERROR, "internal error, see the broker's log"))

    def stop(self, reason: str, now: int) -> None:
        """The server closes this connection: it stops, or an operator asked for it."""
        self._context.now = now
        self.wire.close(ConnectionFault(CONNECTION_FORCED, reason))

    def turn_away(self, reason: str, now: int) -> None:
        """Without a close: Proton would wait for ever after one, and starts again with the first
        address of its list after an open. Every client takes a lost connection for a reason to try
        the next address.
        """
        self._context.now = now
        self.wire.hang_up(ConnectionFault(CONNECTION_FORCED, reason))

    def alarm_changed(self, now: int) -> None:
        """Memory or disk ran low, or is fine again: producers get credit accordingly. The socket
        is read on, so consumers can acknowledge, unless it is in the middle of a message.
        """
        self._context.now = now
        if self.container.alarm:
            self._stop_assembling()
        else:
            self._is_finishing = False
            self._context.input_pause.resume(ALARM)
        for end in self._ends():
            end.alarm_changed()

    def interceptor_changed(self) -> None:
        for end in self._ends():
            end.interceptor_changed()

    def has_room(self) -> None:
        """The socket buffer has room again."""
        for end in self._ends():
            end.has_room()

    def vhost_name(self) -> str:
        principal = self.login.principal
        return "" if principal is None else principal.vhost.name

    def user_name(self) -> str:
        return self.login.user

    def channel_count(self) -> int:
        return 0

    def is_peer(self) -> bool:
        return False

    def facts(self) -> ConnectionFacts:
        facts = ConnectionFacts("AMQP 1.0")
        facts.state = "blocked" if self._context.input_pause.is_paused_for(ALARM) else self._state()
        facts.user = self.login.user
        facts.vhost = self.vhost_name()
        facts.mechanism = self.login.mechanism_name
        facts.frame_max = self.wire.outgoing_frame_max
        facts.channel_max = self.wire.outgoing_channel_max
        opened = self.wire.remote
        if opened is not None:
            facts.heartbeat_seconds = (opened.idle_time_out or 0) // 1000
            facts.client_properties = opened.properties or {}
        facts.client_name = self._context.container_id
        facts.channel_count = len(self._sessions)
        return facts

    def _state(self) -> str:
        if self.ended:
            return "closing"
        return "starting" if self.login.principal is None else "running"

    def channel_facts(self) -> Iterator[ChannelFacts]:
        for links in list(self._sessions.values()):
            yield links.facts()

    def consumer_facts(self) -> Iterator[ConsumerFacts]:
        for end in self._ends():
            facts = end.consumer_facts()
            if facts is not None:
                yield facts

    def held_bytes(self, message_bytes: int) -> int:
        octets = self.wire.buffered() + self._context.transactions.octets
        for end in self._ends():
            octets += end.held_bytes(message_bytes)
        return octets

    def add_unsettled(self, found: list[tuple[MessageQueue, QueueEntry]]) -> None:
        """Append everything that is out with its receivers."""
        for links in self._sessions.values():
            links.add_unsettled(found)

    def unsettled_parts(self) -> list[UnsettledPart]:
        return [LinkPart(end) for end in self._ends()]

    def _ends(self) -> list[LinkEnd]:
        found: list[LinkEnd] = []
        for links in self._sessions.values():
            found.extend(links.ends())
        return found

    # Calls from the wire.

    def sasl_began(self) -> None:
        self.wire.send_sasl(SaslMechanisms(login.mechanisms(self.login.offered())))

    def sasl_received(self, frame: Composite) -> None:
        if isinstance(frame, SaslInit):
            self._log_in(frame)
        elif isinstance(frame, SaslResponse):
            self._respond(frame.response)

    def open_received(self, opened: Open) -> None:
        if self.login.user:
            self._open(opened)
            return
        self._held_open = opened
        self.login.begin(Anonymous(login.NO_SASL), b"", self._context.now)

    def session_begun(self, session: Session, begin: Begin) -> None:
        try:
            self.login.open_channel()
        except Refusal as refusal:
            raise SessionFault(RESOURCE_LIMIT_EXCEEDED, refusal.text) from refusal
        self._sessions[session] = SessionLinks(self._context, self._dialect.links, session)

    def link_attached(self, session: Session, link: Link, attach: Attach) -> None:
        links = self._sessions.get(session)
        assert links is not None, "a link is attached to a session that was begun"
        self._context.turn.charge(TOPOLOGY_UNITS)
        try:
            links.attach(link, attach)
        except Refusal as refusal:
            raise link_fault_of(refusal) from refusal
        self._context.hold_for_definitions()

    def link_ended(
        self, session: Session, link: Link, fault: LinkFault | None, closed: bool
    ) -> None:
        if fault is not None:
            self.noting.warn(kind_of(fault), str(fault), {"link": link.name})
        links = self._sessions.get(session)
        if links is not None:
            links.detached(link, closed, self._context.now)

    def session_ended(self, session: Session, fault: SessionFault | None) -> None:
        if fault is not None:
            self.noting.warn(EventKind.SESSION_ERROR, str(fault), {})
        links = self._sessions.pop(session, None)
        if links is not None:
            self.login.channel_ended()
            links.ended(Parting.SESSION_ENDED, self._context.now)

    def connection_ended(self, fault: ConnectionFault | None) -> None:
        if self.ended:
            return
        self.ended = True
        if self._held is not None:
            self.container.admission.drop(self._held)
        self.noting.closed("" if fault is None else str(fault), bool(fault and fault.from_peer))
        now = self._context.now
        # Otherwise the peer's close would stay unread.
        self._context.input_pause.resume(ALARM | LOGIN)
        self._context.transactions.rollback_all(now)
        sessions = list(self._sessions.values())
        self._sessions.clear()
        failure: Exception | None = None
        for links in sessions:
            try:
                links.ended(Parting.CONNECTION_ENDED, now)
            except Exception as error:
                # The others must requeue what they hold all the same.
                failure = failure or error
        if self.login.principal is not None:
            self._dialect.links.connection_ended(self.number, now)
        self.login.end(now)
        if failure is not None:
            raise failure

    # The handshake.

    def _log_in(self, init: SaslInit) -> None:
        name = init.mechanism
        mechanism = self.login.mechanism(name)
        if mechanism is None or name == AMQPLAIN:
            is_anonymous = name == ANONYMOUS
            self._refuse_unchecked(
                ANONYMOUS_REFUSED if is_anonymous else f"mechanism {name} is not offered"
            )
            return
        try:
            self.login.begin(mechanism, init.initial_response or b"", self._context.now)
        except Malformed as error:
            self._refuse_unchecked(f"malformed {name} response: {error}")

    def _respond(self, response: bytes) -> None:
        try:
            self.login.respond(response, self._context.now)
        except Malformed as error:
            name = self.login.mechanism_name
            self._refuse_unchecked(f"malformed {name} response: {error}")

    def login_challenged(self, challenge: bytes, now: int) -> None:
        self._context.now = now
        self.wire.send_sasl(SaslChallenge(challenge))

    def _refuse_unchecked(self, reason: str) -> None:
        """The client names no user whose password could be checked, so the refusal is not
        delayed.
        """
        self.noting.login_refused("", reason)
        self.wire.send_sasl(SaslOutcome(login.REFUSED))

    def login_accepted(self, now: int) -> None:
        self._context.now = now
        opened = self._held_open
        if opened is None:
            final = self.login.server_final
            self.wire.send_sasl(SaslOutcome(login.LOGGED_IN, final or None))
            return
        self._held_open = None
        try:
            self._open(opened)
        except ConnectionFault as fault:
            self.wire.close(fault)

    def login_refused(self, now: int) -> None:
        self._context.now = now
        self._deny(login.REFUSED)

    def login_postponed(self, now: int) -> None:
        self._context.now = now
        self._deny(login.TRY_AGAIN)

    def login_expired(self, now: int) -> None:
        self._context.now = now
        self.wire.close(ConnectionFault(UNAUTHORIZED_ACCESS, LOGIN_EXPIRED))

    def _deny(self, code: int) -> None:
        """Answer a login that failed, or was not checked, with a code of the SASL outcome. A client
        without a SASL layer gets a close.
        """
        if self._held_open is None:
            self.wire.send_sasl(SaslOutcome(code))
            return
        text = ANONYMOUS_REFUSED if code == login.REFUSED else self.login.postponed_reason
        self.wire.close(ConnectionFault(UNAUTHORIZED_ACCESS, text))

    def _open(self, opened: Open) -> None:
        admission = self.container.admission
        if admission.is_clustered:
            reason = admission.why_refused(opened.properties or {})
            if reason:
                raise ConnectionFault(UNAUTHORIZED_ACCESS, reason)
            self._wanted = opened
            self._held = OpeningClient(self, self.number)
            self.wire.is_answer_withheld = not admission.may_open(self._held, self._context.now)
        if not self.wire.is_answer_withheld:
            self._answer_open(opened)

    def admit(self, now: int) -> None:
        self._context.now = now
        self.wire.is_answer_withheld = False
        opened, self._wanted = self._wanted, None
        assert opened is not None, "it was held"
        try:
            self._answer_open(opened)
        except ConnectionFault as fault:
            self.wire.close(fault)

    def _answer_open(self, opened: Open) -> None:
        try:
            principal = self.login.open_vhost(login.vhost_of(opened.hostname), opened.container_id)
        except Refusal as refusal:
            raise ConnectionFault(condition_of(refusal), refusal.text) from refusal
        self._context.container_id = opened.container_id
        self._context.principal = principal
        properties: dict[str, object] | None = self._dialect.properties()
        if self.wire.outgoing_frame_max < login.FRAME_SIZE_FOR_PROPERTIES:
            properties = None
        self.wire.open(properties=properties, offered=list(login.OFFERED_CAPABILITIES))


class ConnectionDrain(DrainListener):
    """Tells a connection's links that its socket has room again."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection = connection

    def drained(self) -> None:
        self._connection.has_room()


class ConnectionLogin(LoginListener):
    """Passes the result of a login to its connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection = connection

    def login_withheld(self, is_withheld: bool) -> None:
        self._connection.wire.is_answer_withheld = is_withheld

    def login_challenged(self, challenge: bytes, now: int) -> None:
        self._connection.login_challenged(challenge, now)

    def login_accepted(self, now: int) -> None:
        self._connection.login_accepted(now)

    def login_refused(self, now: int) -> None:
        self._connection.login_refused(now)

    def login_postponed(self, now: int) -> None:
        self._connection.login_postponed(now)

    def login_expired(self, now: int) -> None:
        self._connection.login_expired(now)
