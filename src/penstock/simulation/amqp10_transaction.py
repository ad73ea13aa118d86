"""The client's side of a transaction over AMQP 1.0: the link to the coordinator, the link
that messages are posted over, and what one transaction holds.
"""

from abc import abstractmethod

from penstock.simulation.amqp10_program import LinkUser
from penstock.simulation.amqp10_receiver_link import Holding, ReceiverLink
from penstock.simulation.amqp10_sender_link import SenderLink, SendingProgram, SentCopy
from penstock.simulation.copies import Copy
from penstock.wire.amqp10.connection import Connection
from penstock.wire.amqp10.errors import LinkFault
from penstock.wire.amqp10.performatives_generated import (
    AmqpValue,
    Attach,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Source,
    TransactionalState,
    Transfer,
)
from penstock.wire.amqp10.sending import SendingLink, SentDelivery, SettlementListener
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import Composite


class Retired:
    """A delivery whose outcome is part of a transaction."""

    def __init__(
        self, receiver: ReceiverLink, holding: Holding, outcome: Composite, *, is_late: bool
    ) -> None:
        self.receiver = receiver
        self.holding = holding
        self.outcome = outcome
        # Sent when the node had requeued the delivery: it is not part of the transaction.
        self.is_late = is_late


class OpenTransaction:
    """Held by its program from the declare to the answer to the discharge."""

    def __init__(self) -> None:
        # Empty until the coordinator has answered.
        self.txn_id = b""
        self.copies: dict[bytes, Copy] = {}
        # Those that got their provisional outcome, or do not get one.
        self.told: set[bytes] = set()
        self.retired: list[Retired] = []
        # Queues whose messages are acquired in it, with an outcome or without.
        self.acquired_from: set[str] = set()
        self.is_ending = False
        self.commits = False

    @property
    def is_open(self) -> bool:
        return bool(self.txn_id) and not self.is_ending

    @property
    def is_empty(self) -> bool:
        return not self.copies and not self.retired

    def queues(self) -> set[str]:
        """Everything that it may change."""
        found = {queue for copy in self.copies.values() for queue in copy.queues}
        found |= {retired.receiver.queue for retired in self.retired}
        return found | self.acquired_from


class TransactionOwner(SendingProgram):
    """The owner of the transactions."""

    @abstractmethod
    def declared(self, txn_id: bytes) -> None: ...

    @abstractmethod
    def discharged(self, state: Composite | None) -> None: ...

    @abstractmethod
    def abandoned(self) -> None:
        """The link to the coordinator has gone, and what was open is rolled back."""

    @abstractmethod
    def told(self, copy: Copy, state: TransactionalState) -> None: ...


class CoordinatorLink(LinkUser):
    """Held by its program."""

    def __init__(self, owner: TransactionOwner) -> None:
        super().__init__()
        self.owner = owner

    def attach(self, wire: Connection, session: Session, number: int) -> SendingLink:
        attach = Attach(source=Source(), target=Coordinator())
        name = f"{self.owner.name}.coordinator.{number}"
        return wire.attach_sender(session, name, Answered(self), attach)

    def ask(self, request: Declare | Discharge) -> bool:
        """Send a request; returns whether there was credit for it."""
        link = self.link
        assert isinstance(link, SendingLink), "a sender's own"
        if link.capacity() <= 0:
            return False
        link.send(Request(), b"", AmqpValue(request).encode())
        return True

    def detached(self, fault: LinkFault | None, closed: bool) -> None:
        self.owner.abandoned()


class Request(SentDelivery):
    """A declare or a discharge."""


class Answered(SettlementListener):
    """Receives the coordinator's answers. Held by the wire's link, for one attachment."""

    def __init__(self, user: CoordinatorLink) -> None:
        self._user = user

    def credit_changed(self, link: SendingLink) -> None:
        """Handled in the next turn."""

    def delivery_updated(
        self, link: SendingLink, sent: SentDelivery, state: Composite | None, settled: bool
    ) -> None:
        if self._user.link is not link:
            return
        if isinstance(state, Declared):
            self._user.owner.declared(state.txn_id)
        else:
            self._user.owner.discharged(state)


class PostingLink(SenderLink):
    """Held by its program; to the anonymous terminus."""

    def __init__(self, owner: TransactionOwner) -> None:
        super().__init__(owner, None)
        self._owner = owner

    def post(self, copy: Copy, txn_id: bytes, *, is_settled: bool) -> None:
        link = self.sending
        assert link is not None, "asked for its capacity before"
        payload = self._owner.head(copy) + copy.section
        state = TransactionalState(txn_id)
        transfer = Transfer(delivery_tag=copy.name, settled=is_settled, state=state)
        if is_settled:
            link.send_as(transfer, payload)
        else:
            link.send_again(SentCopy(copy, copy.name), transfer, payload)

    def updated(
        self, link: SendingLink, sent: SentCopy, state: Composite | None, settled: bool
    ) -> None:
        if self.link is not link:
            return
        if not isinstance(state, TransactionalState):
            self._owner.ledger.violated(f"{sent.copy.name!r} was answered outside: {state}")
            return
        if not settled:
            session = self._owner.session
            assert session is not None, "heard on it"
            session.settle_sent(sent.delivery_id, sent.delivery_id, state)
        self._owner.told(sent.copy, state)
