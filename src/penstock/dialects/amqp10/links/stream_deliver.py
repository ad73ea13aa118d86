"""Deliveries from a stream: each carries its offset in the annotation `x-stream-offset`.

What comes before the body is composed once for messages that share address and properties, in two
parts, between which the eight octets of the offset belong.
"""

from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.amqp10.context import ConnectionContext
from penstock.dialects.amqp10.links.deliver import LinkConsumer, SentEntry
from penstock.dialects.amqp10.messages.properties import TransferProperties, composed_head
from penstock.dialects.amqp10.nodes.filters import Selection
from penstock.wire.amqp10.sending import SendingLink
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import ULong

OFFSET_ANNOTATION: Final = "x-stream-offset"
_OFFSET_SIZE: Final = 8
# Stands for the offset while a head is composed. No text of an exchange or a key, which follow it,
# holds such octets.
_MARK: Final = b"\xff" * _OFFSET_SIZE
_MARKED: Final = ULong(int.from_bytes(_MARK, "big"))


class StreamLinkConsumer(LinkConsumer):
    """The consumer behind an outgoing link from a stream. The stream applies the filters."""

    def __init__(
        self,
        context: ConnectionContext,
        session: Session,
        link: SendingLink,
        stream: MessageQueue,
        selection: Selection,
        settles: bool,
    ) -> None:
        super().__init__(context, session, link, stream, selection, 0, False)
        self.settles = settles
        self.selective = False
        self._stream: MessageQueue = stream
        self._before: bytes = b""
        self._after: bytes = b""

    def take_many(self, entries: list[QueueEntry]) -> None:
        super().take_many(entries)
        if self.settles:
            # A stream keeps its messages: a delivery is finished when it is acknowledged.
            self._stream.acknowledge_many(entries, self.holder)

    def send(self, entry: QueueEntry) -> None:
        message = entry.message
        if message.properties is not self._properties or message.address is not self._address:
            message = self._translator.for_amqp10(message)
            self._compose_around(entry, message)
        offset = entry.position.to_bytes(_OFFSET_SIZE, "big")
        head = b"".join([self._before, offset, self._after])
        if self.settles:
            self.link.send_settled(head, message.body)
        else:
            self.link.send(SentEntry(entry), head, message.body)

    def send_late(self, entry: QueueEntry) -> None:
        # Delivered entries of a stream do not hold their message.
        message = self.message_again(entry)
        if message is not None:
            entry.message = message
            self.send(entry)

    def compose(self, entry: QueueEntry, message: Message) -> bytes:
        self._compose_around(entry, message)
        return b"".join([self._before, entry.position.to_bytes(_OFFSET_SIZE, "big"), self._after])

    def _compose_around(self, entry: QueueEntry, message: Message) -> None:
        properties = message.properties
        assert isinstance(properties, TransferProperties), "translated to this dialect"
        marked = properties.with_annotations({OFFSET_ANNOTATION: _MARKED})
        head = composed_head(marked, message.address, 0, False)
        at = head.rfind(_MARK, 0, len(head) - len(marked.bare()))
        assert at > 0, "the mark was put there"
        self._before = head[:at]
        self._after = head[at + _OFFSET_SIZE :]
        is_native = message is entry.message
        self._properties = properties if is_native else None
        self._address = message.address if is_native else None

    def message_again(self, entry: QueueEntry) -> Message | None:
        message = self._stream.message_of(entry)
        if message is None and not self.settles:
            # Retention has removed it meanwhile.
            self._stream.acknowledge(entry, self.holder)
        return message
