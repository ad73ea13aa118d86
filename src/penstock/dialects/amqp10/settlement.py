"""What becomes of a delivery when its receiver has decided.

    outcome                             the queue
    accepted                            forgets it
    rejected                            dead-letters it, or drops it
    released                            has it back in its place, nothing counted
    modified, delivery-failed           has it back, one more failed delivery
    modified, undeliverable-here        dead-letters it as if rejected, as RabbitMQ does
    modified, neither                   has it back, nothing counted
    none, but settled                   the source's default outcome; released where it has none

Annotations of modified whose names begin with `x-` are put on the message.
"""

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message
from penstock.broker.names import NAME_OCTETS_MAX
from penstock.broker.queues.queue import Queue
from penstock.broker.streams.stream import Stream
from penstock.dialects.amqp10.context import ConnectionContext
from penstock.dialects.amqp10.deliver import LinkConsumer, SentEntry
from penstock.dialects.amqp10.neutral_values import to_neutral
from penstock.wire.amqp10.conditions_generated import NOT_IMPLEMENTED
from penstock.wire.amqp10.errors import LinkFault
from penstock.wire.amqp10.performatives_generated import (
    Accepted,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
)
from penstock.wire.amqp10.sending import SendingLink, Sent, SettlementListener
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import Composite


class Settlement(SettlementListener):
    """Held by the wire link of a `SourceEnd`."""

    def __init__(
        self,
        context: ConnectionContext,
        session: Session,
        consumer: LinkConsumer,
        default_outcome: Composite | None,
    ) -> None:
        self._context: ConnectionContext = context
        self._session: Session = session
        self._consumer: LinkConsumer = consumer
        self._queue: Queue = consumer.queue
        self._default_outcome: Composite | None = default_outcome

    def credit_changed(self, link: SendingLink) -> None:
        self._consumer.pump()

    def deliveries_accepted(self, link: SendingLink, accepted: list[Sent]) -> None:
        entries: list[QueueEntry] = []
        for sent in accepted:
            assert isinstance(sent, SentEntry), "this link sends nothing else"
            entries.append(sent.entry)
        self._queue.acknowledge_many(entries)
        if self._consumer.link.is_draining:
            self._consumer.drain.listed()

    def delivery_updated(
        self, link: SendingLink, sent: Sent, state: Composite | None, settled: bool
    ) -> None:
        assert isinstance(sent, SentEntry), "this link sends nothing else"
        if isinstance(state, TransactionalState):
            raise LinkFault(NOT_IMPLEMENTED, "transactions are not supported")
        if state is None or isinstance(state, Received):
            if not settled:
                return
            state = self._default_outcome
        self._apply(sent.entry, state)
        if settled:
            return
        # The receiver settles second: it waits for us to forget the delivery first, and that
        # must be true also after a power loss.
        if self._queue.journal is not None and sent.entry.message.properties.persistent:
            self._context.container.gate(self._context.outgoing)
        self._session.settle_sent(sent.delivery_id, sent.delivery_id, state)

    def _apply(self, entry: QueueEntry, outcome: Composite | None) -> None:
        apply_outcome(self._queue, entry, outcome, self._context.now)


def apply_outcome(queue: Queue, entry: QueueEntry, outcome: Composite | None, now: int) -> None:
    if isinstance(outcome, Accepted):
        queue.acknowledge(entry)
    elif isinstance(outcome, Rejected):
        queue.reject(entry, now)
    elif isinstance(outcome, Modified):
        if outcome.message_annotations and not isinstance(queue, Stream):
            entry.message = _annotated(entry.message, outcome.message_annotations)
        if outcome.undeliverable_here:
            queue.reject(entry, now)
        else:
            queue.requeue([entry], now, outcome.delivery_failed is True)
    else:
        queue.requeue([entry], now, False)


def is_final(state: Composite | None) -> bool:
    """Whether a delivery state is an outcome."""
    return isinstance(state, (Accepted, Rejected, Released, Modified))


def _annotated(message: Message, annotations: dict[object, object]) -> Message:
    """The same message with more annotations. They are not written down again: after a restart it
    has those that it came with.
    """
    headers = dict(message.properties.headers())
    for key, value in annotations.items():
        if isinstance(key, str) and key.startswith("x-") and len(key) <= NAME_OCTETS_MAX:
            headers[str(key)] = to_neutral(value)
    properties = message.properties.rewritten(headers, drop_expiration=False)
    annotated = Message(message.address, properties, message.body, message.origin)
    annotated.location = message.location
    annotated.is_journalled = message.is_journalled
    return annotated
