"""Our end of an outgoing link: attached, suspended, gone.

A suspended link has no consumer at its queue, but what it had sent unsettled stays out with it until
the link is resumed (`resumption.py`) or expires.

Invariant: when an attachment ends, everything that it had sent unsettled belongs to the suspended
link, to a transaction, or to the queue again, and the attachment has nothing: a disposition that
its receiver sends after that, because our detach was still under way, has no effect.
"""

from typing import Final

from penstock.broker.entry import NO_HOLDER, QueueEntry, hand_over
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.reading import ReadPosition
from penstock.broker.sampled import SAMPLE_COUNT, sampled_bytes
from penstock.dialects.amqp10.context import ConnectionContext
from penstock.dialects.amqp10.links.deliver import LinkConsumer, SentEntry
from penstock.dialects.amqp10.links.link_end import LinkEnd, LinkKey, Parting
from penstock.dialects.amqp10.links.outcomes import give_back
from penstock.dialects.amqp10.links.settlement import Settlement
from penstock.dialects.amqp10.links.suspended_links import (
    ResumableLinks,
    SuspendedLink,
    may_suspend,
)
from penstock.dialects.amqp10.nodes.nodes import Ending, SourceNode, release_source
from penstock.dialects.facts import ChannelFacts, ConsumerFacts
from penstock.wire.amqp10.sending import SendingLink
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import Composite

# Deliveries that a suspended link keeps; the others are requeued. A receiver with more credit
# than this at once is rare, and both maps of this size fit into frames.
KEPT_MAX: Final = 4_096


class KeptDelivery:
    """An unsettled delivery of a suspended link."""

    def __init__(self, tag: bytes, entry: QueueEntry) -> None:
        self.tag: bytes = tag
        self.entry: QueueEntry = entry


