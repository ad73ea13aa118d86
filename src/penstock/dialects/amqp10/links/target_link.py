"""Incoming links: a delivery becomes a message in queues, and is answered.

Most deliveries of a link repeat the one before: they have the same header, annotations, properties
and application properties. These octets are kept together with what they meant, so that a repeat costs
a comparison, a slice for the body and an enqueue.
Everything unusual takes `_take_carefully`.

    outcome     when
    accepted    it is in all its queues and, where it was journalled, durable
    released    no queue is bound there
    rejected    a queue is full and refuses, an interceptor does, or `to` is not a valid address; or
                a holder has refused it

In a transaction the outcome is provisional and sent at once; see `_enlist`.
"""

from typing import Final

from penstock.broker.errors import Refusal
from penstock.broker.message import Address, Message
from penstock.broker.publishing.publish import Outcome, publish, publish_plain
from penstock.broker.publishing.target import Target, target_of
from penstock.broker.vhost import VirtualHost
from penstock.dialects.amqp10.context import ConnectionContext
from penstock.dialects.amqp10.faults import link_fault_of, rejection_of
from penstock.dialects.amqp10.links.target_outcomes import TargetOutcomes
from penstock.dialects.amqp10.messages.message_head import body_follows, divide_message
from penstock.dialects.amqp10.messages.properties import TransferProperties, read_head
from penstock.dialects.amqp10.nodes.addresses import TargetAddress, check_routing_key
from penstock.dialects.amqp10.nodes.nodes import resolve_anonymous
from penstock.dialects.amqp10.publish import find_target, user_matches
from penstock.dialects.amqp10.transactions.dispositions import SenderDispositions
from penstock.dialects.amqp10.transactions.posting import Posting
from penstock.dialects.amqp10.transactions.transaction import Transaction
from penstock.dialects.container import Container
from penstock.dialects.principal import Principal
from penstock.dialects.turn import LARGE_BODY_OCTETS
from penstock.formats.octets import Malformed
from penstock.wire.amqp10.conditions_generated import (
    DECODE_ERROR,
    NOT_IMPLEMENTED,
    TRANSACTION_ROLLBACK,
    TRANSACTION_UNKNOWN_ID,
    UNAUTHORIZED_ACCESS,
)
from penstock.wire.amqp10.errors import LinkFault
from penstock.wire.amqp10.link import RCV_FIRST
from penstock.wire.amqp10.performatives_generated import Rejected, Released, TransactionalState
from penstock.wire.amqp10.receiving import DeliveryListener, ReceivingLink
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import Composite

# Until it is known where a message goes.
_NOWHERE: Final = Address("", "", b"")
_RELEASED: Final = Released()


