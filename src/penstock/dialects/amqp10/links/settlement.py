"""The dispositions of receivers, and their answers.

An outcome is applied when it arrives, or enlisted when it is part of a transaction. A delivery that
is settled without one has the source's default outcome; released where it has none.
"""

from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.amqp10.context import ConnectionContext
from penstock.dialects.amqp10.links.deliver import LinkConsumer, SentEntry
from penstock.dialects.amqp10.links.outcomes import apply_outcome, give_back, is_final
from penstock.dialects.amqp10.links.retirement import (
    NOTHING,
    Enlisted,
    TransactionalAcquirer,
    txn_id_of,
)
from penstock.dialects.amqp10.transactions.dispositions import ReceiverDispositions
from penstock.dialects.turn import REJECTED_UNITS
from penstock.wire.amqp10.conditions_generated import (
    NOT_IMPLEMENTED,
    TRANSACTION_ROLLBACK,
    TRANSACTION_UNKNOWN_ID,
)
from penstock.wire.amqp10.errors import LinkFault
from penstock.wire.amqp10.performatives_generated import Received, Released, TransactionalState
from penstock.wire.amqp10.sending import SendingLink, SentDelivery, SettlementListener
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import Composite

_RELEASED: Final = Released()


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
        self._queue: MessageQueue = consumer.queue
        self._default_outcome: Composite | None = default_outcome
        self.enlisted: Enlisted = Enlisted(
            consumer.queue,
            consumer.holder,
            default_outcome,
            ReceiverDispositions(session, context.container.answer_list),
        )

    def credit_changed(self, link: SendingLink) -> None:
        if link.flow_properties is not None:
            self._acquire_in(txn_id_of(link))
        self._consumer.pump()

    def deliveries_accepted(self, link: SendingLink, accepted: list[SentDelivery]) -> None:
        entries: list[QueueEntry] = []
        for sent in accepted:
            assert isinstance(sent, SentEntry), "this link sends nothing else"
            entries.append(sent.entry)
        if not self.enlisted.is_empty():
            for sent in accepted:
                self.enlisted.withdraw(sent.delivery_id)
        self._queue.acknowledge_many(entries, self._consumer.holder)
        if self._consumer.link.is_draining:
            self._consumer.drain.listed()

    def delivery_updated(
        self, link: SendingLink, sent: SentDelivery, state: Composite | None, settled: bool
    ) -> None:
        assert isinstance(sent, SentEntry), "this link sends nothing else"
        if isinstance(state, TransactionalState):
            self._enlist(sent, state, settled)
            return
        if state is None or isinstance(state, Received):
            if not settled or self.enlisted.settled(sent.delivery_id):
                return
            state = self._default_outcome
        self.enlisted.withdraw(sent.delivery_id)
        self._context.turn.charge(REJECTED_UNITS)
        self._apply(sent.entry, state)
        if settled:
            return
        # The receiver settles second: it waits for our settlement first, which must be durable.
        if self._queue.journals(sent.entry.message):
            self._context.container.hold_until_durable(self._context.outgoing)
        self._session.settle_sent(sent.delivery_id, sent.delivery_id, state)

    def _apply(self, entry: QueueEntry, outcome: Composite | None) -> None:
        apply_outcome(self._queue, entry, self._consumer.holder, outcome, self._context.now)

    def _enlist(self, sent: SentEntry, state: TransactionalState, settled: bool) -> None:
        """The outcome takes effect when the transaction commits."""
        now = self._context.now
        transaction = self._context.transactions.find(state.txn_id)
        if transaction is None or transaction.error is not None:
            if settled:
                self.enlisted.withdraw(sent.delivery_id)
                self._give_back(sent, now)
            if transaction is None:
                text = f"unknown transaction {state.txn_id.hex()}"
                raise LinkFault(TRANSACTION_UNKNOWN_ID, text)
            return
        outcome = state.outcome
        if not is_final(outcome):
            if not settled:
                return
            outcome = self._default_outcome or _RELEASED
        known = self.enlisted.find(sent.delivery_id)
        if known is None or known.transaction is transaction:
            self.enlisted.add(transaction, sent, outcome, settled, now)
            return
        text = "the delivery is already part of another transaction"
        known.transaction.fail(TRANSACTION_ROLLBACK, text, now)
        transaction.fail(TRANSACTION_ROLLBACK, text, now)
        if settled and not known.is_acquired:
            # Otherwise the rollback has requeued it.
            self._give_back(sent, now)

    def _give_back(self, sent: SentEntry, now: int) -> None:
        holder = self._consumer.holder
        give_back(self._queue, [sent.entry], holder, self._default_outcome, now)

    def _acquire_in(self, txn_id: object) -> None:
        """The receiver's flow named a transaction for what is sent from now on, or none."""
        consumer = self._consumer
        if txn_id is NOTHING:
            return
        if txn_id is None:
            consumer.acquirer = None
            return
        if consumer.takes_ownership or self._queue.keeps_messages:
            text = "transactional acquisition needs a queue and unsettled deliveries"
            raise LinkFault(NOT_IMPLEMENTED, text)
        transaction = self._context.transactions.find(txn_id) if isinstance(txn_id, bytes) else None
        if transaction is None:
            raise LinkFault(TRANSACTION_UNKNOWN_ID, f"unknown transaction {txn_id!r}")
        consumer.acquirer = TransactionalAcquirer(self._context, self.enlisted, transaction)
