"""One client's connection: the handshake, its channels, and what happens to them.

Wire faults and the broker's refusals both end up in `wire.amqp091.Connection.receive`, which answers
the client; here they are only raised.

Invariants: a channel exists here exactly while it is open on the wire; when the connection ends, by
whatever means, all its channels end, then its exclusive queues go.
"""

from collections.abc import Iterator

from penstock.broker.entry import QueueEntry
from penstock.broker.errors import NotAllowed, Refusal
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.admission import OpeningClient
from penstock.dialects.amqp091 import login
from penstock.dialects.amqp091.acknowledge import Outcome
from penstock.dialects.amqp091.channel import Channel, end_all
from penstock.dialects.amqp091.commit import Commit
from penstock.dialects.amqp091.connection_facts import facts_of
from penstock.dialects.amqp091.dialect import Dialect091
from penstock.dialects.amqp091.faults import fault_of, kind_of
from penstock.dialects.amqp091.publish import publish
from penstock.dialects.amqp091.unacknowledged import UnacknowledgedPart
from penstock.dialects.amqp091.verbs import perform, settle_or_stage
from penstock.dialects.container import Container
from penstock.dialects.facts import ChannelFacts, ConnectionFacts, ConsumerFacts
from penstock.dialects.input_pause import ALARM, LOGIN, NOT_COMPLETED, InputPause
from penstock.dialects.login import Login
from penstock.dialects.login_listener import LOGIN_EXPIRED, LoginListener
from penstock.dialects.noting import Noting
from penstock.dialects.peer import Peer
from penstock.dialects.peers import PeerSession
from penstock.dialects.protocol_connection import ProtocolConnection
from penstock.dialects.turn import LARGE_BODY_OCTETS, ConnectionTurn, PendingWork
from penstock.dialects.unsettled_part import UnsettledPart
from penstock.formats.octets import Malformed
from penstock.wire.amqp091.connection import Connection as WireConnection
from penstock.wire.amqp091.errors import ChannelFault, ConnectionFault, Fault
from penstock.wire.amqp091.listener import ConnectionListener
from penstock.wire.amqp091.methods_generated import (
    TX_COMMIT,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
)
from penstock.wire.amqp091.reply_codes_generated import (
    ACCESS_REFUSED,
    CONNECTION_FORCED,
    INTERNAL_ERROR,
    RESOURCE_ERROR,
)
from penstock.wire.amqp091.states import Role
from penstock.wire.outgoing import DrainListener, Outgoing


