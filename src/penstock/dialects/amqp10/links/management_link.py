"""The pair of links to the management node: requests come in over one, responses go out over the
other, which has the same name (Link Pair 1.0).

A response waits for credit, and for the journal where the request changed something that outlives
a restart. Requests that cannot be answered are not carried out.
"""

from collections import deque
from typing import Final

from penstock.dialects.amqp10.context import ConnectionContext
from penstock.dialects.amqp10.links.link_end import LinkEnd, Parting
from penstock.dialects.amqp10.management.answering import DELETE, answer
from penstock.dialects.amqp10.management.messages import encode_response, read_request
from penstock.dialects.amqp10.management.refusals import FORBIDDEN
from penstock.dialects.turn import TOPOLOGY_UNITS
from penstock.formats.octets import Malformed
from penstock.wire.amqp10.conditions_generated import (
    DECODE_ERROR,
    PRECONDITION_FAILED,
    RESOURCE_LIMIT_EXCEEDED,
)
from penstock.wire.amqp10.errors import LinkFault
from penstock.wire.amqp10.performatives_generated import Error, Rejected
from penstock.wire.amqp10.receiving import ReceivingLink, RequestListener
from penstock.wire.amqp10.sending import SendingLink, SentDelivery, SettlementListener
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED, Session
from penstock.wire.amqp10.values import Composite

# Requests that a client may send ahead; RabbitMQ gives 8. They are answered at once.
REQUEST_CREDIT: Final = 64
# Responses that may wait for the client's credit. A client with more does not read them.
RESPONSES_MAX: Final = 1_024


class ManagementPair:
    """Held by the ends of both links."""

    def __init__(self, context: ConnectionContext) -> None:
        self._context: ConnectionContext = context
        self.sender: SendingLink | None = None
        self._responses: deque[tuple[bytes, bytes]] = deque()

    def answer(self, payload: bytes) -> None:
        """Raises a `LinkFault` before anything was done."""
        context = self._context
        if self.sender is None:
            raise LinkFault(
                PRECONDITION_FAILED,
                "no receiver with the same link name is attached for the responses",
            )
        if len(self._responses) >= RESPONSES_MAX:
            raise LinkFault(
                RESOURCE_LIMIT_EXCEEDED, f"{RESPONSES_MAX} responses are waiting for credit"
            )
        try:
            request = read_request(payload)
        except Malformed as error:
            raise LinkFault(DECODE_ERROR, str(error)) from error
        context.turn.charge(TOPOLOGY_UNITS)
        response = answer(
            request,
            context.user(),
            context.number,
            context.node_name,
            context.noting,
            context.now,
        )
        if response.status == FORBIDDEN:
            context.denied(str(response.body))
        context.hold_for_definitions()
        if request.method == DELETE:
            # Messages that are said to be purged do not come back after a crash.
            context.container.hold_until_durable(context.outgoing)
        self._responses.append(encode_response(request, response))
        self.pump()

    def pump(self) -> None:
        sender = self.sender
        while sender is not None and self._responses and sender.capacity() > 0:
            head, body = self._responses.popleft()
            sender.send_settled(head, body)
        if sender is not None and not self._responses and sender.is_draining:
            sender.drained()


class Requests(RequestListener):
    """Listens to the incoming link of a pair."""

    def __init__(self, session: Session, pair: ManagementPair) -> None:
        self._session: Session = session
        self._pair: ManagementPair = pair

    def request_received(
        self, link: ReceivingLink, delivery_id: int, payload: bytes, settled: bool
    ) -> None:
        link.session.taken(1)
        outcome: Composite = OUTCOME_ACCEPTED
        try:
            self._pair.answer(payload)
        except LinkFault as fault:
            if settled:
                raise
            outcome = Rejected(Error(fault.condition, fault.description))
        if not settled:
            self._session.settle(delivery_id, delivery_id, outcome)
        link.offer(REQUEST_CREDIT)
        link.flow_if_needed()


class Responses(SettlementListener):
    """Listens to the outgoing link of a pair. Responses are settled when they are sent."""

    def __init__(self, pair: ManagementPair) -> None:
        self._pair: ManagementPair = pair

    def credit_changed(self, link: SendingLink) -> None:
        self._pair.pump()

    def delivery_updated(
        self, link: SendingLink, sent: SentDelivery, state: Composite | None, settled: bool
    ) -> None:
        """There is nothing to update."""


class ManagementEnd(LinkEnd):
    """Either link of a pair. Held by its session."""

    def __init__(
        self,
        context: ConnectionContext,
        session: Session,
        link: ReceivingLink | SendingLink,
        pair: ManagementPair,
    ) -> None:
        super().__init__(context, session, link)
        self._pair: ManagementPair = pair

    def ended(self, parting: Parting, now: int) -> None:
        if self._pair.sender is self.wire_link:
            self._pair.sender = None
