"""The coordinator: the node to which clients declare and discharge transactions.

    the client sends            the answer
    declare                     declared, with the id of a new transaction
    discharge                   accepted when everything is done and durable
    discharge, fail             accepted when everything is rolled back
    an invalid request          rejected with the reason

A discharge that is rejected has rolled back. A transaction may be used in all sessions of its
connection and is discharged where it was declared; it ends with its link to the coordinator.
"""

from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.errors import Refusal
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.amqp10.context import ConnectionContext
from penstock.dialects.amqp10.faults import condition_of
from penstock.dialects.amqp10.links.link_end import LinkEnd, Parting
from penstock.dialects.amqp10.transactions.transaction import Transaction, rollback_error
from penstock.dialects.commit_answer import CommitAnswer
from penstock.dialects.turn import ENQUEUED_PER_UNIT
from penstock.formats.octets import Malformed
from penstock.wire.amqp10.conditions_generated import (
    DECODE_ERROR,
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    TRANSACTION_ROLLBACK,
    TRANSACTION_UNKNOWN_ID,
)
from penstock.wire.amqp10.errors import LinkFault
from penstock.wire.amqp10.link import RCV_FIRST, Link
from penstock.wire.amqp10.performatives_generated import (
    AMQP_VALUE,
    AmqpValue,
    Attach,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Error,
    Rejected,
    TransactionalState,
    composite_of,
)
from penstock.wire.amqp10.receiving import ReceivingLink, RequestListener
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED, Session
from penstock.wire.amqp10.values import Composite, Described

CAPABILITIES: Final = (
    "amqp:local-transactions",
    "amqp:multi-txns-per-ssn",
    "amqp:multi-ssns-per-txn",
)
# Declares and discharges that a client may send ahead. Each is handled when it arrives.
REQUEST_CREDIT: Final = 64
_REJECTED: Final = "amqp:rejected:list"


