"""Deliveries: a queue's entry becomes a transfer.

What comes before the body is composed once for a message and its repeats; then a
delivery costs what the wire needs for its frame. A receiver with credit gets as many messages as
fit into the session's window and one write.

Invariant: an entry that a queue delivered is on the wire and in `link.unsettled`, or in `_waiting`,
or settled.
"""

from collections import deque
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.consumer import Consumer
from penstock.broker.entry import QueueEntry
from penstock.broker.message import Address, Message, Properties
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.amqp10.context import ConnectionContext
from penstock.dialects.amqp10.messages.properties import TransferProperties, composed_head
from penstock.dialects.amqp10.nodes.filters import Selection
from penstock.dialects.container import EndOfTickAnswer
from penstock.dialects.translator import Translator
from penstock.wire.amqp10.conditions_generated import RESOURCE_DELETED
from penstock.wire.amqp10.errors import LinkFault
from penstock.wire.amqp10.performatives_generated import Released, Transfer
from penstock.wire.amqp10.sending import SendingLink, SentDelivery
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import Composite
from penstock.wire.outgoing import Outgoing

_RELEASED: Final = Released()


class SentEntry(SentDelivery):
    """An entry that is out with a receiver."""

    def __init__(self, entry: QueueEntry) -> None:
        super().__init__()
        self.entry: QueueEntry = entry


@mypyc_attr(allow_interpreted_subclasses=True)
class Acquirer:
    """A transaction in which messages are acquired. Held by the consumer that acquires."""

    def is_open(self) -> bool:
        raise NotImplementedError

    def state(self) -> Composite:
        """The delivery state of the transfer."""
        raise NotImplementedError

    def acquired(self, sent: SentEntry) -> None:
        raise NotImplementedError


class Resumption:
    """A delivery of an earlier attachment that must be sent to the receiver again."""

    def __init__(self, tag: bytes, entry: QueueEntry | None, known: bool) -> None:
        self.tag: bytes = tag
        # None when it is settled and only its settlement has to be sent.
        self.entry: QueueEntry | None = entry
        # Whether the receiver has it unsettled itself.
        self.known: bool = known
        self.outcome: Composite | None = None


