"""A client of simulated servers that speaks AMQP 1.0 and says only what its test says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.simulation.amqp10_line import Amqp10Line, LineUser
from penstock.simulation.amqp10_message import Received
from penstock.simulation.endpoint import Endpoint
from penstock.wire.amqp10.errors import ConnectionFault, LinkFault, SessionFault
from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.link import Link
from penstock.wire.amqp10.performatives_generated import (
    Accepted,
    AmqpValue,
    ApplicationProperties,
    Attach,
    Coordinator,
    Data,
    Declare,
    Declared,
    Discharge,
    Header,
    Source,
    Target,
    TransactionalState,
    Transfer,
)
from penstock.wire.amqp10.receiving import DeliveryListener, ReceivingLink
from penstock.wire.amqp10.sending import SendingLink, SentDelivery, SettlementListener
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import Composite

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.simulation.clock import VirtualClock
    from penstock.simulation.network import Network
    from tests.seeds.cluster_doubles import Cluster

CREDIT = 100


class ServedWorld(Protocol):
    """Simulated servers, and the time in which a client waits for them."""

    clock: VirtualClock
    network: Network

    def until(self, is_so: Callable[[], bool]) -> None: ...


class SentBody(SentDelivery):
    """A message, or a request to the coordinator, and its outcome."""

    def __init__(self, body: bytes = b"") -> None:
        super().__init__()
        self.body = body
        self.outcome: Composite | None = None


class Outcomes(SettlementListener):
    def credit_changed(self, link: SendingLink) -> None:
        """Whoever sends looks at it."""

    def delivery_updated(
        self, link: SendingLink, sent: SentDelivery, state: Composite | None, settled: bool
    ) -> None:
        assert isinstance(sent, SentBody)
        sent.outcome = state


class Taken(DeliveryListener):
    """What has come over one link, unsettled."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.payloads: list[bytes] = []
        self.ids: list[int] = []

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
        self.received.append(Received(payload))
        self.payloads.append(payload)
        self.ids.append(delivery_id)

    def sender_settled(
        self, link: ReceivingLink, delivery_id: int, tag: bytes, state: Composite | None
    ) -> None:
        """Of no interest here."""

    @property
    def bodies(self) -> list[bytes]:
        return [one.body for one in self.received]


class Amqp10Client(LineUser):
    """One connection with one session. Container ids are names: whoever comes back has the same."""

    def __init__(self, world: ServedWorld, name: str, server: str) -> None:
        self._world = world
        self._name = name
        self._line: Amqp10Line | None = None
        self._session: Session | None = None
        self._attached: dict[Link, Attach] = {}
        self.is_over = False
        world.network.dial(server, name, self._answered)
        world.until(lambda: self._session is not None)

    def _answered(self, endpoint: Endpoint | None) -> None:
        assert endpoint is not None
        limits = Limits(idle_ms=1000)
        self._line = Amqp10Line(self, endpoint, self._world.clock, self._name, limits)
        self._line.start()

    @property
    def line(self) -> Amqp10Line:
        assert self._line is not None
        return self._line

    @property
    def session(self) -> Session:
        assert self._session is not None
        return self._session

    # Calls from the line.

    def line_opened(self) -> None:
        self.line.wire.begin()

    def session_begun(self, session: Session) -> None:
        self._session = session

    def link_attached(self, link: Link, attach: Attach) -> None:
        self._attached[link] = attach

    def link_ended(self, link: Link, fault: LinkFault | None, closed: bool) -> None:
        assert fault is None, fault

    def session_ended(self, session: Session, fault: SessionFault | None) -> None:
        """With its connection."""

    def line_ended(self, fault: ConnectionFault | None) -> None:
        self.is_over = True

    # What the test says.

    def _answer(self, link: Link) -> Attach:
        self.line.flush()
        self._world.until(lambda: link in self._attached)
        answer = self._attached[link]
        assert answer.source is not None and answer.target is not None
        return answer

    def sender(self, name: str, target: Target | Coordinator) -> SendingLink:
        attach = Attach(source=Source(), target=target)
        link = self.line.wire.attach_sender(self.session, name, Outcomes(), attach)
        self._answer(link)
        self._world.until(lambda: link.capacity() > 0)
        return link

    def receiver(self, name: str, source: Source) -> tuple[Taken, Attach]:
        """The messages that come, and the node's attach."""
        taken = Taken()
        attach = Attach(source=source, target=Target())
        link = self.line.wire.attach_receiver(self.session, name, taken, attach)
        link.offer(CREDIT)
        link.flow_if_needed()
        return taken, self._answer(link)

    def send(self, link: SendingLink, body: bytes, **properties: object) -> SentBody:
        return self.send_payload(link, head_of(properties) + Data(body).encode(), body)

    def send_payload(self, link: SendingLink, payload: bytes, body: bytes = b"") -> SentBody:
        sent = SentBody(body)
        link.send(sent, payload, b"")
        self.line.flush()
        return sent

    def accept(self, delivery_id: int) -> None:
        self.session.settle(delivery_id, delivery_id, Accepted())
        self.line.flush()

    # Transactions.

    def ask(self, link: SendingLink, request: Declare | Discharge) -> SentBody:
        sent = SentBody()
        link.send(sent, b"", AmqpValue(request).encode())
        self.line.flush()
        return sent

    def declare(self, coordinator: SendingLink) -> bytes:
        sent = self.ask(coordinator, Declare())
        self._world.until(lambda: sent.outcome is not None)
        assert isinstance(sent.outcome, Declared)
        return sent.outcome.txn_id

    def post(self, link: SendingLink, txn_id: bytes, body: bytes) -> SentBody:
        sent = SentBody(body)
        transfer = Transfer(delivery_tag=body, settled=False, state=TransactionalState(txn_id))
        link.send_again(sent, transfer, head_of({}) + Data(body).encode())
        self.line.flush()
        return sent

    def retire(self, txn_id: bytes, delivery_id: int) -> None:
        """An acknowledgement that is part of a transaction."""
        state = TransactionalState(txn_id, Accepted())
        self.session.settle(delivery_id, delivery_id, state)
        self.line.flush()


def client_of_root(cluster: Cluster, name: str) -> Amqp10Client:
    return Amqp10Client(cluster, name, cluster.elected().name)


def head_of(properties: dict[str, object]) -> bytes:
    named: dict[object, object] = dict(properties.items())
    head = Header(durable=True).encode()
    return head + ApplicationProperties(named).encode() if properties else head
