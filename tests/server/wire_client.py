"""An AMQP 1.0 client of our own wire over a blocking socket: every call waits for its answer."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Self

from penstock.wire.amqp10.connection import Connection
from penstock.wire.amqp10.errors import ConnectionFault, LinkFault, SessionFault
from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.link import RCV_SECOND, Link
from penstock.wire.amqp10.listener import ConnectionListener
from penstock.wire.amqp10.performatives_generated import (
    DATA,
    HEADER,
    AmqpValue,
    Attach,
    Begin,
    Coordinator,
    Data,
    Declare,
    Declared,
    Discharge,
    Header,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Source,
    Target,
    TransactionalState,
    Transfer,
)
from penstock.wire.amqp10.receiving import DeliveryListener, ReceivingLink
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.sending import SendingLink, SentDelivery, SettlementListener
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED, Session
from penstock.wire.amqp10.states import Role
from penstock.wire.amqp10.values import Composite
from penstock.wire.outgoing import Outgoing
from penstock.wire.sasl import plain_response
from penstock.world.network import Transport

DURABLE = Header(durable=True, first_acquirer=True).encode()


class Gone(Exception):
    """The server is not there any more."""


class SocketTransport(Transport):
    def __init__(self, raw: socket.socket) -> None:
        self._raw = raw

    def write(self, data: bytes) -> None:
        try:
            self._raw.sendall(data)
        except OSError as error:
            raise Gone from error

    def close(self) -> None:
        self._raw.close()

    def abort(self) -> None:
        self._raw.close()

    def pause_reading(self) -> None:
        """Reading is up to who waits."""

    def resume_reading(self) -> None:
        """Reading is up to who waits."""


class Delivery:
    def __init__(self, delivery_id: int, payload: bytes) -> None:
        self.id = delivery_id
        self.payload = payload
        header = Sections(payload).decode(HEADER)
        self.is_redelivered = not (isinstance(header, Header) and header.first_acquirer)

    @property
    def body(self) -> bytes:
        """Of a message with a single section of data."""
        data = Sections(self.payload).decode(DATA)
        assert isinstance(data, Data)
        return data.value


class Received(DeliveryListener):
    """What has come and is not asked for yet, and which deliveries the server has settled."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.settled: set[int] = set()

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
        self.deliveries.append(Delivery(delivery_id, payload))

    def sender_settled(
        self, link: ReceivingLink, delivery_id: int, tag: bytes, state: Composite | None
    ) -> None:
        self.settled.add(delivery_id)


class Outcomes(SettlementListener):
    def __init__(self) -> None:
        self.states: dict[int, Composite | None] = {}

    def credit_changed(self, link: SendingLink) -> None:
        """Looked at by who sends."""

    def delivery_updated(
        self, link: SendingLink, sent: SentDelivery, state: Composite | None, settled: bool
    ) -> None:
        self.states[sent.delivery_id] = state


