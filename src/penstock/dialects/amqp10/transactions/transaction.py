"""Transactions: work that takes effect together or not at all (specification part 4).

Work is enlisted as it comes and changes nothing yet. A commit first rehearses all of it: every
message is routed again and every queue asked whether it has room for all that it is to get. If
nothing is refused, all of it is applied in one synchronous step, so that no client sees half of it
and the journal has it in one batch.

Invariants
- A transaction is open, failed or discharged. A failed one has been rolled back, holds nothing, and
  waits for its discharge, which is told why.
- `Transactions.octets` is the sum over all of its transactions.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.arguments import Overflow
from penstock.broker.entry import QueueEntry
from penstock.broker.errors import Refusal, ResourceError
from penstock.broker.message import Publisher
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.timers import Timer, Timers
from penstock.dialects.amqp10.transactions.dispositions import DispositionRuns
from penstock.wire.amqp10.conditions_generated import TRANSACTION_ROLLBACK, TRANSACTION_TIMEOUT
from penstock.wire.amqp10.performatives_generated import Error, TransactionalState
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED

# Transactions of one connection that are not discharged. Clients have one per session, of which
# there are at most 64.
TRANSACTIONS_MAX: Final = 256
# Messages and outcomes in one transaction. A commit is one step during which no other client is
# served: well below a tenth of a second.
WORK_MAX: Final = 16_384
# Octets of messages that wait in all transactions of one connection: one of the largest message.
OCTETS_MAX: Final = 134_217_728
# A transaction in which nothing happens for this long is rolled back: its client has forgotten it,
# and others wait for what it holds. Long enough for slow work on one message; a third of the time
# after which RabbitMQ takes a message away from a consumer that does not acknowledge it.
IDLE_MS_MAX: Final = 600_000

_ID_SIZE: Final = 8


class Rehearsal:
    """What a commit would put into queues. Held by the commit.

    All of it must fit at once: what consumers could take meanwhile does not count.
    """

    def __init__(self, now: int) -> None:
        self._now: int = now
        self._counts: dict[MessageQueue, int] = {}
        self._sizes: dict[MessageQueue, int] = {}

    def put(self, queue: MessageQueue, size: int) -> None:
        """One more message for a queue. Raises a `Refusal` when it would be refused."""
        settings = queue.settings
        if settings.overflow is Overflow.DROP_HEAD:
            return
        if queue not in self._counts and queue.consumers.count:
            queue.dispatch(self._now)
        count = self._counts.get(queue, 0)
        total = self._sizes.get(queue, 0) + size
        if 0 <= settings.max_length <= queue.ready_count + count or (
            0 <= settings.max_length_bytes < queue.ready_bytes + total
        ):
            raise ResourceError(f"queue '{queue.name}' does not take more messages")
        self._counts[queue] = count + 1
        self._sizes[queue] = total


@mypyc_attr(allow_interpreted_subclasses=True)
class Work:
    """One thing that a transaction does. Held by its transaction until the discharge."""

    def __init__(self, octets: int) -> None:
        # The additional memory that it takes.
        self.octets: int = octets

    def rehearse(self, rehearsal: Rehearsal, publisher: Publisher, now: int) -> None:
        """Raises a `Refusal` when it cannot be done. `publisher` waits for holds on messages."""
        raise NotImplementedError

    def apply(self, now: int) -> None:
        """Do it; everything was rehearsed in the same tick."""
        raise NotImplementedError

    def undo(self, now: int) -> None:
        """Undo it after a rollback."""
        raise NotImplementedError

    def add_unsettled(self, found: list[tuple[MessageQueue, QueueEntry]]) -> None:
        """Append the entries that only the transaction holds."""


class Transaction(Timer):
    """Held by its coordinator and by the connection's `Transactions` until it is discharged."""

    def __init__(self, transactions: "Transactions", txn_id: bytes, now: int) -> None:
        super().__init__()
        self._transactions: Transactions = transactions
        self.txn_id: bytes = txn_id
        # Why it was rolled back before its discharge; None while it is open.
        self.error: Error | None = None
        # The state of every message that it is to publish; one object, so that runs are sent
        # together.
        self.accepted: TransactionalState = TransactionalState(txn_id, OUTCOME_ACCEPTED)
        # In the order in which it came.
        self._works: dict[Work, None] = {}
        # What has to be sent before the discharge is answered.
        self._dispositions: dict[DispositionRuns, None] = {}
        self._used_at: int = now
        self.is_discharged: bool = False

    def add(self, work: Work, now: int) -> None:
        """Enlist work; the transaction fails when it exceeds a limit."""
        self.add_unchecked(work, now)
        if len(self._works) > WORK_MAX:
            text = f"more than {WORK_MAX} messages and outcomes in one transaction"
            self.fail(TRANSACTION_ROLLBACK, text, now)
        elif self._transactions.octets > OCTETS_MAX:
            text = f"more than {OCTETS_MAX} bytes in the transactions of one connection"
            self.fail(TRANSACTION_ROLLBACK, text, now)

    def add_unchecked(self, work: Work, now: int) -> None:
        """For callers that cannot handle a rollback at this moment; the next `add` checks the
        limits.
        """
        assert self.error is None, "a failed transaction takes no work"
        self._works[work] = None
        self._transactions.octets += work.octets
        self._used_at = now

    def work_count(self) -> int:
        return len(self._works)

    def octets(self) -> int:
        return sum([work.octets for work in self._works])

    def says(self, dispositions: DispositionRuns) -> None:
        self._dispositions[dispositions] = None

    def fail(self, condition: str, text: str, now: int) -> None:
        """Roll back now; the discharge will be rejected with the reason."""
        if self.error is None:
            self.error = Error(condition, text)
            self.rollback(now)

    def fire(self, now: int) -> None:
        due = self._used_at + IDLE_MS_MAX
        if now < due:
            self._transactions.timers.schedule(self, due)
            return
        text = f"the transaction was idle for {IDLE_MS_MAX} milliseconds"
        self.fail(TRANSACTION_TIMEOUT, text, now)

    def commit(self, publisher: Publisher, now: int) -> None:
        """Raises a `Refusal` before anything was changed."""
        rehearsal = Rehearsal(now)
        for work in self._works:
            work.rehearse(rehearsal, publisher, now)
        for work in self._take():
            work.apply(now)
        self._tell()

    def rollback(self, now: int) -> None:
        for work in self._take():
            work.undo(now)
        self._tell()

    def _take(self) -> list[Work]:
        works = list(self._works)
        self._works.clear()
        for work in works:
            self._transactions.octets -= work.octets
        return works

    def _tell(self) -> None:
        """Send what has to be sent before the discharge is answered, and before a link ends:
        requeued entries no longer belong to the link.
        """
        waiting = list(self._dispositions)
        self._dispositions.clear()
        for dispositions in waiting:
            dispositions.flush()

    def withdraw(self, work: Work) -> None:
        """Its client gave another outcome, outside of the transaction."""
        del self._works[work]
        self._transactions.octets -= work.octets

    def add_unsettled(self, found: list[tuple[MessageQueue, QueueEntry]]) -> None:
        for work in self._works:
            work.add_unsettled(found)