class SourceEnd(LinkEnd):
    """Held by its session and by `ResumableLinks` while it is attached."""

    def __init__(
        self,
        context: ConnectionContext,
        links: ResumableLinks,
        session: Session,
        link: SendingLink,
        node: SourceNode,
        consumer: LinkConsumer,
        default_outcome: Composite | None,
    ) -> None:
        super().__init__(context, session, link)
        self._links: ResumableLinks = links
        self._link: SendingLink = link
        self._node: SourceNode = node
        self._queue: MessageQueue = node.queue
        self.consumer: LinkConsumer = consumer
        # What the receiver asked for; None for our default.
        self._default_outcome: Composite | None = default_outcome
        self.listener: Settlement = Settlement(context, session, consumer, default_outcome)

    def has_room(self) -> None:
        self.consumer.pump()

    def held_bytes(self, message_bytes: int) -> int:
        unsettled = self._link.unsettled
        octets = 0
        for seen, sent in enumerate(unsettled.values()):
            if seen == SAMPLE_COUNT:
                # The others are taken to be of the same size.
                octets = octets * len(unsettled) // seen
                break
            if isinstance(sent, SentEntry):
                octets += len(sent.entry.message.body)
        count = len(unsettled)
        for entry in self.consumer.waiting():
            octets += len(entry.message.body)
            count += 1
        return octets + count * message_bytes

    def add_unsettled(self, found: list[tuple[MessageQueue, QueueEntry]]) -> None:
        for sent in self._link.unsettled.values():
            if isinstance(sent, SentEntry):
                found.append((self._queue, sent.entry))
        for resumption in self.consumer.unresumed():
            if resumption.entry is not None:
                found.append((self._queue, resumption.entry))
        for entry in self.consumer.waiting():
            found.append((self._queue, entry))

    def add_to(self, facts: ChannelFacts) -> None:
        facts.consumer_count += 1
        facts.delivered += self._link.sent_count()
        facts.unacknowledged += len(self._link.unsettled)

    def consumer_facts(self) -> ConsumerFacts | None:
        facts = ConsumerFacts(self.session.channel, self._link.name, self._queue.name)
        facts.acknowledges = not self.consumer.settles
        facts.is_active = self._queue.consumers.is_active(self.consumer)
        # Credit is what a prefetch limit is in AMQP 0-9-1.
        facts.prefetch_count = max(self._link.credit, 0)
        return facts

    def ended(self, parting: Parting, now: int) -> None:
        self._links.detached(self)
        queue = self._queue
        # This comes first, or the consumer would get the requeued messages again.
        self.consumer.close()
        holder = self.consumer.holder
        waiting = self.consumer.waiting()
        kept = self._take_unsettled()
        self.listener.enlisted.leave()
        suspends = may_suspend(self._node, parting) and not queue.is_deleted
        excess: list[KeptDelivery] = kept
        if suspends:
            excess = kept[KEPT_MAX:]
            del kept[KEPT_MAX:]
        # A queue that deletes itself with its last consumer must see what comes back first.
        returned = [delivery.entry for delivery in excess]
        give_back(queue, returned, holder, self._default_outcome, now)
        if waiting:
            queue.requeue(waiting, now, False, holder)
        position = queue.read_position(self.consumer)
        queue.remove_consumer(self.consumer, now)
        if not suspends:
            is_closed = parting is Parting.CLOSED
            release_source(self._node, Ending.CLOSED if is_closed else Ending.EXPIRED, now)
            return
        release_source(self._node, Ending.SUSPENDED, now)
        suspended = SuspendedSource(
            self.key, self._node, self.session, self.context.number, kept, position
        )
        suspended.holder = self.context.container.new_holder()
        hand_over([delivery.entry for delivery in kept], holder, suspended.holder)
        suspended.next_tag = self._link.next_tag()
        suspended.default_outcome = self._default_outcome
        self._links.suspend(suspended, parting, now)

    def _take_unsettled(self) -> list[KeptDelivery]:
        """In the order in which they came from the queue."""
        kept: list[KeptDelivery] = []
        enlisted = self.listener.enlisted
        for sent in self._link.take_unsettled():
            # What is in a transaction stays there.
            if isinstance(sent, SentEntry) and not enlisted.has(sent.delivery_id):
                kept.append(KeptDelivery(sent.delivery_tag(), sent.entry))
        for resumption in self.consumer.unresumed():
            if resumption.entry is not None:
                kept.append(KeptDelivery(resumption.tag, resumption.entry))
        return kept


class SuspendedSource(SuspendedLink):
    """A receiver that is detached, with the deliveries that it may have."""

    def __init__(
        self,
        key: LinkKey,
        node: SourceNode,
        session: Session,
        connection_number: int,
        kept: list[KeptDelivery],
        position: ReadPosition | None,
    ) -> None:
        super().__init__(key, node, session, connection_number)
        self.node: SourceNode = node
        self.kept: list[KeptDelivery] = kept
        # Its read position in a stream.
        self.position: ReadPosition | None = position
        # Numbering of tags continues here when it is resumed.
        self.next_tag: int = 0
        # What is kept is out with this one, and with the attachment that resumes the link.
        self.holder: int = NO_HOLDER
        self.default_outcome: Composite | None = None

    def expired(self, now: int) -> None:
        self.forgotten(now)
        release_source(self.node, Ending.EXPIRED, now)

    def forgotten(self, now: int) -> None:
        entries = [delivery.entry for delivery in self.kept]
        self.kept = []
        give_back(self.node.queue, entries, self.holder, self.default_outcome, now)

    def held_bytes(self, message_bytes: int) -> int:
        entries: list[QueueEntry | None] = [delivery.entry for delivery in self.kept]
        return sampled_bytes(entries, 0, len(entries)) + len(entries) * message_bytes

    def add_unsettled(self, found: list[tuple[MessageQueue, QueueEntry]]) -> None:
        for delivery in self.kept:
            found.append((self.node.queue, delivery.entry))
