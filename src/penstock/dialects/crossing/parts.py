"""A message's attributes taken apart, for both dialects, and put together again.

Header values are AMQP 1.0's on both sides (`typed_table`). Facts are for comparing: two messages
with the same facts mean the same to every client, in whatever order their headers stand.
"""

from penstock.broker.message import NO_EXPIRATION
from penstock.dialects.amqp10.messages.properties import (
    EXCHANGE_ANNOTATION,
    KEY_ANNOTATION,
    TransferProperties,
    header_octets,
)
from penstock.dialects.crossing.typed_table import (
    fields_in,
    read_typed_table,
    write_typed_table,
)
from penstock.formats.amqp091_frames import CONTENT_HEADER_FIXED_SIZE, CONTENT_HEADER_START
from penstock.formats.octets import write_u64
from penstock.wire.amqp091.content import (
    BasicProperties,
    decode_properties,
    encode_properties,
    scan_properties,
)
from penstock.wire.amqp10.encoding import encode_value
from penstock.wire.amqp10.performatives_generated import (
    ApplicationProperties,
    MessageAnnotations,
)
from penstock.wire.amqp10.performatives_generated import Properties as PropertiesSection


class BasicParts:
    """An AMQP 0-9-1 message but for its body."""

    def __init__(self, basic: BasicProperties, headers: dict[str, object] | None) -> None:
        # Without its headers, which are here.
        self.basic: BasicProperties = basic
        self.headers: dict[str, object] | None = headers
        # The octets that they were read from, if they were.
        self.original: bytes = b""

    def octets(self) -> bytes:
        """Property flags and properties."""
        if self.original:
            return self.original
        if self.headers is None:
            return encode_properties(self.basic)
        self.basic.headers = {}
        octets = encode_properties(self.basic)
        self.basic.headers = None
        # The empty table comes after the first two properties.
        at = 2
        for text in (self.basic.content_type, self.basic.content_encoding):
            if text is not None:
                at += 1 + octets[at]
        return octets[:at] + write_typed_table(self.headers) + octets[at + 4 :]


class BareParts:
    """An AMQP 1.0 message but for its body."""

    def __init__(self) -> None:
        self.durable: bool | None = None
        self.priority: int | None = None
        self.lifetime: int = NO_EXPIRATION
        self.first_acquirer: bool = False
        self.annotations: dict[object, object] = {}
        self.section: PropertiesSection = PropertiesSection()
        # None when there is no section; an empty one says that there is an empty table of headers.
        self.application: dict[object, object] | None = None
        # With its descriptor; empty when there is none, or when it is part of an encoded body.
        self.footer: bytes = b""

    def head(self) -> bytes:
        pieces = [header_octets(self.durable, self.priority, self.lifetime, self.first_acquirer, 0)]
        if self.annotations:
            pieces.append(MessageAnnotations(self.annotations).encode())
        section = self.section.encode()
        # Descriptor and empty list.
        if len(section) > 4:
            pieces.append(section)
        if self.application is not None:
            pieces.append(ApplicationProperties(self.application).encode())
        return b"".join(pieces)

    def facts(self) -> list[bytes]:
        facts = [
            header_octets(self.durable, self.priority, self.lifetime, False, 0),
            self.section.encode(),
            self.footer,
        ]
        annotations = dict(self.annotations)
        # Set anew with every delivery.
        annotations.pop(EXCHANGE_ANNOTATION, None)
        annotations.pop(KEY_ANNOTATION, None)
        facts.extend(_sorted(annotations))
        facts.append(b"")
        facts.extend(_sorted(self.application or {}))
        return facts


def _sorted(pairs: dict[object, object]) -> list[bytes]:
    return sorted([encode_value(key) + encode_value(value) for key, value in pairs.items()])


def content_header(body_size: int, octets: bytes) -> bytes:
    return CONTENT_HEADER_START + write_u64(body_size) + octets


def take_apart_basic(octets: bytes) -> BasicParts:
    """Of property flags and properties. Raises `Malformed`, also for texts that are not UTF-8."""
    header = content_header(0, octets)
    start = scan_properties(header).headers_start
    headers = read_typed_table(header, start) if start else None
    basic = decode_properties(header)
    basic.headers = None
    parts = BasicParts(basic, headers)
    parts.original = octets
    return parts


def basic_facts(octets: bytes) -> list[bytes]:
    """Of property flags and properties; types count to the letter."""
    header = content_header(0, octets)
    found = scan_properties(header)
    start = found.headers_start
    if start == 0:
        return [octets]
    facts = [header[CONTENT_HEADER_FIXED_SIZE:start], header[found.headers_end :]]
    facts.extend(sorted(fields_in(header, start)))
    return facts


def take_apart_bare(properties: TransferProperties, footer: bytes) -> BareParts:
    parts = BareParts()
    parts.durable = properties.durable
    parts.priority = properties.given_priority
    parts.lifetime = properties.expiration_ms
    parts.annotations = properties.annotations()
    parts.section = properties.section()
    parts.application = properties.application() if properties.application_start else None
    parts.footer = footer
    return parts
