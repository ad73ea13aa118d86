"""A client that works in transactions."""

from __future__ import annotations

from penstock.broker.queues.message_queue import MessageQueue
from penstock.wire.amqp10.performatives_generated import (
    Attach,
    Coordinator,
    Data,
    Declare,
    Declared,
    Discharge,
    Rejected,
    Source,
    TransactionalState,
    Transfer,
)
from penstock.wire.amqp10.sending import SendingLink, SentDelivery
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED, Session
from penstock.wire.amqp10.values import Composite
from tests.dialects.amqp10.doubles import (
    Delivery,
    House,
    KeepingSender,
    Peer,
    Producer,
    Receiver,
)


class Tagged(SentDelivery):
    def __init__(self, tag: bytes) -> None:
        super().__init__()
        self.tag = tag


class Controller:
    """A client's link to the coordinator."""

    def __init__(
        self,
        peer: Peer,
        session: Session,
        name: str = "coordinator",
        outcomes: list[str] | None = None,
    ) -> None:
        self.peer = peer
        self.session = session
        self.listener = KeepingSender()
        attach = Attach(source=Source(outcomes=outcomes), target=Coordinator())
        self.link: SendingLink = peer.wire.attach_sender(session, name, self.listener, attach)
        self._count = 0
        peer.house.settle()

    def put(self, request: Composite) -> bytes:
        """Said, and not yet carried to the node."""
        self._count += 1
        tag = b"%d" % self._count
        self.link.send(Tagged(tag), b"", b"\x00\x53\x77" + request.encode())
        return tag

    def ask(self, request: Composite) -> Composite | None:
        tag = self.put(request)
        self.peer.house.settle()
        return self.listener.outcomes.get(tag)

    def declare(self) -> bytes:
        declared = self.ask(Declare())
        assert isinstance(declared, Declared)
        return declared.txn_id

    def commit(self, txn_id: bytes) -> str:
        return said(self.ask(Discharge(txn_id)))

    def rollback(self, txn_id: bytes) -> str:
        return said(self.ask(Discharge(txn_id, True)))


def said(outcome: Composite | None) -> str:
    """The outcome's name, or the condition for which it was rejected."""
    if isinstance(outcome, Rejected):
        assert outcome.error is not None
        return outcome.error.condition
    return "" if outcome is None else outcome.wire_name()


def post(sender: Producer, txn_id: bytes, *bodies: bytes, head: bytes = b"") -> list[bytes]:
    """Unsettled; said, and not yet carried to the node. Returns the tags."""
    tags: list[bytes] = []
    for body in bodies:
        sent = Tagged(b"%s %d" % (txn_id, sender.link.delivery_count))
        transfer = Transfer(delivery_tag=sent.tag, settled=False, state=TransactionalState(txn_id))
        sender.link.send_again(sent, transfer, head + Data(body).encode())
        tags.append(sent.tag)
    return tags


def post_settled(sender: Producer, txn_id: bytes, body: bytes) -> None:
    transfer = Transfer(delivery_tag=b"t", settled=True, state=TransactionalState(txn_id))
    sender.link.send_as(transfer, Data(body).encode())


def retire(
    receiver: Receiver,
    txn_id: bytes,
    delivery: Delivery,
    outcome: Composite | None = OUTCOME_ACCEPTED,
    settled: bool = False,
) -> None:
    state = TransactionalState(txn_id, outcome)
    if settled:
        receiver.session.settle(delivery.id, delivery.id, state)
    else:
        receiver.session.say_state(delivery.id, delivery.id, state)
    receiver.peer.house.settle()


def bodies(queue: MessageQueue) -> list[bytes]:
    return [entry.message.body[5:] for entry in queue.browse(1000)]


class Scene:
    """A queue, a peer with one session, and everything on it."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.queue = house.declare("q")
        self.peer = house.connect()
        self.session = self.peer.begin()
        self.controller = Controller(self.peer, self.session)
        self.sender = self.peer.sender(self.session, "/queues/q")

    def receiver(self, credit: int = 100, source: Source | None = None) -> Receiver:
        return self.peer.receiver(self.session, "/queues/q", credit=credit, source=source)
