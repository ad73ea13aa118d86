"""What a replica is sent: a greeting, then batches as there are news and credit.

Everything waits until it is durable at the source, in a cluster until it is committed: a message that
the source could still lose must not be in a replica, and one that is gone there must stay gone.
"""

from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.message import NO_EXPIRATION, NOBODY, Address, Message, Properties
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.replicas.feed_batch import BATCH, GREETING, encode_greeting
from penstock.broker.replicas.queue_feed import FeedListener, QueueFeed
from penstock.dialects.amqp091.consume import CancelListener, ChannelConsumer
from penstock.dialects.amqp091.deliveries import Deliveries
from penstock.dialects.container import Container, EndOfTickAnswer
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.outgoing import Outgoing

# Stands for a batch in the list of what is unacknowledged. Nothing of the queue is held by it.
_NO_MESSAGE: Final = Message(
    Address("", "", b"\0\0"), Properties(False, 0, NO_EXPIRATION), b"", NOBODY
)


class ReplicaConsumer(ChannelConsumer):
    """A subscription of a replica. Held by the channel; the queue does not count it as a consumer."""

    def __init__(
        self,
        listener: CancelListener,
        deliveries: Deliveries,
        queue: MessageQueue,
        tag: str,
        prefetch: int,
    ) -> None:
        super().__init__(listener, deliveries, queue, tag, 0, False, False)
        self.credit = prefetch
        self.output: ReplicaOutput | None = None

    def settled(self, count: int) -> None:
        """Acknowledged batches are nothing but credit."""
        self.credit += count
        self._deliveries.settled(count)
        self.has_room()

    def has_room(self) -> None:
        if self.output is not None:
            self.output.listed()

    def leave(self, now: int) -> None:
        if self.output is not None:
            self.output.end()
            self.output = None

    def send(self, kind: str, body: bytes) -> None:
        deliveries = self._deliveries
        deliveries.tag += 1
        tag = deliveries.tag
        deliveries.unacknowledged.add(tag, QueueEntry(_NO_MESSAGE, 0), self)
        self.credit -= 1
        deliveries.credit -= 1
        deliveries.wire.send_content(
            deliveries.number,
            self._method(_NO_MESSAGE, tag, False),
            encode_header(len(body), BasicProperties(type_=kind)),
            body,
        )

    def outgoing(self) -> Outgoing:
        return self._outgoing


class ReplicaOutput(EndOfTickAnswer):
    """Sends batches when a tick ends. Held by its consumer."""

    def __init__(self, consumer: ReplicaConsumer, container: Container) -> None:
        self._consumer: ReplicaConsumer = consumer
        self._container: Container = container
        self._is_listed: bool = False
        # None when the replica must subscribe again, with the ids of this very queue.
        self.feed: QueueFeed | None = None
        self.listener: SubscribedFeed = SubscribedFeed(self)

    def greet(self, incarnation: str, is_accepted: bool) -> None:
        self._consumer.send(GREETING, encode_greeting(incarnation, is_accepted))
        self._hold()
        self.listed()

    def _hold(self) -> None:
        """Nothing leaves before what was written so far is durable."""
        self._container.hold_until_durable(self._consumer.outgoing())

    def listed(self) -> None:
        if not self._is_listed and self.feed is not None:
            self._is_listed = True
            self._container.answer_list.append(self)

    def end(self) -> None:
        feed = self.feed
        self.feed = None
        if feed is not None and feed in self._consumer.queue.observers:
            self._consumer.queue.observers.remove(feed)

    def queue_deleted(self) -> None:
        self.end()
        self._consumer.cancelled()

    def flush(self) -> None:
        self._is_listed = False
        feed = self.feed
        consumer = self._consumer
        outgoing = consumer.outgoing()
        while feed is not None and consumer.can_take():
            batch = feed.next_batch()
            if not batch:
                break
            consumer.send(BATCH, batch)
            outgoing.durable_at = self._container.durability.written

    def outgoing_of(self) -> Outgoing | None:
        return self._consumer.outgoing()

    def is_waiting(self) -> bool:
        return self.feed is not None and self.feed.waits_for_commit()

    def became_durable(self) -> None:
        if self.feed is not None:
            self.feed.look_again()

    def held(self, sequence: int) -> None:
        """Nothing is published here."""

    def completed(self, sequence: int) -> None:
        """Nothing is published here."""


class SubscribedFeed(FeedListener):
    """Passes the calls of the feed on."""

    def __init__(self, output: ReplicaOutput) -> None:
        self._output: ReplicaOutput = output

    def news(self) -> None:
        self._output.listed()

    def queue_deleted(self) -> None:
        self._output.queue_deleted()