class Connection(ConnectionListener, ProtocolConnection):
    """Held by the node's connection from accept to the end of the transport."""

    def __init__(self, dialect: Dialect091, peer: Peer, now: int) -> None:
        container = dialect.container
        self._dialect: Dialect091 = dialect
        self.container: Container = container
        self.number: int = peer.number
        self.outgoing: Outgoing = peer.outgoing
        self.noting: Noting = Noting(container.events, "AMQP 0-9-1", peer)
        outgoing = peer.outgoing
        outgoing.listener = ConnectionDrain(self)
        self.wire: WireConnection = WireConnection(Role.SERVER, self, outgoing, dialect.limits)
        self.input_pause: InputPause = InputPause(outgoing.transport)
        self.turn: ConnectionTurn = ConnectionTurn(
            container.turns, peer.number, self.wire, self.input_pause
        )
        self.login: Login = Login(
            container,
            peer,
            self.noting,
            self.input_pause,
            ConnectionLogin(self),
            dialect.login_counts,
            container.peers,
        )
        # The time of the event that is being handled.
        self._now: int = now
        self._peer: Peer = peer
        # What a server of this cluster says goes there; None for a client.
        self._session: PeerSession | None = None
        # Of a client that opens its connection at a cluster member.
        self._held: OpeningClient | None = None
        self._wanted_vhost: str = ""
        self._channels: dict[int, Channel] = {}
        self.ended: bool = False
        self.client_properties: dict[str, object] = {}

        # A publisher is told about alarms and not read while one lasts.
        self._publishes: bool = False
        self._blocked: bool = False
        # It may complete the message that it is in the middle of, though an alarm lasts.
        self._is_finishing: bool = False

    # Calls from the node.

    def received(self, data: bytes, now: int) -> None:
        self._now = now
        if self.turn.work is not None:
            if data:
                self.wire.must_stop = True
                self.wire.receive(data, now)
            if self.turn.is_over or not self._work_on(self.turn.work):
                return
            data = b""
        released_count = self.wire.released_count
        self.turn.receive(data, now)
        if self._is_finishing:
            self._finish_one(released_count)
        elif self.container.alarm and self.wire.assembling():
            # Otherwise it would continue with a large content until that is complete.
            self._block()

    def _finish_one(self, released_count: int) -> None:
        """End the turn to complete one message, even if more follows it."""
        if self.wire.assembling() and self.wire.released_count == released_count:
            return
        self._is_finishing = False
        if self._blocked and not self.ended:
            self.input_pause.pause(ALARM)

    def unfinished_octets(self) -> int:
        # What waits in the transport behind such messages is held by the alarm as well.
        if not self._is_finishing and not self.input_pause.is_paused_for(ALARM):
            return 0
        return self.wire.assembling() + self.outgoing.transport.unheard_bytes()

    def is_finishing(self) -> bool:
        return self._is_finishing and not self.ended

    def finish(self, now: int) -> None:
        self._now = now
        self._is_finishing = True
        self.input_pause.resume(ALARM)

    def give_up_unfinished(self, now: int) -> None:
        self._now = now
        self.wire.close(ConnectionFault(RESOURCE_ERROR, NOT_COMPLETED))

    def _work_on(self, work: PendingWork) -> bool:
        """A turn of something that takes several; True when it is done and input goes on."""
        if not work.prepare(self._now):
            self.turn.end()
            return False
        self.turn.work = None
        self.wire.must_stop = False
        assert isinstance(work, Commit), "nothing else takes several turns"
        try:
            try:
                work.finish(self._now)
            except Refusal as refusal:
                raise fault_of(refusal) from refusal
        except Fault as fault:
            self.wire.refuse(work.channel.number, fault, TX_COMMIT)
        self.turn.charge(work.finish_units())
        return not self.turn.is_over

    def tick(self, now: int) -> None:
        self._now = now
        if self._blocked and self.outgoing.transport.has_hung_up():
            # Otherwise its unfinished message would keep the alarm up. It can send little more.
            self.input_pause.resume(ALARM)
        if self.input_pause.is_paused():
            # The connection is not read now; the peer's heartbeats wait in the kernel.
            self.wire.last_received = now
        self.wire.tick(now)

    def lost(self, now: int) -> None:
        self._now = now
        self.noting.is_lost = True
        self.wire.lost()

    def failed(self, now: int) -> None:
        self._now = now
        self.wire.close(ConnectionFault(INTERNAL_ERROR, "internal error, see the broker's log"))

    def stop(self, reason: str, now: int) -> None:
        self._now = now
        self.wire.close(ConnectionFault(CONNECTION_FORCED, reason))

    def turn_away(self, reason: str, now: int) -> None:
        self.stop(reason, now)

    def alarm_changed(self, now: int) -> None:
        self._now = now
        if self.container.alarm:
            if self._publishes or self.wire.assembling():
                self._block()
        elif self._blocked:
            self._blocked = False
            self._is_finishing = False
            if login.client_capability(self.client_properties, "connection.blocked"):
                self.wire.send_method(0, ConnectionUnblocked())
            self.input_pause.resume(ALARM)

    def _block(self) -> None:
        if self._blocked or self.ended or self._session is not None:
            return
        self._blocked = True
        if login.client_capability(self.client_properties, "connection.blocked"):
            self.wire.send_method(0, ConnectionBlocked(self.container.alarm))
        self.input_pause.pause(ALARM)

    def touch_queues(self) -> None:
        """The socket has room again."""
        for channel in self._channels.values():
            channel.touch_queues()
        if self._session is not None:
            self._session.drained()

    def interceptor_changed(self) -> None:
        for channel in self._channels.values():
            channel.choose_publish_path()

    def vhost_name(self) -> str:
        principal = self.login.principal
        return "" if principal is None else principal.vhost.name

    def user_name(self) -> str:
        return self.login.user

    def channel_count(self) -> int:
        return len(self._channels)

    def facts(self) -> ConnectionFacts:
        count = len(self._channels)
        return facts_of(self.wire, self.login, self.client_properties, self._blocked, count)

    def channel_facts(self) -> Iterator[ChannelFacts]:
        for channel in list(self._channels.values()):
            yield channel.facts()

    def consumer_facts(self) -> Iterator[ConsumerFacts]:
        for channel in list(self._channels.values()):
            for tag, consumer in list(channel.consumers.items()):
                yield channel.consumer_facts(tag, consumer)

    def held_bytes(self, message_bytes: int) -> int:
        octets = self.wire.buffered()
        work = self.turn.work
        if isinstance(work, Commit):
            octets += work.held_bytes(message_bytes)
        for channel in self._channels.values():
            unacknowledged = channel.deliveries.unacknowledged
            octets += unacknowledged.held_bytes() + unacknowledged.count * message_bytes
            transaction = channel.transaction
            if transaction is not None:
                octets += transaction.octets + len(transaction.publishes) * message_bytes
        return octets if self._session is None else octets + self._session.held_bytes()

    def is_peer(self) -> bool:
        return self.login.is_peer

    def add_unsettled(self, found: list[tuple[MessageQueue, QueueEntry]]) -> None:
        for channel in self._channels.values():
            channel.deliveries.unacknowledged.add_to(found)

    def unsettled_parts(self) -> list[UnsettledPart]:
        return [
            UnacknowledgedPart(channel.deliveries.unacknowledged)
            for channel in self._channels.values()
        ]

    # Calls from the wire.

    def protocol_agreed(self) -> None:
        properties = self._dialect.server_properties()
        self.wire.send_method(0, login.start(properties, self.login.offered()))

    def content_received(self, channel: int, method: bytes, header: bytes, body: bytes) -> None:
        found = self._channels.get(channel)
        if found is None:
            if self._session is not None:
                self._session.content_received(method, body, self._now)
            return
        self._publishes = True
        if len(body) >= LARGE_BODY_OCTETS:
            self.turn.took(len(body))
        try:
            publish(found, method, header, body, self._now)
        except Refusal as refusal:
            raise fault_of(refusal) from refusal
        if self.container.alarm:
            self._block()

    def acknowledged(self, channel: int, delivery_tag: int, multiple: bool) -> None:
        found = self._channels.get(channel)
        if found is not None:
            settle_or_stage(found, delivery_tag, multiple, Outcome.ACKNOWLEDGED, self._now)

    def method_received(self, channel: int, method: Method) -> None:
        try:
            if channel == 0:
                self._connection_method(method)
            elif self._session is not None:
                self._peer_method(self._session, channel, method)
            elif isinstance(method, ChannelOpen):
                self._open_channel(channel)
            else:
                found = self._channels.get(channel)
                if found is not None:
                    perform(found, method, self._now)
        except Refusal as refusal:
            raise fault_of(refusal) from refusal

    def _peer_method(self, session: PeerSession, channel: int, method: Method) -> None:
        if isinstance(method, ChannelOpen):
            self.wire.send_method(channel, ChannelOpenOk())
        else:
            session.method_received(channel, method, self._now)

    def _open_channel(self, number: int) -> None:
        principal = self.login.principal
        assert principal is not None, "the wire opens no channel before connection.open"
        self.login.open_channel()
        hears = login.client_capability(self.client_properties, "consumer_cancel_notify")
        wire = self.wire
        channel = Channel(number, self.number, wire, self._dialect, principal, hears, self.turn)
        channel.connection_name = login.connection_name(self.client_properties)
        self._channels[number] = channel
        self.container.channels_opened += 1
        self.wire.send_method(number, ChannelOpenOk())

    def channel_ended(self, channel: int, fault: ChannelFault | None) -> None:
        if fault is not None:
            self.noting.warn(kind_of(fault), str(fault), {"channel": channel})
        ended = self._channels.pop(channel, None)
        if ended is not None:
            self.login.channel_ended()
            ended.ended(self._now)

    def connection_ended(self, fault: ConnectionFault | None) -> None:
        if self.ended:
            return
        self.ended = True
        self.noting.closed("" if fault is None else str(fault), bool(fault and fault.from_peer))
        if self._held is not None:
            self.container.admission.drop(self._held)
        session, self._session = self._session, None
        if session is not None:
            session.ended("closed by the peer" if fault is None else fault.reply_text(), self._now)
        # A commit that was being prepared is rolled back: none of it was visible.
        work = self.turn.work
        self.turn.work = None
        if work is not None:
            work.roll_back()
        self._blocked = False
        # Otherwise the peer's close-ok would stay unread.
        self.input_pause.resume(ALARM | LOGIN)
        channels = list(self._channels.values())
        self._channels.clear()
        failure = end_all(channels, self._now)
        self.login.end(self._now)
        if failure is not None:
            raise failure

    # The handshake.

    def _connection_method(self, method: Method) -> None:
        if isinstance(method, ConnectionStartOk):
            self._log_in(method)
        elif isinstance(method, ConnectionSecureOk):
            self._respond(method.response)
        elif isinstance(method, ConnectionTuneOk):
            self.wire.tuned(method.channel_max, method.frame_max, method.heartbeat)
        elif isinstance(method, ConnectionOpen):
            self._open(method.virtual_host)
        elif isinstance(method, ConnectionUpdateSecret):
            self.login.renew(method.new_secret, self._now)
            self.wire.send_method(0, ConnectionUpdateSecretOk())

    def _log_in(self, method: ConnectionStartOk) -> None:
        self.client_properties = method.client_properties
        mechanism = self.login.mechanism(method.mechanism)
        if mechanism is None:
            raise login.not_offered(method.mechanism, self.login.offered())
        try:
            self.login.begin(mechanism, method.response, self._now)
        except Malformed as error:
            raise login.malformed(mechanism.name, error) from error

    def _respond(self, response: bytes) -> None:
        if self.login.user:
            # The client has seen the last word of its mechanism.
            login.tune(self.wire, self.login, self.container.peers)
            return
        try:
            self.login.respond(response, self._now)
        except Malformed as error:
            raise login.malformed(self.login.mechanism_name, error) from error

    def login_challenged(self, challenge: bytes, now: int) -> None:
        self._now = now
        self.wire.send_method(0, ConnectionSecure(challenge))

    def login_accepted(self, now: int) -> None:
        self._now = now
        if self.login.server_final:
            self.wire.send_method(0, ConnectionSecure(self.login.server_final))
        else:
            login.tune(self.wire, self.login, self.container.peers)

    def login_refused(self, now: int) -> None:
        self._now = now
        fault = login.refusal(self.login.mechanism_name, self.login.peer_reason)
        login.deny(self.wire, self.client_properties, fault)

    def login_postponed(self, now: int) -> None:
        self._now = now
        postponement = login.postponement(self.login.postponed_reason)
        login.deny(self.wire, self.client_properties, postponement)

    def login_expired(self, now: int) -> None:
        self._now = now
        self.wire.close(ConnectionFault(ACCESS_REFUSED, LOGIN_EXPIRED))

    def _open(self, vhost: str) -> None:
        peers = self.container.peers
        if self.login.is_peer and peers is not None:
            self.wire.send_method(0, ConnectionOpenOk())
            self._session = peers.opened(self.wire, self._peer, self._now)
            self.turn.is_exempt = True
            return
        self._wanted_vhost = vhost
        admission = self.container.admission
        if admission.is_clustered:
            reason = admission.why_refused(self.client_properties)
            if reason:
                raise NotAllowed(reason)
            self._held = OpeningClient(self, self.number)
            self.wire.is_answer_withheld = not admission.may_open(self._held, self._now)
        if not self.wire.is_answer_withheld:
            self._answer_open(vhost)

    def admit(self, now: int) -> None:
        self._now = now
        self.wire.is_answer_withheld = False
        try:
            self._answer_open(self._wanted_vhost)
        except ConnectionFault as fault:
            self.wire.close(fault)

    def _answer_open(self, vhost: str) -> None:
        try:
            self.login.open_vhost(vhost, login.connection_name(self.client_properties))
        except Refusal as refusal:
            # Whatever the reason, the client cannot go on without a virtual host.
            raise fault_of(NotAllowed(refusal.text)) from refusal
        self.wire.send_method(0, ConnectionOpenOk())


class ConnectionDrain(DrainListener):
    """Tells a connection's consumers that its socket has room again."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection = connection

    def drained(self) -> None:
        self._connection.touch_queues()


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
