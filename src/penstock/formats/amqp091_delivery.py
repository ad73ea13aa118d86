"""A delivery of AMQP 0-9-1: basic.deliver, content header and body, each a frame (`amqp091_frames`).

    01 channel size | 00 3C 00 3C consumer-tag delivery-tag redelivered exchange key | CE
    02 channel size | 00 3C 00 00 body-size flags properties                         | CE
    03 channel size | body                                                           | CE

A message without a body has no body frame. In the method, consumer tag, exchange and key are short
strings, the delivery tag has eight octets and redelivered is one. Deliveries to one consumer mostly
repeat one another: they differ in delivery tag and body only. So they are written from cached
parts:

    start | delivery tag | middle                                    | body | CE
    01 .. consumer-tag   | redelivered .. CE 02 .. CE 03 channel size

In a delivery from a stream the offset differs, too; it is in the middle, which then has two parts.
"""

from typing import Final

from penstock.formats.amqp091_frames import BODY, END, HEADER, METHOD
from penstock.formats.octets import SHORT_STRING_BYTES_MAX, write_u32, write_u64

DELIVER: Final = b"\x00\x3c\x00\x3c"
# Octets of a deliver method beside consumer tag and address: ids, tag length, delivery tag, flag.
DELIVER_FIXED_SIZE: Final = 4 + 1 + 8 + 1
# Where the method has its consumer tag, and the size of what is between that and the address.
CONSUMER_TAG_AT: Final = 4
TAG_AND_FLAG_SIZE: Final = 8 + 1
NOT_REDELIVERED: Final = b"\x00"
REDELIVERED: Final = b"\x01"
# Every possible last octet of a delivery tag with the flag of a first delivery.
LAST_OCTETS_AND_FLAG: Final = [bytes([octet, 0]) for octet in range(256)]
# Every possible size of a deliver method: consumer tag, exchange and key are short strings.
DELIVER_SIZES: Final = [
    write_u32(size) for size in range(DELIVER_FIXED_SIZE + SHORT_STRING_BYTES_MAX * 3 + 2 + 1)
]


def deliver_opening(consumer_tag: bytes) -> bytes:
    """The method up to its delivery tag."""
    return b"".join([DELIVER, bytes([len(consumer_tag)]), consumer_tag])


def delivery_start(channel: bytes, opening: bytes, method_size: int) -> bytes:
    """The part before the delivery tag. `channel` is its number in two octets."""
    return b"".join([METHOD, channel, DELIVER_SIZES[method_size], opening])


def delivery_middle(channel: bytes, address: bytes, header: bytes, body_size: int) -> bytes:
    """The part from the delivery tag to the body, or to the end of a delivery without one."""
    parts = [NOT_REDELIVERED, address, END, HEADER, channel, write_u32(len(header)), header, END]
    if body_size:
        parts += [BODY, channel, write_u32(body_size)]
    return b"".join(parts)


def delivery_middle_before(
    channel: bytes, address: bytes, header_size: int, header_start: bytes
) -> bytes:
    """The part before the offset, of a middle with an offset in its header."""
    parts = [NOT_REDELIVERED, address, END, HEADER, channel, write_u32(header_size), header_start]
    return b"".join(parts)


def delivery_middle_after(channel: bytes, header_rest: bytes, body_size: int) -> bytes:
    """The part from the offset to the body."""
    parts = [header_rest, END]
    if body_size:
        parts += [BODY, channel, write_u32(body_size)]
    return b"".join(parts)


def deliver_method(opening: bytes, delivery_tag: int, redelivered: bool, address: bytes) -> bytes:
    """The payload of the method's frame."""
    return b"".join(
        [
            opening,
            write_u64(delivery_tag),
            REDELIVERED if redelivered else NOT_REDELIVERED,
            address,
        ]
    )
