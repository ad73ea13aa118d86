"""Deliveries: a queue's entry becomes basic.deliver, content header and body frames.

`formats.amqp091_delivery` draws the frames. Successive deliveries to one consumer mostly repeat one
another: they differ only in delivery tag and body. So the parts in between are kept: `_start` up to the
delivery tag and `_middle` from behind it to the body (renewed when address or header change); for
repeats also `_head`, up to the last octet of the tag. A delivery then costs five or six list appends
and copies nothing.

For a message that is not a repeat (`properties.is_single`) these parts would be composed just once.
Its publisher has sent the same bytes already, except for the address, so if its channel had the
same number they are passed on as they came (`_pass_on`).
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.consumer import UNLIMITED
from penstock.broker.entry import QueueEntry
from penstock.broker.message import Address, Message
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.amqp091.deliveries import Deliveries
from penstock.dialects.amqp091.properties import MessageProperties, properties_of
from penstock.dialects.amqp091.unacknowledged import Receiver
from penstock.formats.amqp091_delivery import (
    DELIVER_FIXED_SIZE,
    DELIVER_SIZES,
    LAST_OCTETS_AND_FLAG,
    deliver_method,
    deliver_opening,
    delivery_middle,
    delivery_start,
)
from penstock.formats.amqp091_frames import END, FRAME_HEAD_SIZE, METHOD
from penstock.formats.octets import LAST_OCTETS
from penstock.wire.outgoing import Outgoing

DELIVERY_COUNT: Final = "x-delivery-count"


@mypyc_attr(allow_interpreted_subclasses=True)
class CancelListener:
    """Notifies the client that its consumer is cancelled: the channel."""

    def consumer_cancelled(self, tag: str) -> None:
        raise NotImplementedError


class ChannelConsumer(Receiver):
    """A basic.consume of one channel. Held by the channel and by the queue."""

    def __init__(
        self,
        listener: CancelListener,
        deliveries: Deliveries,
        queue: MessageQueue,
        tag: str,
        priority: int,
        exclusive: bool,
        no_ack: bool,
    ) -> None:
        super().__init__(queue, tag, priority, exclusive, no_ack)
        self.holder = deliveries.holder
        self._listener: CancelListener = listener
        self._deliveries: Deliveries = deliveries
        self._outgoing: Outgoing = deliveries.outgoing
        # How many more it may have unacknowledged.
        self.credit: int = UNLIMITED
        # Connection whose own messages it does not want; -1 wants all.
        self.no_local_origin: int = -1
        self._tag_octets: bytes = tag.encode()
        self._channel_octets: bytes = deliveries.number.to_bytes(2, "big")
        # What a deliver frame begins with, before and behind its size.
        self._frame_start: bytes = METHOD + self._channel_octets
        self._method_start: bytes = deliver_opening(self._tag_octets)
        # The same with all but the last octet of a delivery tag, and these as a number.
        self._tagged_start: bytes = b""
        self._tagged_upper: int = -1
        self._address: Address | None = None
        self._properties: MessageProperties | None = None
        self._start: bytes = b""
        self._head: bytes = b""
        self._method_size: int = -1
        # All but the last octet of the delivery tags for which `_head` is valid.
        self._upper: int = -1
        # Whether repeats of the last message have a body, and one that fits a frame.
        self._is_repeatable: bool = False
        self._middle: bytes = b""
        self._size: int = 0

    def can_take(self) -> bool:
        return (
            self.credit > 0 and self._deliveries.has_credit_for(self) and self._outgoing.has_room()
        )

    def credit_count(self) -> int:
        return min(self.credit, self._deliveries.credit)

    def wants(self, entry: QueueEntry) -> bool:
        return entry.message.origin != self.no_local_origin

    def settled(self, count: int) -> None:
        self.credit += count
        self._deliveries.settled(count)
        self.queue.touch()

    def has_room(self) -> None:
        """There is room again for deliveries."""
        self.queue.touch()

    def leave(self, now: int) -> None:
        """Cancelled by its client, or its channel has ended."""
        self.queue.remove_consumer(self, now)

    def take(self, entry: QueueEntry) -> None:
        deliveries = self._deliveries
        tag = deliveries.tag + 1
        deliveries.tag = tag
        if not self.takes_ownership:
            deliveries.unacknowledged.add(tag, entry, self)
            self.credit -= 1
            deliveries.credit -= 1
        self._write(entry, tag)

    def take_many(self, entries: list[QueueEntry]) -> None:
        deliveries = self._deliveries
        tag = deliveries.tag + 1
        count = len(entries)
        deliveries.tag = tag + count - 1
        if not self.takes_ownership:
            deliveries.unacknowledged.add_many(tag, entries, self)
            self.credit -= count
            deliveries.credit -= count
        outgoing = self._outgoing
        pieces = outgoing.pieces
        size = 0
        for entry in entries:
            message = entry.message
            if (
                not entry.is_redelivered
                and message.properties is self._properties
                and message.address is self._address
                and pieces
                and self._is_repeatable
            ):
                # It repeats the message before: the same as `_write`, in place.
                if tag >> 8 != self._upper:
                    self._compose_head(tag)
                pieces.append(self._head)
                pieces.append(LAST_OCTETS[tag & 0xFF])
                pieces.append(self._middle)
                pieces.append(message.body)
                pieces.append(END)
                size += self._size + len(message.body)
            else:
                self._write(entry, tag)
            tag += 1
        outgoing.size += size

    def _write(self, entry: QueueEntry, tag: int) -> None:
        message = entry.message
        if entry.is_redelivered:
            self._write_again(entry, tag)
            return
        properties = message.properties
        if message.address is not self._address or properties is not self._properties:
            if (
                isinstance(properties, MessageProperties)
                and properties.content_channel == self._deliveries.number
                and len(message.body) <= self._deliveries.body_size_max
            ):
                self._pass_on(message, properties.content_head, tag)
                return
            message = self._deliveries.translator.for_amqp091(message)
            self._compose(message)
        body = message.body
        length = len(body)
        if length > self._deliveries.body_size_max:
            self._write_in_pieces(message, tag)
            return
        outgoing = self._outgoing
        pieces = outgoing.pieces
        if not pieces:
            outgoing.flush_list.append(outgoing)
        pieces.append(self._start)
        pieces.append(self._deliveries.upper_octets(tag))
        pieces.append(LAST_OCTETS[tag & 0xFF])
        pieces.append(self._middle)
        if length:
            pieces.append(body)
            pieces.append(END)
        outgoing.size += self._size + length

    def _pass_on(self, message: Message, content_head: bytes, tag: int) -> None:
        """Deliver a content whose frames are those that its publisher has sent."""
        outgoing = self._outgoing
        pieces = outgoing.pieces
        if not pieces:
            outgoing.flush_list.append(outgoing)
        address = message.address.octets()
        method_size = DELIVER_FIXED_SIZE + len(self._tag_octets) + len(address)
        pieces.append(self._frame_start)
        pieces.append(DELIVER_SIZES[method_size])
        if tag >> 8 != self._tagged_upper:
            self._tagged_upper = tag >> 8
            self._tagged_start = self._method_start + self._deliveries.upper_octets(tag)
        pieces.append(self._tagged_start)
        pieces.append(LAST_OCTETS_AND_FLAG[tag & 0xFF])
        pieces.append(address)
        pieces.append(content_head)
        pieces.append(message.body)
        pieces.append(END)
        outgoing.size += FRAME_HEAD_SIZE + method_size + len(content_head) + len(message.body) + 1

    def _compose(self, message: Message) -> None:
        """Keep the part of the frames from behind the delivery tag up to the body."""
        properties = properties_of(message)
        address = message.address.octets()
        self._middle = delivery_middle(
            self._channel_octets, address, properties.header, len(message.body)
        )
        self._address = message.address
        self._properties = properties
        self._is_repeatable = 0 < len(message.body) <= self._deliveries.body_size_max
        method_size = DELIVER_FIXED_SIZE + len(self._tag_octets) + len(address)
        if method_size != self._method_size:
            self._method_size = method_size
            self._start = delivery_start(self._channel_octets, self._method_start, method_size)
            self._upper = -1
        # Also the end of the body frame, which a message without a body does not have.
        self._size = len(self._start) + 8 + len(self._middle) + (1 if message.body else 0)

    def _compose_head(self, tag: int) -> None:
        """Keep the part up to the last octet of the delivery tag, for 256 tags."""
        self._upper = tag >> 8
        self._head = self._start + self._deliveries.upper_octets(tag)

    def _method(self, message: Message, tag: int, redelivered: bool) -> bytes:
        return deliver_method(self._method_start, tag, redelivered, message.address.octets())

    def _write_in_pieces(self, message: Message, tag: int) -> None:
        """A body that does not fit one frame of this connection."""
        self._deliveries.wire.send_content(
            self._deliveries.number,
            self._method(message, tag, False),
            properties_of(message).header,
            message.body,
        )

    def _write_again(self, entry: QueueEntry, tag: int) -> None:
        """A redelivery: flagged, and counted for queues that count deliveries."""
        self._deliveries.redelivered += 1
        message = self._deliveries.translator.for_amqp091(entry.message)
        properties = properties_of(message)
        if self.queue.counts_deliveries and entry.delivery_count:
            properties = properties.with_header(DELIVERY_COUNT, entry.delivery_count)
        self._deliveries.wire.send_content(
            self._deliveries.number,
            self._method(message, tag, True),
            properties.header,
            message.body,
        )

    def cancelled(self) -> None:
        self._listener.consumer_cancelled(self.tag)


class Getter(ChannelConsumer):
    """Stands for basic.get in the list of unacknowledged deliveries: it has no credit to give
    back and is not registered with its queue.
    """

    def settled(self, count: int) -> None:
        self._deliveries.settled(count)
        self.queue.touch()
