"""Messages of one dialect for clients of the other.

What both can express is passed on as it is, what only one has a field for gets a label
(`crossing/labels`): the table is in docs/design/translation.md. Where the way back would not lead
to the same message (an uuid among the application properties, a table that is not UTF-8), the
attributes are added a second time, as octets: `x-amqp-1.0-head` in the headers,
`x-opt-basic-properties` in the annotations. On the way back they are used only if they still agree
with the rest of the message; a header that a client has changed takes effect.

Invariants
- A valid message is translated, whatever it says, into one that every client can read.
- From AMQP 0-9-1 and back is the same message, and from AMQP 1.0 and back means the same.
- A message of the right dialect is returned as it is, the very same object.
"""

from typing import Final

from penstock.broker.message import NO_EXPIRATION, Message
from penstock.dialects.amqp091.properties import (
    BLIND_CARBON_COPY,
    MessageProperties,
    read_properties,
)
from penstock.dialects.amqp10.messages.message_head import section_code, skip_section, value_start
from penstock.dialects.amqp10.messages.properties import TransferProperties, read_head
from penstock.dialects.crossing.labels import ENCODED_TYPE
from penstock.dialects.crossing.parts import (
    BasicParts,
    content_header,
    take_apart_basic,
)
from penstock.dialects.crossing.round_trip import bare_head, basic_octets
from penstock.dialects.crossing.to_amqp10 import is_encoded
from penstock.dialects.crossing.typed_table import read_typed_table
from penstock.dialects.translator import Translator
from penstock.formats.amqp091_frames import CONTENT_HEADER_FIXED_SIZE
from penstock.formats.octets import Malformed
from penstock.wire.amqp091.content import PERSISTENT, BasicProperties
from penstock.wire.amqp10.decoding import Reader
from penstock.wire.amqp10.encoding import write_binary
from penstock.wire.amqp10.performatives_generated import DATA, FOOTER

# Translated attributes that are kept. Applications use few different ones, or a new one per
# message; above the number all are dropped. Longer ones are not kept at all.
KEPT_MAX: Final = 1024
KEPT_BYTES_MAX: Final = 1024

_DATA: Final = b"\x00\x53\x75"


class DialectTranslator(Translator):
    """Held by the node's container."""

    def __init__(self) -> None:
        # The translated attributes of messages with plain bodies.
        self._basic: dict[bytes, bytes] = {}
        self._bare: dict[bytes, TransferProperties] = {}

    def for_amqp091(self, message: Message) -> Message:
        properties = message.properties
        if not isinstance(properties, TransferProperties):
            return message
        opened = open_body(message.body)
        octets: bytes | None = None
        is_simple = not opened.is_encoded and not opened.footer
        if is_simple:
            octets = self._basic.get(properties.head)
        if octets is None:
            octets = basic_octets(properties, opened.is_encoded, opened.footer)
            if is_simple and len(properties.head) <= KEPT_BYTES_MAX:
                if len(self._basic) >= KEPT_MAX:
                    self._basic.clear()
                self._basic[properties.head] = octets
        translated = read_properties(content_header(len(opened.content), octets))
        return Message(message.address, translated, opened.content, message.origin)

    def for_amqp10(self, message: Message) -> Message:
        properties = message.properties
        if not isinstance(properties, MessageProperties):
            return message
        octets = properties.header[CONTENT_HEADER_FIXED_SIZE:]
        known = self._bare.get(octets)
        if known is not None:
            body = _DATA + write_binary(message.body)
            return Message(message.address, known, body, message.origin)
        parts = _parts_of(properties)
        body_is_encoded = is_encoded(parts.basic.type_, message.body)
        translated, footer = bare_head(parts, body_is_encoded)
        body = message.body if body_is_encoded else _DATA + write_binary(message.body)
        is_simple = parts.basic.type_ != ENCODED_TYPE and not footer
        if is_simple and len(octets) <= KEPT_BYTES_MAX:
            if len(self._bare) >= KEPT_MAX:
                self._bare.clear()
            self._bare[octets] = translated
        return Message(message.address, translated, body + footer, message.origin)


def as_amqp091(head: bytes, body_is_encoded: bool, footer: bytes) -> bytes:
    """The head of an AMQP 1.0 message as AMQP 0-9-1's property flags and properties, for callers
    that have a stored message and no broker. `open_body` translates the body.
    """
    return basic_octets(read_head(head), body_is_encoded, footer)


class OpenedBody:
    """An AMQP 1.0 body as AMQP 0-9-1 carries it."""

    def __init__(self, content: bytes, body_is_encoded: bool, footer: bytes) -> None:
        self.content: bytes = content
        # Values and sequences stay encoded, footer and all.
        self.is_encoded: bool = body_is_encoded
        self.footer: bytes = footer


def open_body(body: bytes) -> OpenedBody:
    pieces: list[bytes] = []
    at = 0
    while at < len(body):
        code = section_code(body, at)
        if code == FOOTER:
            break
        if code != DATA:
            return OpenedBody(body, True, b"")
        end = skip_section(body, at, code)
        reader = Reader(body, value_start(body, at), end)
        pieces.append(reader.octets(reader.octet()))
        at = end
    return OpenedBody(b"".join(pieces), False, body[at:])


def _parts_of(properties: MessageProperties) -> BasicParts:
    """What consumers may see of it."""
    try:
        parts = take_apart_basic(properties.header[CONTENT_HEADER_FIXED_SIZE:])
    except Malformed:
        # The broker does not check texts that it passes on; in AMQP 1.0 all must be UTF-8.
        basic = BasicProperties(
            delivery_mode=PERSISTENT if properties.persistent else None,
            priority=properties.priority or None,
        )
        if properties.expiration_ms != NO_EXPIRATION:
            basic.expiration = str(properties.expiration_ms)
        parts = BasicParts(basic, None)
        if properties.headers_start:
            parts.headers = read_typed_table(properties.header, properties.headers_start)
    if properties.has_blind_copies and parts.headers is not None:
        del parts.headers[BLIND_CARBON_COPY]
        parts.original = b""
    return parts
