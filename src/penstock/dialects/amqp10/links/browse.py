"""Browsing: distribution-mode copy on a queue shows messages and leaves them where they are.

A browser is not a consumer of its queue: others may take what it looks at, and an auto-delete queue
does not wait for it. It sees each message once, in the queue's order, unless a consumer has taken
it before.
"""

from penstock.broker.entry import QueueEntry
from penstock.broker.observers import QueueObserver
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.walk import PASSED_OVER_MAX, Walk
from penstock.dialects.amqp10.context import ConnectionContext
from penstock.dialects.amqp10.links.link_end import LinkEnd, Parting
from penstock.dialects.amqp10.links.retirement import NOTHING, txn_id_of
from penstock.dialects.amqp10.messages.properties import TransferProperties, composed_head
from penstock.dialects.amqp10.nodes.nodes import Ending, SourceNode, release_source
from penstock.dialects.container import EndOfTickAnswer
from penstock.wire.amqp10.conditions_generated import NOT_IMPLEMENTED, RESOURCE_DELETED
from penstock.wire.amqp10.errors import LinkFault
from penstock.wire.amqp10.sending import SendingLink, SentDelivery, SettlementListener
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import Composite
from penstock.wire.outgoing import Outgoing


class BrowsingEnd(LinkEnd):
    """Held by its session while it is attached. It is not suspended: nothing is out with it."""

    def __init__(
        self,
        context: ConnectionContext,
        session: Session,
        link: SendingLink,
        node: SourceNode,
        settles: bool,
    ) -> None:
        super().__init__(context, session, link)
        self._link: SendingLink = link
        self._node: SourceNode = node
        self._browsing: Browsing = Browsing(context, link, node, settles)
        self._arrivals: Arrivals = Arrivals(self._browsing)
        node.queue.observers.append(self._arrivals)
        self.listener: BrowserSettlement = BrowserSettlement(session, self._browsing)

    def has_room(self) -> None:
        self._browsing.listed()

    def tick(self, now: int) -> None:
        if self._node.queue.is_deleted:
            fault = LinkFault(RESOURCE_DELETED, f"queue '{self._node.queue.name}' was deleted")
            self.context.wire.detach(self.session, self.wire_link, fault, True)

    def ended(self, parting: Parting, now: int) -> None:
        self._browsing.is_open = False
        self._link.take_unsettled()
        observers = self._node.queue.observers
        if self._arrivals in observers:
            observers.remove(self._arrivals)
        is_closed = parting is Parting.CLOSED
        release_source(self._node, Ending.CLOSED if is_closed else Ending.EXPIRED, now)


class Browsing(EndOfTickAnswer):
    """Sends copies when a tick ends: messages that the tick's dispatch delivered are not shown."""

    def __init__(
        self, context: ConnectionContext, link: SendingLink, node: SourceNode, settles: bool
    ) -> None:
        self._context: ConnectionContext = context
        self._link: SendingLink = link
        self._queue: MessageQueue = node.queue
        self._node: SourceNode = node
        self._settles: bool = settles
        self._walk: Walk = Walk()
        self._is_listed: bool = False
        self.is_open: bool = True

    def listed(self) -> None:
        if not self._is_listed and self.is_open:
            self._is_listed = True
            self._context.container.answer_list.append(self)

    def flush(self) -> None:
        self._is_listed = False
        if not self.is_open or self._queue.is_deleted:
            return
        link = self._link
        entry: QueueEntry | None = None
        budget = PASSED_OVER_MAX
        while link.capacity() > 0 and self._context.outgoing.has_room():
            entry = self._queue.browse_on(self._walk)
            if entry is None:
                break
            if self._node.selection.wants(entry):
                self._send(entry)
                continue
            budget -= 1
            if budget == 0:
                # It goes on in the next tick.
                self.listed()
                return
        if link.is_draining and link.credit > 0 and entry is None and not link.is_waiting():
            link.drained()

    def _send(self, entry: QueueEntry) -> None:
        message = self._context.container.translator.for_amqp10(entry.message)
        properties = message.properties
        assert isinstance(properties, TransferProperties), "translated to this dialect"
        first = not entry.is_redelivered
        head = composed_head(properties, message.address, entry.delivery_count, first)
        if self._settles:
            self._link.send_settled(head, message.body)
        else:
            self._link.send(SentDelivery(), head, message.body)

    def outgoing_of(self) -> Outgoing | None:
        return self._context.outgoing

    def is_waiting(self) -> bool:
        return False

    def became_durable(self) -> None:
        """The journal does not matter here."""

    def held(self, sequence: int) -> None:
        """Nothing is published here."""

    def completed(self, sequence: int) -> None:
        """Nothing is published here."""


class Arrivals(QueueObserver):
    """Wakes a browser when there is more to see."""

    def __init__(self, browsing: Browsing) -> None:
        self._browsing: Browsing = browsing

    def enqueued(self, entry: QueueEntry) -> None:
        self._browsing.listed()


class BrowserSettlement(SettlementListener):
    """Whatever outcome a browser gives a copy, the message stays as it is."""

    def __init__(self, session: Session, browsing: Browsing) -> None:
        self._session: Session = session
        self._browsing: Browsing = browsing

    def credit_changed(self, link: SendingLink) -> None:
        if link.flow_properties is not None and txn_id_of(link) is not NOTHING:
            raise LinkFault(
                NOT_IMPLEMENTED, "a browsing link cannot acquire messages in a transaction"
            )
        self._browsing.listed()

    def delivery_updated(
        self, link: SendingLink, sent: SentDelivery, state: Composite | None, settled: bool
    ) -> None:
        if not settled and state is not None:
            self._session.settle_sent(sent.delivery_id, sent.delivery_id, state)