class LinkConsumer(Consumer):
    """The consumer behind an outgoing link. Held by its `SourceEnd` and by the queue."""

    def __init__(
        self,
        context: ConnectionContext,
        session: Session,
        link: SendingLink,
        queue: MessageQueue,
        selection: Selection,
        priority: int,
        settles: bool,
    ) -> None:
        super().__init__(link.name, priority, False, settles)
        # A link that resumes has the number under which it was suspended instead.
        self.holder = context.container.new_holder()
        # Whether deliveries are settled when they are sent: at most once.
        self.settles: bool = settles
        self._context: ConnectionContext = context
        self._session: Session = session
        self.link: SendingLink = link
        self.queue: MessageQueue = queue
        self._selection: Selection = selection
        self._outgoing: Outgoing = context.outgoing
        self._translator: Translator = context.container.translator
        self.drain: DrainWatch = DrainWatch(self, context.container.answer_list)
        # The largest message that the receiver takes, when that is less than we do, or 0. Larger
        # ones are left for others.
        self._bytes_max: int = link.message_bytes_max
        if self._bytes_max >= context.wire.limits.message_bytes_max:
            self._bytes_max = 0
        self.selective = selection.is_selective or self._bytes_max > 0
        self.is_open: bool = True
        self.acquirer: Acquirer | None = None
        # The receiver's map of unsettled deliveries was not complete: nothing new is sent before it
        # attaches once more, and none of these, which it did not mention.
        self.only_resumes: bool = False
        self._unasked: list[Resumption] = []
        # Deliveries to resume are sent first; then entries for which the window had become too
        # small.
        self._resumptions: deque[Resumption] = deque()
        self._waiting: deque[QueueEntry] = deque()
        self._address: Address | None = None
        self._properties: Properties | None = None
        self._head: bytes = b""

    def can_take(self) -> bool:
        return (
            self.is_open
            and not self._waiting
            and not self._resumptions
            and not self.only_resumes
            and self.link.capacity() > 0
            and self._outgoing.has_room()
        )

    def credit_count(self) -> int:
        return self.link.capacity()

    def wants(self, entry: QueueEntry) -> bool:
        if 0 < self._bytes_max < len(entry.message.body) + self._head_size(entry):
            return False
        return self._selection.wants(entry)

    def _head_size(self, entry: QueueEntry) -> int:
        """An estimate; a few annotations more or less do not matter for the memory."""
        return len(entry.message.properties.encoded())

    def take(self, entry: QueueEntry) -> None:
        if self.link.can_send():
            self.send(entry)
        else:
            self._waiting.append(entry)

    def take_many(self, entries: list[QueueEntry]) -> None:
        link = self.link
        waiting = self._waiting
        for entry in entries:
            # A message of several frames may have filled the window.
            if link.can_send() and not waiting:
                self.send(entry)
            else:
                waiting.append(entry)

    def send(self, entry: QueueEntry) -> None:
        message = entry.message
        if (
            message.properties is self._properties
            and message.address is self._address
            and not entry.is_redelivered
        ):
            head = self._head
        else:
            message = self._translator.for_amqp10(message)
            head = self.compose(entry, message)
        if self.settles:
            self.link.send_settled(head, message.body)
        elif self.acquirer is not None:
            self._send_in_transaction(self.acquirer, SentEntry(entry), head + message.body)
        else:
            self.link.send(SentEntry(entry), head, message.body)

    def _send_in_transaction(self, acquirer: Acquirer, sent: SentEntry, payload: bytes) -> None:
        if not acquirer.is_open():
            # The transaction is over, and with it the acquisition that the link was asked for.
            self.acquirer = None
            self.link.send(sent, payload, b"")
            return
        sent.number = self.link.next_tag()
        transfer = Transfer(delivery_tag=sent.delivery_tag(), settled=False, state=acquirer.state())
        self.link.send_again(sent, transfer, payload)
        acquirer.acquired(sent)

    def send_late(self, entry: QueueEntry) -> None:
        """Send an entry for which there was no window when the queue delivered it."""
        self.send(entry)

    def compose(self, entry: QueueEntry, message: Message) -> bytes:
        properties = message.properties
        assert isinstance(properties, TransferProperties), "translated to this dialect"
        count = entry.delivery_count
        if entry.is_redelivered:
            return composed_head(properties, message.address, count, False)
        head = composed_head(properties, message.address, count, True)
        if message is entry.message:
            # Kept only for messages of this dialect: for others the body is translated, too.
            self._properties = properties
            self._address = message.address
            self._head = head
        return head

    def pump(self) -> None:
        """Credit, window or socket have changed: send what waits here first."""
        while self._resumptions and self.link.capacity() > 0:
            self._resume(self._resumptions.popleft())
        while self._waiting and self.link.capacity() > 0 and not self._resumptions:
            self.send_late(self._waiting.popleft())
        self.queue.touch()
        link = self.link
        link.available = self.queue.message_count
        if link.is_draining:
            self.drain.listed()

    def resume(self, resumptions: list[Resumption], unasked: list[Resumption]) -> None:
        self._resumptions.extend(resumptions)
        self._unasked = unasked

    def _resume(self, resumption: Resumption) -> None:
        entry = resumption.entry
        transfer = Transfer(delivery_tag=resumption.tag, resume=resumption.known)
        if entry is None:
            transfer.settled = True
            transfer.state = resumption.outcome
            self.link.send_as(transfer, b"")
            return
        message = self.message_again(entry)
        if message is None:
            if resumption.known:
                # The receiver keeps it for ever unless it is told that there is nothing to settle.
                transfer.settled = True
                transfer.state = _RELEASED
                self.link.send_as(transfer, b"")
            return
        entry.is_redelivered = True
        message = self._translator.for_amqp10(message)
        head = self.compose(entry, message)
        sent = SentEntry(entry)
        sent.tag = resumption.tag
        transfer.settled = False
        self.link.send_again(sent, transfer, head + message.body)

    def message_again(self, entry: QueueEntry) -> Message | None:
        """The message that was sent for an entry; None when both are gone."""
        return entry.message

    def unresumed(self) -> list[Resumption]:
        """What an earlier attachment sent and this one has not sent again."""
        return list(self._resumptions) + self._unasked

    def waiting(self) -> list[QueueEntry]:
        """Entries that the queue delivered, that need a settlement, and that were never sent."""
        return [] if self.settles else list(self._waiting)

    def close(self) -> None:
        """Takes nothing more."""
        self.is_open = False

    def is_blocked(self) -> bool:
        """Whether there may be more to send than credit, window and socket allow."""
        return (
            bool(self._waiting)
            or bool(self._resumptions)
            or self.link.is_waiting()
            or (self.link.credit > 0 and not self._outgoing.has_room())
            or (self.link.credit > 0 and self._session.room() <= 0)
        )

    def outgoing_of(self) -> Outgoing:
        return self._context.outgoing

    def cancelled(self) -> None:
        fault = LinkFault(RESOURCE_DELETED, f"queue '{self.queue.name}' was deleted")
        self._context.wire.detach(self._session, self.link, fault, True)


class DrainWatch(EndOfTickAnswer):
    """Answers a drain when a tick's dispatch has shown that there is no more to send."""

    def __init__(self, consumer: LinkConsumer, answer_list: list[EndOfTickAnswer]) -> None:
        self._consumer: LinkConsumer = consumer
        self._answer_list: list[EndOfTickAnswer] = answer_list
        self._is_listed: bool = False

    def listed(self) -> None:
        if not self._is_listed:
            self._is_listed = True
            self._answer_list.append(self)

    def flush(self) -> None:
        self._is_listed = False
        consumer = self._consumer
        link = consumer.link
        if not link.is_draining or not consumer.is_open:
            return
        if consumer.queue.is_touched:
            # There is more to look at; it goes on in the next tick.
            self.listed()
            return
        if link.credit > 0 and consumer.is_blocked():
            # A flow, a disposition or the socket will pump again.
            return
        link.available = consumer.queue.message_count
        link.drained()

    def outgoing_of(self) -> Outgoing | None:
        return self._consumer.outgoing_of()

    def is_waiting(self) -> bool:
        return False

    def became_durable(self) -> None:
        """The journal does not matter here."""

    def held(self, sequence: int) -> None:
        """Nothing is published here."""

    def completed(self, sequence: int) -> None:
        """Nothing is published here."""
