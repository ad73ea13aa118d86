"""Outcomes of a receiver that take effect when its transaction commits (specification 4.4.2), and
messages that were acquired in one (4.4.3): they come back with a rollback.
"""

from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.errors import NotFound
from penstock.broker.message import Publisher
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.amqp10.context import ConnectionContext
from penstock.dialects.amqp10.links.deliver import Acquirer, SentEntry
from penstock.dialects.amqp10.links.outcomes import apply_outcome, give_back
from penstock.dialects.amqp10.transactions.dispositions import ReceiverDispositions
from penstock.dialects.amqp10.transactions.transaction import Rehearsal, Transaction, Work
from penstock.wire.amqp10.performatives_generated import Released, TransactionalState
from penstock.wire.amqp10.sending import SendingLink
from penstock.wire.amqp10.values import Composite

TXN_ID: Final = "txn-id"
NOTHING: Final = object()
_RELEASED: Final = Released()


class Retirement(Work):
    """The outcome that one delivery is to get.

    While its receiver has not settled it, the delivery belongs to the link as well, and a rollback
    leaves it there, unless it was acquired in the transaction. Afterwards, or when the link has
    ended, the transaction alone holds it.
    """

    def __init__(
        self,
        enlisted: "Enlisted",
        transaction: Transaction,
        sent: SentEntry,
        outcome: Composite | None,
    ) -> None:
        super().__init__(0)
        self._enlisted: Enlisted = enlisted
        self.transaction: Transaction = transaction
        # None when its receiver has not given any.
        self.outcome: Composite | None = outcome
        self._delivery_id: int = sent.delivery_id
        self._entry: QueueEntry = sent.entry
        self.is_alone: bool = False
        self.is_acquired: bool = False

    def rehearse(self, rehearsal: Rehearsal, publisher: Publisher, now: int) -> None:
        queue = self._enlisted.queue
        if queue.is_deleted:
            raise NotFound(f"queue '{queue.name}' was deleted, with its unsettled deliveries")

    def apply(self, now: int) -> None:
        enlisted = self._enlisted
        if not self.is_alone:
            enlisted.forget(self._delivery_id)
            if self.outcome is None:
                # Acquired, and from now on like any other delivery.
                return
            enlisted.dispositions.add(self._delivery_id, self.outcome)
        apply_outcome(enlisted.queue, self._entry, enlisted.holder, self.outcome, now)

    def undo(self, now: int) -> None:
        enlisted = self._enlisted
        if not self.is_alone:
            enlisted.forget(self._delivery_id)
            if not self.is_acquired:
                return
            enlisted.dispositions.add(self._delivery_id, _RELEASED)
        give_back(enlisted.queue, [self._entry], enlisted.holder, enlisted.default_outcome, now)

    def add_unsettled(self, found: list[tuple[MessageQueue, QueueEntry]]) -> None:
        if self.is_alone:
            found.append((self._enlisted.queue, self._entry))


class Enlisted:
    """Deliveries of one link whose outcomes are in transactions. Held by its `Settlement`."""

    def __init__(
        self,
        queue: MessageQueue,
        holder: int,
        default_outcome: Composite | None,
        dispositions: ReceiverDispositions,
    ) -> None:
        self.queue: MessageQueue = queue
        # The link's number; transactions settle under it also when the link has gone.
        self.holder: int = holder
        self.default_outcome: Composite | None = default_outcome
        self.dispositions: ReceiverDispositions = dispositions
        # By delivery id; only those that the receiver has not settled.
        self._retirements: dict[int, Retirement] = {}

    def is_empty(self) -> bool:
        return not self._retirements

    def has(self, delivery_id: int) -> bool:
        return delivery_id in self._retirements

    def find(self, delivery_id: int) -> Retirement | None:
        return self._retirements.get(delivery_id)

    def forget(self, delivery_id: int) -> None:
        self._retirements.pop(delivery_id, None)

    def add(
        self,
        transaction: Transaction,
        sent: SentEntry,
        outcome: Composite | None,
        settled: bool,
        now: int,
    ) -> None:
        known = self._retirements.get(sent.delivery_id)
        if known is None:
            known = Retirement(self, transaction, sent, outcome)
            known.is_alone = settled
            if not settled:
                self._retirements[sent.delivery_id] = known
            transaction.says(self.dispositions)
            transaction.add(known, now)
            return
        known.outcome = outcome
        if settled:
            self.settled(sent.delivery_id)

    def acquired(self, transaction: Transaction, sent: SentEntry, now: int) -> None:
        """A delivery was sent in a transaction; the receiver has given no outcome yet."""
        retirement = Retirement(self, transaction, sent, None)
        retirement.is_acquired = True
        self._retirements[sent.delivery_id] = retirement
        transaction.says(self.dispositions)
        # A queue is in the middle of its dispatch.
        transaction.add_unchecked(retirement, now)

    def settled(self, delivery_id: int) -> bool:
        """The receiver has settled a delivery; whether its outcome is in a transaction."""
        retirement = self._retirements.get(delivery_id)
        if retirement is None or retirement.outcome is None:
            return False
        retirement.is_alone = True
        self.forget(delivery_id)
        return True

    def withdraw(self, delivery_id: int) -> None:
        """The receiver gave another outcome outside of the transaction."""
        retirement = self._retirements.pop(delivery_id, None)
        if retirement is not None:
            retirement.transaction.withdraw(retirement)

    def leave(self) -> None:
        """The link has ended. Its transactions keep the deliveries that they have."""
        for retirement in self._retirements.values():
            retirement.is_alone = True
        self._retirements.clear()


class TransactionalAcquirer(Acquirer):
    """Held by a consumer whose receiver named a transaction in its flow."""

    def __init__(
        self, context: ConnectionContext, enlisted: Enlisted, transaction: Transaction
    ) -> None:
        self._context: ConnectionContext = context
        self._enlisted: Enlisted = enlisted
        self._transaction: Transaction = transaction
        self._state: TransactionalState = TransactionalState(transaction.txn_id)

    def is_open(self) -> bool:
        return self._transaction.error is None and not self._transaction.is_discharged

    def state(self) -> Composite:
        return self._state

    def acquired(self, sent: SentEntry) -> None:
        self._enlisted.acquired(self._transaction, sent, self._context.now)


def txn_id_of(link: SendingLink) -> object:
    """What the last flow says about the transaction in which messages are to be acquired: an id, or
    null for none; `NOTHING` when it says nothing.
    """
    properties = link.flow_properties
    link.flow_properties = None
    if properties is None or TXN_ID not in properties:
        return NOTHING
    return properties[TXN_ID]
