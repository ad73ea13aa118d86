"""Named doubles for the tests of the AMQP 1.0 wire: listeners that keep what they are told and play
a plain part, and a client and a server wired to each other.
"""

from __future__ import annotations

from random import Random

from penstock.wire.amqp10.connection import Connection
from penstock.wire.amqp10.decoding import Reader
from penstock.wire.amqp10.errors import ConnectionFault, Fault, LinkFault, SessionFault
from penstock.wire.amqp10.framing import (
    AMQP_FRAME,
    PROTOCOL_HEADER,
    SASL_FRAME,
    SASL_HEADER,
    encode_frame,
)
from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.link import Link
from penstock.wire.amqp10.listener import ConnectionListener
from penstock.wire.amqp10.performatives_generated import (
    Attach,
    Begin,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Source,
    Target,
    decode_composite,
)
from penstock.wire.amqp10.receiving import DeliveryListener, ReceivingLink
from penstock.wire.amqp10.sending import SendingLink, SentDelivery, SettlementListener
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.states import ConnectionState, Role
from penstock.wire.amqp10.values import Composite
from penstock.wire.outgoing import Outgoing
from penstock.wire.sasl import plain_response
from tests.wire.doubles import KeptTransport


def described(fault: Fault | None) -> tuple[str, bool] | None:
    return None if fault is None else (fault.condition, fault.from_peer)


class Calls:
    """What was told, in its order, as tuples. `raises` is raised by the next call that may."""

    def __init__(self) -> None:
        self.all: list[tuple[object, ...]] = []
        self.raises: Exception | None = None

    def add(self, *call: object) -> None:
        self.all.append(call)
        error, self.raises = self.raises, None
        if error is not None:
            raise error

    def named(self, name: str) -> list[tuple[object, ...]]:
        return [call[1:] for call in self.all if call[0] == name]


class KeepingReceiver(DeliveryListener):
    """Takes every delivery at once when `takes`; settles nothing by itself."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.takes = True

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
        if self.takes:
            link.session.taken(1)
        name = "resumed" if link.delivery_is_resumed else "delivery"
        self.calls.add(name, link.name, delivery_id, tag, payload, settled, state)

    def sender_settled(
        self, link: ReceivingLink, delivery_id: int, tag: bytes, state: Composite | None
    ) -> None:
        self.calls.add("sender_settled", link.name, delivery_id, tag, state)

    def drained(self, link: ReceivingLink) -> None:
        self.calls.add("drained", link.name)


class KeepingSender(SettlementListener):
    """Sends the messages of `waiting` whenever it may; drains when there are none."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.waiting: list[bytes] = []
        self.settled = False

    def credit_changed(self, link: SendingLink) -> None:
        self.calls.add("credit", link.name, link.credit)
        self.pump(link)

    def pump(self, link: SendingLink) -> None:
        while self.waiting and link.capacity() > 0:
            message = self.waiting.pop(0)
            if self.settled:
                link.send_settled(b"", message)
            else:
                link.send(SentDelivery(), b"", message)
        link.available = len(self.waiting)
        if not self.waiting:
            link.drained()

    def delivery_updated(
        self, link: SendingLink, sent: SentDelivery, state: Composite | None, settled: bool
    ) -> None:
        self.calls.add("updated", link.name, sent.delivery_id, sent.delivery_tag(), state, settled)


class KeepingListener(ConnectionListener):
    """Keeps every call, lets everybody in, opens and attaches whatever is asked for."""

    connection: Connection

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.receiver = KeepingReceiver(calls)
        self.sender = KeepingSender(calls)
        self.sessions: list[Session] = []
        self.links: list[Link] = []
        # False: the test answers attaches itself.
        self.answers = True

    def sasl_began(self) -> None:
        self.calls.add("sasl_began")
        self.connection.send_sasl(SaslMechanisms(["PLAIN", "ANONYMOUS"]))

    def sasl_received(self, frame: Composite) -> None:
        self.calls.add("sasl", frame)
        if isinstance(frame, SaslMechanisms):
            response = plain_response("guest", "guest")
            self.connection.send_sasl(SaslInit("PLAIN", response))
        elif isinstance(frame, SaslInit):
            self.connection.send_sasl(SaslOutcome(0))

    def open_received(self, opened: Open) -> None:
        self.calls.add("open", opened.container_id)
        if self.connection.role is Role.SERVER:
            self.connection.open(properties={"product": "double"})

    def session_begun(self, session: Session, begin: Begin) -> None:
        self.calls.add("begin", session.remote_channel)
        if session not in self.sessions:
            self.sessions.append(session)

    def link_attached(self, session: Session, link: Link, attach: Attach) -> None:
        self.calls.add("attach", link.name, link.is_receiver, attach.unsettled)
        self.links.append(link)
        if link.handle >= 0 or not self.answers:
            return
        if isinstance(link, ReceivingLink):
            link.listener = self.receiver
        elif isinstance(link, SendingLink):
            link.listener = self.sender
        answer = Attach(
            snd_settle_mode=attach.snd_settle_mode,
            rcv_settle_mode=attach.rcv_settle_mode,
            source=attach.source,
            target=attach.target,
        )
        self.connection.attach(session, link, answer)
        if isinstance(link, SendingLink) and link.credit > 0:
            self.sender.credit_changed(link)

    def link_ended(
        self, session: Session, link: Link, fault: LinkFault | None, closed: bool
    ) -> None:
        self.calls.add("link_ended", link.name, described(fault), closed)

    def session_ended(self, session: Session, fault: SessionFault | None) -> None:
        self.calls.add("session_ended", described(fault))

    def connection_ended(self, fault: ConnectionFault | None) -> None:
        self.calls.add("connection_ended", described(fault))