class WireClient(ConnectionListener):
    """One connection with one session. Raises `Gone` when the server is."""

    def __init__(self, port: int, container: str, patience: float) -> None:
        self._patience = patience
        self._flush_list: list[Outgoing] = []
        self._raw = connected(port, patience)
        self._is_logged_in = False
        self._is_open = False
        self._attached: set[Link] = set()
        self.fault: str = ""
        transport = SocketTransport(self._raw)
        self.wire = Connection(
            Role.CLIENT, self, Outgoing(self._flush_list, transport), Limits(), container
        )
        self._tag = 0

    def __enter__(self) -> Self:
        try:
            self.wire.start(True)
            self._wait(lambda: self._is_logged_in)
            self.wire.open(None)
            self._wait(lambda: self._is_open)
            self.session: Session = self.wire.begin()
            self._wait(lambda: self.session.remote_channel >= 0)
        except Gone:
            self._raw.close()
            raise
        return self

    def __exit__(self, *why: object) -> None:
        self._raw.close()

    def _wait(self, is_done: Callable[[], bool]) -> None:
        """Carry octets until then."""
        deadline = time.monotonic() + self._patience
        self._flush()
        while not is_done():
            assert time.monotonic() < deadline, "the server does not answer"
            try:
                data = self._raw.recv(65_536)
            except OSError as error:
                raise Gone from error
            if not data:
                raise Gone
            self.wire.receive(data, int(time.monotonic() * 1000))
            assert not self.fault, self.fault
            self._flush()

    def _flush(self) -> None:
        while self._flush_list:
            self._flush_list.pop().flush()

    # What the wire says.

    def sasl_received(self, frame: Composite) -> None:
        if isinstance(frame, SaslMechanisms):
            self.wire.send_sasl(SaslInit("PLAIN", plain_response("guest", "guest")))
        elif isinstance(frame, SaslOutcome):
            self._is_logged_in = frame.code == 0

    def open_received(self, opened: Open) -> None:
        self._is_open = True

    def session_begun(self, session: Session, begin: Begin) -> None:
        """Waited for."""

    def link_attached(self, session: Session, link: Link, attach: Attach) -> None:
        self._attached.add(link)

    def link_ended(
        self, session: Session, link: Link, fault: LinkFault | None, closed: bool
    ) -> None:
        self.fault = f"{link.name}: {fault}"

    def session_ended(self, session: Session, fault: SessionFault | None) -> None:
        self.fault = f"session: {fault}"

    def connection_ended(self, fault: ConnectionFault | None) -> None:
        if fault is not None and fault.from_peer:
            self.fault = f"connection: {fault}"

    # Links.

    def sender(self, address: str | None) -> SendingLink:
        return self._attach_sender(f"to {address}", Target(address))

    def coordinator(self) -> SendingLink:
        return self._attach_sender("coordinator", Coordinator())

    def _attach_sender(self, name: str, target: Composite) -> SendingLink:
        attach = Attach(source=Source(), target=target)
        link = self.wire.attach_sender(self.session, name, Outcomes(), attach)
        self._wait(lambda: link in self._attached and link.credit > 0)
        return link

    def receiver(self, address: str, credit: int) -> ReceivingLink:
        """It tells its outcome, and the server settles when that is safe."""
        attach = Attach(source=Source(address), target=Target(), rcv_settle_mode=RCV_SECOND)
        link = self.wire.attach_receiver(self.session, f"from {address}", Received(), attach)
        self._wait(lambda: link in self._attached)
        link.offer(credit)
        link.flow_if_needed()
        return link

    # Messages.

    def send(self, link: SendingLink, body: bytes) -> Composite | None:
        """Returns the outcome."""
        return self.send_payload(link, DURABLE, Data(body).encode())

    def send_payload(self, link: SendingLink, header: bytes, rest: bytes) -> Composite | None:
        """A message as octets; returns the outcome."""
        sent = SentDelivery()
        self._wait(lambda: link.capacity() > 0)
        link.send(sent, header, rest)
        return self._outcome(link, sent)

    def _outcome(self, link: SendingLink, sent: SentDelivery) -> Composite | None:
        states = outcomes_of(link).states
        self._wait(lambda: sent.delivery_id in states)
        return states.pop(sent.delivery_id)

    def receive(self, link: ReceivingLink) -> Delivery:
        received = received_of(link)
        link.flow_if_needed()
        self._wait(lambda: bool(received.deliveries))
        return received.deliveries.pop(0)

    def accept(self, link: ReceivingLink, delivery: Delivery) -> None:
        """Returns when the server has settled."""
        self.session.say_state(delivery.id, delivery.id, OUTCOME_ACCEPTED)
        settled = received_of(link).settled
        self._wait(lambda: delivery.id in settled)

    # Transactions.

    def declare(self, coordinator: SendingLink) -> bytes:
        declared = self._ask(coordinator, Declare())
        assert isinstance(declared, Declared)
        return declared.txn_id

    def discharge(self, coordinator: SendingLink, txn_id: bytes, *, fails: bool) -> str:
        outcome = self._ask(coordinator, Discharge(txn_id, fails))
        return "" if outcome is None else outcome.wire_name()

    def _ask(self, coordinator: SendingLink, request: Declare | Discharge) -> Composite | None:
        sent = SentDelivery()
        self._wait(lambda: coordinator.capacity() > 0)
        coordinator.send(sent, b"", AmqpValue(request).encode())
        return self._outcome(coordinator, sent)

    def post(self, link: SendingLink, txn_id: bytes, body: bytes) -> None:
        self._tag += 1
        sent = SentDelivery()
        sent.tag = b"%d" % self._tag
        transfer = Transfer(delivery_tag=sent.tag, settled=False, state=TransactionalState(txn_id))
        self._wait(lambda: link.capacity() > 0)
        link.send_again(sent, transfer, DURABLE + Data(body).encode())

    def retire(self, txn_id: bytes, delivery: Delivery) -> None:
        state = TransactionalState(txn_id, OUTCOME_ACCEPTED)
        self.session.say_state(delivery.id, delivery.id, state)


def connected(port: int, patience: float) -> socket.socket:
    try:
        return socket.create_connection(("127.0.0.1", port), patience)
    except OSError as error:
        raise Gone from error


def outcomes_of(link: SendingLink) -> Outcomes:
    assert isinstance(link.listener, Outcomes)
    return link.listener


def received_of(link: ReceivingLink) -> Received:
    assert isinstance(link.listener, Received)
    return link.listener
