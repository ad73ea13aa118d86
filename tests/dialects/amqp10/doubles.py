"""A node without a world and AMQP 1.0 clients without sockets: the test carries the octets, and says
what time it is.
"""

from __future__ import annotations

from penstock.broker.access.users import Verification
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.topology import DeclareQueue
from penstock.dialects.amqp10.dialect import Amqp10Settings
from penstock.dialects.login_checker import LoginChecker, LoginWaiter
from penstock.dialects.mechanisms import ALL_MECHANISMS
from penstock.node.configuration import NodeConfiguration
from penstock.node.node import Node
from penstock.wire.amqp10.connection import Connection
from penstock.wire.amqp10.errors import ConnectionFault, LinkFault, SessionFault
from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.link import Link
from penstock.wire.amqp10.listener import ConnectionListener
from penstock.wire.amqp10.performatives_generated import (
    AmqpValue,
    Attach,
    Begin,
    Data,
    Header,
    Open,
    Properties,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Source,
    Target,
)
from penstock.wire.amqp10.receiving import DeliveryListener, ReceivingLink
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.sending import SendingLink, SentDelivery, SettlementListener
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED, Session
from penstock.wire.amqp10.states import Role
from penstock.wire.amqp10.values import Composite
from penstock.wire.outgoing import Outgoing
from penstock.wire.sasl import plain_response
from penstock.wire.scram import ScramClient
from penstock.world.disk import Disk
from penstock.world.network import Transport
from tests.broker.doubles import CountingEntropy


class PromptLogins(LoginChecker):
    """Checks passwords at once; without the hashing, when `good` names the one that is good."""

    def __init__(self) -> None:
        self.now = 1
        self.good: bytes | None = b"guest"

    def check(self, verification: Verification, waiter: LoginWaiter) -> None:
        if self.good is None:
            verification.run()
        else:
            verification.good = verification.password == self.good
        waiter.login_checked(verification, self.now)


class KeptTransport(Transport):
    def __init__(self) -> None:
        self.written = b""
        self.is_closed = False
        self.is_reading = True
        self.is_hung_up = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def has_hung_up(self) -> bool:
        return self.is_hung_up

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def take(self) -> bytes:
        written, self.written = self.written, b""
        return written


class Delivery:
    """What a receiver of ours got."""

    def __init__(
        self, delivery_id: int, tag: bytes, payload: bytes, settled: bool, resumed: bool
    ) -> None:
        self.id = delivery_id
        self.tag = tag
        self.payload = payload
        self.settled = settled
        self.resumed = resumed
        self.state: Composite | None = None

    @property
    def sections(self) -> Sections:
        return Sections(self.payload)

    @property
    def body(self) -> bytes:
        data = self.sections.decode(0x75)
        assert isinstance(data, Data)
        return data.value

    @property
    def header(self) -> Header:
        header = self.sections.decode(0x70)
        return header if isinstance(header, Header) else Header()

    @property
    def annotations(self) -> dict[object, object]:
        found = self.sections.decode(0x72)
        return {} if found is None else found.value  # type: ignore[attr-defined]


class KeepingReceiver(DeliveryListener):
    """Keeps what comes; settles nothing by itself."""

    def __init__(self) -> None:
        self.got: list[Delivery] = []
        self.drained_count = 0
        self.settled_tags: list[bytes] = []

    def delivery_received(
        self,
        link: ReceivingLink,
        delivery_id: int,
        tag: bytes,
        payload: bytes,
        settled: bool,
        message_format: int,
        state: Composite | None,
    ) -> None:
        link.session.taken(1)
        delivery = Delivery(delivery_id, tag, payload, settled, link.delivery_is_resumed)
        delivery.state = state
        self.got.append(delivery)

    def sender_settled(
        self, link: ReceivingLink, delivery_id: int, tag: bytes, state: Composite | None
    ) -> None:
        self.settled_tags.append(tag)

    def drained(self, link: ReceivingLink) -> None:
        self.drained_count += 1

    @property
    def bodies(self) -> list[bytes]:
        return [delivery.body for delivery in self.got]


class KeepingSender(SettlementListener):
    """Keeps what became of each delivery, by tag."""

    def __init__(self) -> None:
        self.outcomes: dict[bytes, Composite | None] = {}
        self.settled: set[bytes] = set()

    def credit_changed(self, link: SendingLink) -> None:
        """The test looks at the credit itself."""

    def delivery_updated(
        self, link: SendingLink, sent: SentDelivery, state: Composite | None, settled: bool
    ) -> None:
        self.outcomes[sent.delivery_tag()] = state
        if settled:
            self.settled.add(sent.delivery_tag())


