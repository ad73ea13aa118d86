"""Messages of either dialect, sent across, and what they say."""

from __future__ import annotations

from penstock.broker.message import Address, Message
from penstock.dialects.amqp091.properties import MessageProperties, read_stored_properties
from penstock.dialects.amqp10.messages.message_head import divide_message
from penstock.dialects.amqp10.messages.properties import (
    TransferProperties,
    composed_head,
    read_head,
)
from penstock.dialects.crossing.labels import PROPERTIES_ANNOTATION
from penstock.dialects.crossing.round_trip import PROPERTIES_BYTES_MAX
from penstock.dialects.translate import DialectTranslator
from penstock.wire.amqp091.content import BasicProperties, decode_properties, encode_header
from penstock.wire.amqp091.field_table import encode_table
from penstock.wire.amqp10.encoding import encode_value
from penstock.wire.amqp10.values import (
    Composite,
    Symbol,
    Uuid,
)

ADDRESS = Address("x", "key", b"")
LABEL = Symbol(PROPERTIES_ANNOTATION)
UUID = Uuid(bytes(range(16)))
UUID_TEXT = "urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f"


def basic_message(properties: BasicProperties, body: bytes = b"body") -> Message:
    return octets_message(encode_header(len(body), properties), body)


def octets_message(header: bytes, body: bytes) -> Message:
    return Message(ADDRESS, read_stored_properties(header), body, 7)


def bare_message(*sections: Composite) -> Message:
    head, body, _ = divide_message(b"".join([section.encode() for section in sections]))
    return Message(ADDRESS, read_head(head), body, 7)


def to_bare(message: Message) -> Message:
    """As a receiver gets it and, if it forwards it, sends it again."""
    crossed = DialectTranslator().for_amqp10(message)
    properties = head_of(crossed)
    assert crossed.address is message.address
    assert crossed.origin == message.origin
    assert divide_message(properties.head + crossed.body)[:2] == (properties.head, crossed.body)
    payload = composed_head(properties, message.address, 1, True) + crossed.body
    divide_message(payload)
    return crossed


def to_basic(message: Message) -> Message:
    crossed = DialectTranslator().for_amqp091(message)
    properties = crossed.properties
    assert isinstance(properties, MessageProperties)
    assert len(properties.header) <= PROPERTIES_BYTES_MAX + 12
    assert int.from_bytes(properties.header[4:12], "big") == len(crossed.body)
    decode_properties(properties.header)
    return crossed


def basic_of(message: Message) -> BasicProperties:
    assert isinstance(message.properties, MessageProperties)
    return decode_properties(message.properties.header)


def headers_of(message: Message) -> dict[str, object]:
    return basic_of(message).headers or {}


def said(message: Message) -> list[bytes]:
    """What an AMQP 0-9-1 message says, in whatever order its headers stand."""
    basic = basic_of(message)
    headers = basic.headers
    basic.headers = None if headers is None else {}
    facts = [encode_header(0, basic), message.body]
    return facts + sorted(encode_table({name: item}) for name, item in (headers or {}).items())


def head_of(message: Message) -> TransferProperties:
    assert isinstance(message.properties, TransferProperties)
    return message.properties


def meaning(message: Message) -> list[object]:
    """What an AMQP 1.0 message says, type by type, whatever the order and width of encodings."""
    head = head_of(message)
    maps = []
    for pairs in (head.annotations(), head.application()):
        maps.append(sorted(encode_value(key) + encode_value(item) for key, item in pairs.items()))
    header = (head.durable, head.given_priority, head.expiration_ms)
    return [header, maps, head.section().encode(), message.body]
