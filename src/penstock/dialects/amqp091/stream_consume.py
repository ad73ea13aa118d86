"""Deliveries from a stream: each carries its offset in the header `x-stream-offset`.

The offset is spliced into the content header's octets behind the other headers, so nothing is
decoded and encoded again. Of the frames in `consume`, `_middle` reaches up to the offset here and
`_rest` from behind it to the body; deliveries that repeat one another differ in delivery
tag, offset and body.
"""

from typing import Final

from penstock.broker.consumer import UNLIMITED
from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.amqp091.consume import CancelListener, ChannelConsumer
from penstock.dialects.amqp091.deliveries import Deliveries
from penstock.dialects.amqp091.properties import MessageProperties, properties_of
from penstock.formats.amqp091_delivery import (
    delivery_middle_after,
    delivery_middle_before,
)
from penstock.formats.amqp091_frames import CONTENT_HEADER_FIXED_SIZE, CONTENT_HEADER_SIZE_MIN, END
from penstock.formats.octets import LAST_OCTETS, read_u16, read_u32, write_u16, write_u32
from penstock.wire.amqp091.property_flags_generated import CONTENT_ENCODING, CONTENT_TYPE, HEADERS

OFFSET_HEADER: Final = "x-stream-offset"
_NAME: Final = OFFSET_HEADER.encode()
# The header as a field of a table up to its value: length of the name, name, type of 64 bits.
_FIELD: Final = bytes([len(_NAME)]) + _NAME + b"l"
_OFFSET_SIZE: Final = 8
_FIELD_SIZE: Final = len(_FIELD) + _OFFSET_SIZE


class SplicedHeader:
    """A content header in two parts, between which eight octets of offset belong."""

    def __init__(self, before: bytes, after: bytes) -> None:
        self.before: bytes = before
        self.after: bytes = after


def splice(properties: MessageProperties) -> SplicedHeader:
    header = properties.header
    start = properties.headers_start
    if start:
        size = read_u32(header, start)
        end = start + 4 + size
        before = [header[:start], write_u32(size + _FIELD_SIZE), header[start + 4 : end], _FIELD]
        return SplicedHeader(b"".join(before), header[end:])
    # There is no table yet: its place is after the first two properties.
    flags = read_u16(header, CONTENT_HEADER_FIXED_SIZE)
    at = CONTENT_HEADER_SIZE_MIN
    if flags & CONTENT_TYPE:
        at += 1 + header[at]
    if flags & CONTENT_ENCODING:
        at += 1 + header[at]
    before = [
        header[:CONTENT_HEADER_FIXED_SIZE],
        write_u16(flags | HEADERS),
        header[CONTENT_HEADER_SIZE_MIN:at],
        write_u32(_FIELD_SIZE),
        _FIELD,
    ]
    return SplicedHeader(b"".join(before), header[at:])


class StreamConsumer(ChannelConsumer):
    """A basic.consume of a stream. Held by the channel and by the stream."""

    def __init__(
        self,
        listener: CancelListener,
        deliveries: Deliveries,
        queue: MessageQueue,
        tag: str,
        exclusive: bool,
        prefetch: int,
    ) -> None:
        super().__init__(listener, deliveries, queue, tag, 0, exclusive, False)
        assert 0 < prefetch < UNLIMITED, "a stream's consumer has a prefetch limit"
        self.credit = prefetch
        self._rest: bytes = b""
        # Whether a repeat of the last message takes the short way: its body fits a frame, and no
        # offset of another stream stands in its header.
        self._is_short: bool = False

    def take(self, entry: QueueEntry) -> None:
        self.take_many([entry])

    def take_many(self, entries: list[QueueEntry]) -> None:
        deliveries = self._deliveries
        tag = deliveries.tag + 1
        count = len(entries)
        deliveries.tag = tag + count - 1
        deliveries.unacknowledged.add_many(tag, entries, self)
        self.credit -= count
        deliveries.credit -= count
        outgoing = self._outgoing
        for entry in entries:
            message = entry.message
            if message.address is not self._address or message.properties is not self._properties:
                message = deliveries.translator.for_amqp091(message)
                self._compose(message)
                self._compose_head(tag)
            elif tag >> 8 != self._upper:
                self._compose_head(tag)
            if self._is_short:
                pieces = outgoing.pieces
                if not pieces:
                    outgoing.flush_list.append(outgoing)
                pieces.append(self._head)
                pieces.append(LAST_OCTETS[tag & 0xFF])
                pieces.append(self._middle)
                pieces.append(entry.position.to_bytes(_OFFSET_SIZE, "big"))
                pieces.append(self._rest)
                if message.body:
                    pieces.append(message.body)
                    pieces.append(END)
                outgoing.size += self._size + _OFFSET_SIZE + len(self._rest) + len(message.body)
            else:
                self._write_long(message, entry.position, tag)
            tag += 1

    def _compose(self, message: Message) -> None:
        properties = properties_of(message)
        address = message.address.octets()
        super()._compose(message)
        self._is_short = (
            len(message.body) <= self._deliveries.body_size_max and _NAME not in properties.header
        )
        if not self._is_short:
            return
        spliced = splice(properties)
        channel = self._channel_octets
        size = len(spliced.before) + _OFFSET_SIZE + len(spliced.after)
        self._middle = delivery_middle_before(channel, address, size, spliced.before)
        self._rest = delivery_middle_after(channel, spliced.after, len(message.body))

    def _write_long(self, message: Message, offset: int, tag: int) -> None:
        """A body of several frames, or a header that has such an offset already."""
        self._deliveries.wire.send_content(
            self._deliveries.number,
            self._method(message, tag, False),
            properties_of(message).with_header(OFFSET_HEADER, offset).header,
            message.body,
        )