class Machine:
    """One connection with its listener and transport."""

    def __init__(self, role: Role, limits: Limits | None = None, sasl: bool = False) -> None:
        self.transport = KeptTransport()
        self.flush_list: list[Outgoing] = []
        self.outgoing = Outgoing(self.flush_list, self.transport)
        self.calls = Calls()
        self.listener = KeepingListener(self.calls)
        self.connection = Connection(
            role, self.listener, self.outgoing, limits or Limits(), role.value, sasl
        )
        self.listener.connection = self.connection

    def receive(self, data: bytes, now: int = 1) -> None:
        self.connection.receive(data, now)

    def hear(self, channel: int, said: Composite, payload: bytes = b"") -> None:
        self.receive(frame(channel, said, payload))

    def state(self) -> ConnectionState:
        # A call, so that a type checker does not take one state for the next.
        return self.connection.state

    def flush(self) -> bytes:
        """What the machine says now, as its world would write it."""
        for outgoing in self.flush_list:
            outgoing.flush()
        self.flush_list.clear()
        written, self.transport.written = self.transport.written, b""
        return written

    def said(self) -> list[tuple[int, Composite]]:
        """The performatives it says now, decoded, without payloads."""
        return [(channel, said) for channel, said, _ in decode_frames(self.flush())]

    def only_said(self) -> Composite:
        ((_, said),) = self.said()
        return said


def frame(channel: int, said: Composite, payload: bytes = b"") -> bytes:
    return encode_frame(AMQP_FRAME, channel, said.encode() + payload)


def sasl_frame(said: Composite) -> bytes:
    return encode_frame(SASL_FRAME, 0, said.encode())


def split_frames(data: bytes) -> list[bytes]:
    """Protocol headers and frames."""
    pieces = []
    while data:
        size = 8
        if not data.startswith(b"AMQP"):
            size = int.from_bytes(data[:4], "big")
            assert 8 <= size <= len(data)
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def decode_frames(data: bytes) -> list[tuple[int, Composite, bytes]]:
    found = []
    for piece in split_frames(data):
        if piece in {PROTOCOL_HEADER, SASL_HEADER} or len(piece) == 8:
            continue
        assert piece[4] == 2
        reader = Reader(piece, 8, len(piece))
        said = decode_composite(reader)
        found.append((int.from_bytes(piece[6:8], "big"), said, piece[reader.at :]))
    return found


def open_machine(role: Role = Role.SERVER, limits: Limits | None = None) -> Machine:
    """A machine whose connection is open, without SASL; nothing it said is pending."""
    machine = Machine(role, limits)
    if role is Role.CLIENT:
        machine.connection.start(False)
        machine.connection.open()
    machine.receive(PROTOCOL_HEADER + frame(0, Open("peer")))
    machine.flush()
    assert machine.state() is ConnectionState.OPENED
    return machine


def session_machine(limits: Limits | None = None, window: int = 1000) -> tuple[Machine, Session]:
    """A server with a session that the peer has begun on its channel 0."""
    machine = open_machine(limits=limits)
    machine.hear(0, Begin(None, 0, window, window))
    machine.flush()
    return machine, machine.listener.sessions[0]


def receiver_machine(
    limits: Limits | None = None, credit: int = 100
) -> tuple[Machine, Session, ReceivingLink]:
    """A server to which the peer sends on handle 0, with credit."""
    machine, session = session_machine(limits)
    attach = Attach("in", 0, False, source=Source("s"), target=Target("t"))
    attach.initial_delivery_count = 0
    machine.hear(0, attach)
    (link,) = machine.listener.links
    assert isinstance(link, ReceivingLink)
    link.offer(credit)
    link.flow_if_needed()
    machine.flush()
    machine.calls.all.clear()
    return machine, session, link


def sender_machine(
    limits: Limits | None = None, window: int = 1000
) -> tuple[Machine, Session, SendingLink]:
    """A server that sends to the peer on handle 0; the peer has given no credit."""
    machine, session = session_machine(limits, window)
    machine.hear(0, Attach("out", 0, True, source=Source("s"), target=Target("t")))
    (link,) = machine.listener.links
    assert isinstance(link, SendingLink)
    machine.flush()
    machine.calls.all.clear()
    return machine, session, link


class Pair:
    """A client and a server; bytes move between them in pieces that a seed chooses."""

    def __init__(
        self,
        seed: int | None = None,
        limits: Limits | None = None,
        sasl: bool = True,
        client_limits: Limits | None = None,
    ) -> None:
        self.client = Machine(Role.CLIENT, client_limits or limits)
        self.server = Machine(Role.SERVER, limits, sasl)
        self._sasl = sasl
        self._random = None if seed is None else Random(seed)
        # All that was said, for comparison between splits.
        self.client_said = b""
        self.server_said = b""

    def connect(self) -> Session:
        client = self.client.connection
        client.start(self._sasl)
        self.transfer()
        client.open("vhost:/")
        self.transfer()
        session = client.begin()
        self.transfer()
        return session

    def transfer(self) -> None:
        """Until both are silent."""
        while self.exchange():
            pass

    def exchange(self) -> bool:
        """What both have to say now; whether there was anything."""
        from_client = self.client.flush()
        from_server = self.server.flush()
        self.client_said += from_client
        self.server_said += from_server
        self._deliver(self.server, from_client)
        self._deliver(self.client, from_server)
        return bool(from_client or from_server)

    def _deliver(self, target: Machine, data: bytes) -> None:
        position = 0
        while position < len(data):
            size = len(data)
            if self._random is not None:
                # Mostly small pieces, now and then a large one.
                size = self._random.choice((1, 2, 3, 7, 8, 20, 150, 5000))
            target.receive(data[position : position + size])
            position += size