class Transactions:
    """All transactions of one connection. Held by its context."""

    def __init__(self, timers: Timers) -> None:
        self.timers: Timers = timers
        self.octets: int = 0
        self._by_id: dict[bytes, Transaction] = {}
        self._count: int = 0

    def declare(self, now: int) -> Transaction:
        """Raises a `Refusal` when there are too many."""
        if len(self._by_id) >= TRANSACTIONS_MAX:
            raise ResourceError(
                f"the limit of {TRANSACTIONS_MAX} open transactions is reached; discharge one first"
            )
        self._count += 1
        txn_id = self._count.to_bytes(_ID_SIZE, "big")
        transaction = Transaction(self, txn_id, now)
        self._by_id[txn_id] = transaction
        self.timers.schedule(transaction, now + IDLE_MS_MAX)
        return transaction

    def find(self, txn_id: bytes) -> Transaction | None:
        return self._by_id.get(txn_id)

    def forget(self, transaction: Transaction) -> None:
        """It is discharged."""
        transaction.is_discharged = True
        self.timers.cancel(transaction)
        self._by_id.pop(transaction.txn_id, None)

    def rollback_all(self, now: int) -> None:
        """The connection has ended. What receivers have goes back to their links, which are still
        there to keep it.
        """
        for transaction in list(self._by_id.values()):
            self.forget(transaction)
            transaction.rollback(now)


def rollback_error(refusal: Refusal) -> Error:
    return Error(TRANSACTION_ROLLBACK, refusal.text)