class TargetLink(DeliveryListener):
    """Held by its wire link and by its `TargetEnd`."""

    def __init__(
        self, context: ConnectionContext, address: TargetAddress | None, answers: TargetOutcomes
    ) -> None:
        self._context: ConnectionContext = context
        self._container: Container = context.container
        self._principal: Principal = context.user()
        self._vhost: VirtualHost = self._principal.vhost
        self._origin: int = context.number
        # None is the anonymous terminus.
        self._address: TargetAddress | None = address
        self._answers: TargetOutcomes = answers
        # Tags of deliveries that the producer had unsettled when it came back, and that we know.
        self.known: set[bytes] = set()
        # Provisional outcomes of what came in transactions; made with the first.
        self._dispositions: SenderDispositions | None = None

        # The last head as it came, and what it meant.
        self._prefix: bytes = b""
        self._prefix_size: int = 0
        self._properties: TransferProperties | None = None
        self._target: Target | None = None
        # Whether a delivery with the same head may take the short way.
        self._is_plain: bool = False

    def interceptor_changed(self) -> None:
        self._is_plain = False

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
        target = self._target
        properties = self._properties
        if len(payload) >= LARGE_BODY_OCTETS:
            self._context.turn.took(len(payload))
        if (
            not self._is_plain
            or target is None
            or properties is None
            or target.generation != self._vhost.generation
            or not payload.startswith(self._prefix)
            or message_format
            or state is not None
            or link.delivery_settle_mode is not None
            or not body_follows(payload, self._prefix_size)
        ):
            self._take_carefully(link, delivery_id, tag, payload, settled, message_format, state)
            return
        now = self._context.now
        answers = self._answers
        message = Message(target.address, properties, payload[self._prefix_size :], self._origin)
        link.session.taken(1)
        if target.units:
            self._context.turn.charge(target.units)
        if settled:
            answers.listed()
            if not publish_plain(target, message, now):
                answers.was_refused = True
            return
        sequence = answers.next(delivery_id, tag)
        message.sequence = sequence
        message.publisher = answers
        if not publish_plain(target, message, now):
            answers.refused(sequence)
        if message.is_journalled:
            answers.journalled(sequence)
        if message.holds == 0:
            # Complete: it must not keep the link alive while it waits in a queue.
            message.publisher = None

    def sender_settled(
        self, link: ReceivingLink, delivery_id: int, tag: bytes, state: Composite | None
    ) -> None:
        self._answers.sender_settled(delivery_id, tag)

    def _take_carefully(
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
        answers = self._answers
        answers.listed()
        if self.known and tag in self.known:
            self.known.discard(tag)
            answers.repeat(delivery_id, tag, settled)
            return
        if link.delivery_is_resumed and not payload:
            # Nothing of it is stored here, and nothing of it was received.
            if not settled:
                answers.decided(answers.next(delivery_id, tag), _RELEASED)
            return
        if message_format:
            raise LinkFault(NOT_IMPLEMENTED, f"message-format {message_format} is not supported")
        if isinstance(state, TransactionalState):
            self._enlist(link, delivery_id, payload, settled, state.txn_id)
            return
        message = self._read(payload)
        properties = self._properties
        assert properties is not None, "read with the message"
        try:
            target = self._find_target(properties)
        except Refusal as refusal:
            if self._address is not None or settled:
                raise link_fault_of(refusal) from refusal
            self._context.refused(refusal)
            answers.decided(answers.next(delivery_id, tag), rejection_of(refusal))
            return
        sequence = 0
        if not settled:
            if link.delivery_settle_mode == RCV_FIRST:
                answers.settles_first(delivery_id)
            sequence = answers.next(delivery_id, tag)
        message.address = target.address
        self._publish(target, message, sequence)
        self._target = target
        self._is_plain = (
            target.is_plain
            and not properties.has_extra_keys
            and self._container.interceptor is None
            and not self.known
        )

    def _enlist(
        self, link: ReceivingLink, delivery_id: int, payload: bytes, settled: bool, txn_id: bytes
    ) -> None:
        """The message is published when its transaction commits. If a settled one cannot be
        published, the transaction cannot be committed.
        """
        transaction = self._context.transactions.find(txn_id)
        if transaction is None:
            raise LinkFault(TRANSACTION_UNKNOWN_ID, f"unknown transaction {txn_id.hex()}")
        now = self._context.now
        outcome: Composite | None = None
        try:
            if transaction.error is None:
                outcome = self._stage(transaction, payload)
        except LinkFault as fault:
            transaction.fail(TRANSACTION_ROLLBACK, fault.description, now)
            raise
        if transaction.error is not None:
            outcome = Rejected(transaction.error)
        if settled:
            if outcome is not None:
                transaction.fail(
                    TRANSACTION_ROLLBACK, "a message that was sent settled was not accepted", now
                )
            return
        dispositions = self._dispositions
        if dispositions is None:
            session = link.session
            assert isinstance(session, Session), "windows are parts of sessions"
            dispositions = SenderDispositions(session, link, self._container.answer_list)
            self._dispositions = dispositions
        transaction.says(dispositions)
        state = transaction.accepted if outcome is None else TransactionalState(txn_id, outcome)
        dispositions.add(delivery_id, state)

    def _stage(self, transaction: Transaction, payload: bytes) -> Composite | None:
        """None when the message will be accepted; another outcome when it is not taken."""
        message = self._read(payload)
        properties = self._properties
        assert properties is not None, "read with the message"
        try:
            target = self._find_target(properties)
        except Refusal as refusal:
            self._context.refused(refusal)
            return rejection_of(refusal)
        message.address = target.address
        found = target_of(self._vhost.routing, target, properties)
        self._context.turn.routed(found)
        if not found.reaches_any:
            return _RELEASED
        posting = Posting(self._container, self._principal, message)
        transaction.add(posting, self._context.now)
        return None

    def _read(self, payload: bytes) -> Message:
        """Keeps the head, and what it means."""
        self._is_plain = False
        try:
            head, body, prefix_size = divide_message(payload)
            prefix = payload[:prefix_size]
            if prefix != self._prefix or self._properties is None:
                self._properties = None
                self._prefix = prefix
                self._prefix_size = len(prefix)
                self._properties = self._checked(read_head(head))
        except Malformed as error:
            raise LinkFault(DECODE_ERROR, str(error)) from error
        return Message(_NOWHERE, self._properties, body, self._origin)

    def _checked(self, properties: TransferProperties) -> TransferProperties:
        user = self._principal.user
        if not user_matches(properties, user):
            said = (properties.user_id() or b"").decode(errors="replace")
            raise LinkFault(
                UNAUTHORIZED_ACCESS,
                f"user_id property set to '{said}' but authenticated user was '{user}'",
            )
        return properties

    def _find_target(self, properties: TransferProperties) -> Target:
        address = self._address
        if address is None:
            address = resolve_anonymous(self._principal, self._vhost, properties.to())
        key = address.routing_key
        if key is None:
            key = properties.subject() or ""
            check_routing_key(key)
        if properties.has_extra_keys:
            self._principal.check_copies(address.exchange, properties)
        return find_target(self._principal, address, key)

    def _publish(self, target: Target, message: Message, sequence: int) -> None:
        answers = self._answers
        if sequence:
            message.sequence = sequence
            message.publisher = answers
        context = self._context
        interceptor = self._container.interceptor
        outcome = publish(
            self._vhost.routing, target, message, interceptor, context.turn, context.now
        )
        if outcome is Outcome.UNROUTED:
            if sequence:
                self._container.returned_total += 1
            else:
                self._container.dropped_total += 1
        if not sequence:
            if outcome is Outcome.REFUSED:
                answers.was_refused = True
            return
        if outcome is Outcome.REFUSED:
            answers.refused(sequence)
        elif outcome is Outcome.UNROUTED:
            answers.decided(sequence, _RELEASED)
        if message.is_journalled:
            answers.journalled(sequence)
        if message.holds == 0:
            message.publisher = None