class CoordinatorLink(RequestListener):
    """Listens to one link to the coordinator. Held by the wire link and by its end."""

    def __init__(
        self, context: ConnectionContext, session: Session, link: ReceivingLink, rejects: bool
    ) -> None:
        self._context: ConnectionContext = context
        self._session: Session = session
        self._link: ReceivingLink = link
        # Whether the client understands `rejected`; if not, the link is detached instead.
        self._rejects: bool = rejects
        self._transactions: dict[bytes, Transaction] = {}

    def request_received(
        self, link: ReceivingLink, delivery_id: int, payload: bytes, settled: bool
    ) -> None:
        link.session.taken(1)
        if settled:
            raise LinkFault(NOT_ALLOWED, "a transfer to the coordinator must not be settled")
        request = _read(payload)
        if isinstance(request, Discharge):
            self._discharge(delivery_id, request)
        elif isinstance(request, Declare):
            self._declare(delivery_id, request)
        else:
            raise LinkFault(NOT_ALLOWED, "a coordinator accepts only declare and discharge")
        link.offer(REQUEST_CREDIT)
        link.flow_if_needed()

    def _declare(self, delivery_id: int, declare: Declare) -> None:
        if declare.global_id is not None:
            self._reject(
                delivery_id, Error(NOT_IMPLEMENTED, "distributed transactions are not supported")
            )
            return
        try:
            transaction = self._context.transactions.declare(self._context.now)
        except Refusal as refusal:
            self._reject(delivery_id, Error(condition_of(refusal), refusal.text))
            return
        self._transactions[transaction.txn_id] = transaction
        self._session.settle(delivery_id, delivery_id, Declared(transaction.txn_id))

    def _discharge(self, delivery_id: int, discharge: Discharge) -> None:
        transaction = self._transactions.pop(discharge.txn_id, None)
        if transaction is None:
            text = f"unknown transaction {discharge.txn_id.hex()}"
            self._reject(delivery_id, Error(TRANSACTION_UNKNOWN_ID, text))
            return
        context = self._context
        context.turn.charge(transaction.work_count() // ENQUEUED_PER_UNIT)
        context.turn.took(transaction.octets())
        context.transactions.forget(transaction)
        if self._is_half_posted(discharge.txn_id):
            transaction.rollback(context.now)
            raise LinkFault(TRANSACTION_ROLLBACK, "discharged before a delivery was complete")
        error = transaction.error
        answer = DischargeAnswer(self, self._session, delivery_id)
        if discharge.fail:
            error = None
            transaction.rollback(context.now)
        elif error is None:
            error = self._commit(transaction, answer)
        if error is not None:
            answer.is_given = True
            self._reject(delivery_id, error)
            return
        answer.finish()

    def _commit(self, transaction: Transaction, answer: "DischargeAnswer") -> Error | None:
        """None when it was done."""
        context = self._context
        try:
            transaction.commit(answer, context.now)
        except Refusal as refusal:
            transaction.rollback(context.now)
            return rollback_error(refusal)
        # Nothing more is sent before what was written in this tick is durable.
        context.container.hold_until_durable(context.outgoing)
        return None

    def _is_half_posted(self, txn_id: bytes) -> bool:
        """Whether a delivery of the transaction has begun in this session and is not complete. In
        another session its rest will find that there is no such transaction.
        """
        for link in self._session.receivers.values():
            state = link.held_state
            if link.first is not None and isinstance(state, TransactionalState):
                if state.txn_id == txn_id:
                    return True
        return False

    def _reject(self, delivery_id: int, error: Error) -> None:
        if not self._rejects:
            raise LinkFault(error.condition, error.description or "")
        self._session.settle(delivery_id, delivery_id, Rejected(error))

    def refused_late(self, delivery_id: int, error: Error) -> None:
        """Like `_reject`, outside of the handling of the client's input."""
        if self._rejects:
            self._session.settle(delivery_id, delivery_id, Rejected(error))
        else:
            fault = LinkFault(error.condition, error.description or "")
            self._context.wire.detach(self._session, self._link, fault, True)

    def ended(self, now: int) -> None:
        """The link has ended: transactions that are not discharged are rolled back."""
        transactions = list(self._transactions.values())
        self._transactions.clear()
        for transaction in transactions:
            self._context.transactions.forget(transaction)
            transaction.rollback(now)

    def add_unsettled(self, found: list[tuple[MessageQueue, QueueEntry]]) -> None:
        for transaction in self._transactions.values():
            transaction.add_unsettled(found)


class DischargeAnswer(CommitAnswer):
    """Accepts a discharge, or rejects it."""

    def __init__(self, link: "CoordinatorLink", session: Session, delivery_id: int) -> None:
        super().__init__()
        self._link: CoordinatorLink = link
        self._session: Session = session
        self._delivery_id: int = delivery_id

    def answer(self, is_refused: bool) -> None:
        if is_refused:
            text = "a queue rejected a message of the transaction after it was committed"
            self._link.refused_late(self._delivery_id, Error(TRANSACTION_ROLLBACK, text))
        else:
            self._session.settle(self._delivery_id, self._delivery_id, OUTCOME_ACCEPTED)


class CoordinatorEnd(LinkEnd):
    """Held by its session. It is not suspended: its transactions end with it."""

    def __init__(
        self, context: ConnectionContext, session: Session, link: ReceivingLink, rejects: bool
    ) -> None:
        super().__init__(context, session, link)
        self.listener: CoordinatorLink = CoordinatorLink(context, session, link, rejects)

    def ended(self, parting: Parting, now: int) -> None:
        self.listener.ended(now)

    def add_unsettled(self, found: list[tuple[MessageQueue, QueueEntry]]) -> None:
        self.listener.add_unsettled(found)


def attach_coordinator(
    context: ConnectionContext,
    session: Session,
    link: ReceivingLink,
    attach: Attach,
    ends: dict[Link, LinkEnd],
) -> None:
    source = attach.source
    outcomes: list[str] = [] if source is None else source.outcomes
    end = CoordinatorEnd(context, session, link, not outcomes or _REJECTED in outcomes)
    link.listener = end.listener
    ends[link] = end
    context.wire.attach(
        session,
        link,
        Attach(
            snd_settle_mode=attach.snd_settle_mode,
            rcv_settle_mode=RCV_FIRST,
            source=source,
            target=Coordinator(list(CAPABILITIES)),
        ),
    )
    link.offer(REQUEST_CREDIT)
    link.flow_if_needed()


def _read(payload: bytes) -> Composite | None:
    """The one amqp-value of a request; None when it is something else."""
    try:
        section = Sections(payload).decode(AMQP_VALUE)
        if isinstance(section, AmqpValue) and isinstance(section.value, Described):
            return composite_of(section.value)
    except Malformed as error:
        raise LinkFault(DECODE_ERROR, str(error)) from error
    return None