class Peer(ConnectionListener):
    """A client of the node."""

    def __init__(
        self,
        house: House,
        container_id: str,
        mechanism: str,
        hostname: str,
        password: str,
        limits: Limits,
    ) -> None:
        self.house = house
        self.transport = KeptTransport()  # the node's side
        self._sent = KeptTransport()
        self._flush_list: list[Outgoing] = []
        self.wire = Connection(
            Role.CLIENT, self, Outgoing(self._flush_list, self._sent), limits, container_id
        )
        self.mechanism = mechanism
        self.password = password
        self.hostname = hostname
        connection = house.node.connected(
            self.transport, "127.0.0.1", house.is_on_loopback, house.now
        )
        assert connection is not None
        self.connection = connection
        self.mechanisms: list[str] = []
        self.opened: Open | None = None
        self.attached: dict[Link, Attach] = {}
        self.link_faults: list[tuple[str, str, bool]] = []
        self.session_faults: list[str] = []
        self.connection_fault: str | None = None
        self.is_over = False
        self.scram = ScramClient("guest", password, "client-nonce")
        self.server_final = b""
        # Without a mechanism it comes without a SASL layer.
        self.wire.start(mechanism != "")
        self._says_open = mechanism == ""

    # What its wire says.

    def sasl_received(self, frame: Composite) -> None:
        if isinstance(frame, SaslMechanisms):
            self.mechanisms = frame.sasl_server_mechanisms
            response = plain_response("guest", self.password)
            if self.mechanism == "SCRAM-SHA-256":
                response = self.scram.start()
            has_response = self.mechanism in {"PLAIN", "SCRAM-SHA-256"}
            self.wire.send_sasl(SaslInit(self.mechanism, response if has_response else None))
        elif isinstance(frame, SaslChallenge):
            self.wire.send_sasl(SaslResponse(self.scram.answer(frame.challenge)))
        elif isinstance(frame, SaslOutcome) and frame.code == 0:
            self.server_final = frame.additional_data or b""
            self._says_open = True

    def open_received(self, opened: Open) -> None:
        self.opened = opened

    def session_begun(self, session: Session, begin: Begin) -> None: ...

    def link_attached(self, session: Session, link: Link, attach: Attach) -> None:
        self.attached[link] = attach

    def link_ended(
        self, session: Session, link: Link, fault: LinkFault | None, closed: bool
    ) -> None:
        self.link_faults.append((link.name, "" if fault is None else fault.condition, closed))

    def session_ended(self, session: Session, fault: SessionFault | None) -> None:
        self.session_faults.append("" if fault is None else fault.condition)

    def connection_ended(self, fault: ConnectionFault | None) -> None:
        self.is_over = True
        self.connection_fault = "" if fault is None else fault.condition

    # What the test says.

    _says_open = False

    def said(self) -> bytes:
        if self._says_open:
            self._says_open = False
            self.wire.open(self.hostname or None)
        while self._flush_list:
            self._flush_list.pop().flush()
        return self._sent.take()

    def begin(self) -> Session:
        session = self.wire.begin()
        self.house.settle()
        return session

    def sender(
        self,
        session: Session,
        address: str | None,
        name: str = "sender",
        target: Target | None = None,
        unsettled: dict[bytes, Composite | None] | None = None,
        rcv_settle_mode: int = 0,
        properties: dict[str, object] | None = None,
    ) -> Producer:
        listener = KeepingSender()
        link = self.wire.attach_sender(
            session,
            name,
            listener,
            Attach(
                source=Source(),
                target=target or Target(address),
                unsettled=unsettled,
                rcv_settle_mode=rcv_settle_mode,
                properties=properties,
            ),
        )
        self.house.settle()
        return Producer(self, session, link, listener)

    def receiver(
        self,
        session: Session,
        address: str | None,
        name: str = "receiver",
        credit: int = 100,
        source: Source | None = None,
        unsettled: dict[bytes, Composite | None] | None = None,
        snd_settle_mode: int = 2,
        rcv_settle_mode: int = 0,
        incomplete: bool = False,
        properties: dict[str, object] | None = None,
    ) -> Receiver:
        listener = KeepingReceiver()
        link = self.wire.attach_receiver(
            session,
            name,
            listener,
            Attach(
                source=source or Source(address),
                target=Target(),
                unsettled=unsettled,
                incomplete_unsettled=incomplete,
                snd_settle_mode=snd_settle_mode,
                rcv_settle_mode=rcv_settle_mode,
                properties=properties,
            ),
        )
        link.offer(credit)
        link.flow_if_needed()
        self.house.settle()
        return Receiver(self, session, link, listener)

    def lose(self) -> None:
        """The network is gone, and nobody said a word."""
        self.house.peers.remove(self)
        self.house.node.lost(self.connection, self.house.now)
        self.house.settle()


class Producer:
    """A sending link of a peer."""

    def __init__(
        self, peer: Peer, session: Session, link: SendingLink, listener: KeepingSender
    ) -> None:
        self.peer = peer
        self.session = session
        self.link = link
        self.listener = listener

    def put(self, *bodies: bytes, settled: bool = False, head: bytes = b"") -> None:
        """Said, and not yet carried to the node."""
        for body in bodies:
            if settled:
                self.link.send_settled(head, Data(body).encode())
            else:
                self.link.send(SentDelivery(), head, Data(body).encode())

    def send(self, *bodies: bytes, settled: bool = False, head: bytes = b"") -> None:
        self.put(*bodies, settled=settled, head=head)
        self.peer.house.settle()

    @property
    def outcomes(self) -> list[str]:
        """In order of the tags."""
        found = sorted(self.listener.outcomes.items())
        return ["" if state is None else state.wire_name() for _, state in found]


class Receiver:
    """A receiving link of a peer."""

    def __init__(
        self, peer: Peer, session: Session, link: ReceivingLink, listener: KeepingReceiver
    ) -> None:
        self.peer = peer
        self.session = session
        self.link = link
        self.listener = listener

    @property
    def got(self) -> list[Delivery]:
        return self.listener.got

    @property
    def bodies(self) -> list[bytes]:
        return self.listener.bodies

    def settle(self, delivery: Delivery, outcome: Composite | None = OUTCOME_ACCEPTED) -> None:
        self.session.settle(delivery.id, delivery.id, outcome)
        self.peer.house.settle()

    def detach(self, closed: bool = True) -> None:
        self.peer.wire.detach(self.session, self.link, None, closed)
        self.peer.house.settle()


class House:
    """One node and everybody who talks to it."""

    # Whether those who connect from now on come from this machine.
    is_on_loopback = True

    def __init__(
        self,
        disk: Disk | None = None,
        settings: Amqp10Settings | None = None,
        mechanisms: tuple[str, ...] = ALL_MECHANISMS,
    ) -> None:
        self.now = 1
        self.logins = PromptLogins()
        self.node = Node(
            NodeConfiguration(
                "1.2.3",
                "a test",
                "house",
                amqp10=settings or Amqp10Settings(),
                mechanisms=mechanisms,
            ),
            CountingEntropy(),
            self.logins,
            self.now,
            0,
            disk,
        )
        self.peers: list[Peer] = []

    def connect(
        self,
        container_id: str = "client",
        mechanism: str = "PLAIN",
        hostname: str = "",
        password: str = "guest",
        limits: Limits | None = None,
    ) -> Peer:
        peer = Peer(self, container_id, mechanism, hostname, password, limits or Limits())
        self.peers.append(peer)
        self.settle()
        return peer

    def declare(self, name: str, **arguments: object) -> MessageQueue:
        named = {key.replace("_", "-"): value for key, value in arguments.items()}
        self.node.apply_to_vhost("/", DeclareQueue(name, durable=True, arguments=named), self.now)
        return self.queue(name)

    def queue(self, name: str) -> MessageQueue:
        return self.node.state.vhost("/").queues[name]

    def pass_time(self, milliseconds: int) -> None:
        self.now += milliseconds
        self.logins.now = self.now
        self.node.timers.fire_due(self.now)
        self.settle()

    def settle(self) -> None:
        """Carry everything in both directions until nobody has anything to say."""
        busy = True
        while busy:
            busy = False
            for peer in list(self.peers):
                said = peer.said()
                if said:
                    busy = True
                    peer.connection.received(said, self.now)
            while self.node.has_work():
                self.node.flush(self.now)
            for peer in list(self.peers):
                heard = peer.transport.take()
                if heard:
                    busy = True
                    peer.wire.receive(heard, self.now)


def properties_head(**fields: object) -> bytes:
    return Properties(**fields).encode()  # type: ignore[arg-type]


def value_body(value: object) -> bytes:
    return AmqpValue(value).encode()
