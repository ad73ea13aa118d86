"""A content header as the broker needs it: the facts it acts on, and the bytes it passes on.

A header is scanned when it is first seen, with every text and the table in it; a fault in it is its
publisher's error, and from then on all of it is known to be valid. The same object serves every
message with the same header bytes, body size included; a header that names its message is not kept
for others.
"""

import re
from decimal import Decimal
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.header_values import Long, Timestamp
from penstock.broker.message import NO_EXPIRATION, Message, Properties
from penstock.broker.names import NAME_OCTETS_MAX
from penstock.formats.amqp091_frames import FRAME_HEAD_SIZE
from penstock.formats.octets import Malformed
from penstock.wire.amqp091.content import (
    PERSISTENT,
    BasicProperties,
    ScannedProperties,
    body_size_of,
    decode_properties,
    encode_header,
    scan_properties,
)
from penstock.wire.amqp091.errors import ChannelFault
from penstock.wire.amqp091.field_table import (
    DEPTH_MAX,
    check_table,
    decode_table,
    is_field_decimal,
)
from penstock.wire.amqp091.field_table import Long as WireLong
from penstock.wire.amqp091.field_table import Timestamp as WireTimestamp
from penstock.wire.amqp091.property_flags_generated import CORRELATION_ID, MESSAGE_ID
from penstock.wire.amqp091.reply_codes_generated import PRECONDITION_FAILED

CARBON_COPY: Final = "CC"
BLIND_CARBON_COPY: Final = "BCC"
# The longest expiration, RabbitMQ's: a hundred years of milliseconds.
EXPIRATION_MS_MAX: Final = 1000 * 86400 * 365 * 100
_EXPIRATION: Final = re.compile(r"([+-]?[0-9]+)(.*)", re.DOTALL)
# The octet of a field table before a timestamp; without it nothing needs to be looked for.
_TIMESTAMP_TYPE: Final = b"T"
# The bytes around the header in `MessageProperties.content_head`: the method's frame-end and the
# head of the header frame before it, its frame-end and the head of the body frame behind it.
CONTENT_HEAD_START: Final = 1 + FRAME_HEAD_SIZE
CONTENT_HEAD_END: Final = 1 + FRAME_HEAD_SIZE
# The end of the names of both copies.
_COPIES: Final = b"CC"
_NO_HEADERS: Final[dict[str, object]] = {}
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
# A name of this many characters fits a field table however it is encoded.
_SHORT_NAME_LENGTH: Final = NAME_OCTETS_MAX // 4


@mypyc_attr(acyclic=True)
class MessageProperties(Properties):
    """Shared and never changed, but for what is decoded when first asked for."""

    def __init__(self, header: bytes, persistent: bool, priority: int, expiration_ms: int) -> None:
        super().__init__(persistent, priority, expiration_ms)
        self._header: bytes = header
        # All octets between method and body, as the channel of this number sent them; see
        # `came_as`.
        self.content_head: bytes = b""
        self.content_channel: int = 0
        self.user_id: str | None = None
        self.reply_to: str | None = None
        # Where the headers table is in the header, with its size octets; 0 when there is none.
        self.headers_start: int = 0
        self.has_blind_copies: bool = False
        # False only for what was stored before texts were checked.
        self.is_utf8: bool = True
        # False when a publish of this must look at more than its target.
        self.is_plain: bool = True

    @property
    def header(self) -> bytes:
        """The payload of the header frame."""
        if not self._header:
            return self.content_head[CONTENT_HEAD_START:-CONTENT_HEAD_END]
        return self._header

    def came_as(self, head: bytes, channel: int) -> None:
        """For a single message: keep its frames instead of the header that they contain, for
        delivery.
        """
        if head:
            self.content_head = head
            self.content_channel = channel
            self._header = b""

    def encoded(self) -> bytes:
        return self.header

    def headers(self) -> dict[str, object]:
        if self.headers_start == 0:
            return _NO_HEADERS
        headers = decode_table(self.header, self.headers_start)
        # Not `in`, which takes its argument for a number first and costs twice as much.
        return headers if self.header.find(_TIMESTAMP_TYPE) < 0 else headers_from_wire(headers)

    def text_of(self, name: str) -> str:
        value = _property(decode_properties(self.header), name)
        return "" if value is None else str(value)

    def extra_keys(self) -> list[str]:
        headers = self.headers()
        keys: list[str] = []
        for name in (CARBON_COPY, BLIND_CARBON_COPY):
            values = headers.get(name)
            if isinstance(values, list):
                keys.extend([value for value in values if isinstance(value, str)])
        return keys

    def rewritten(self, headers: dict[str, object], drop_expiration: bool) -> Properties:
        properties = decode_properties(self.header)
        properties.headers = headers_for_wire(headers)
        if drop_expiration:
            properties.expiration = None
        return self._encoded(properties)

    def with_header(self, name: str, value: int) -> "MessageProperties":
        """One header more, or another value of one that is there."""
        properties = decode_properties(self.header)
        headers = dict(properties.headers or {})
        headers[name] = WireLong(value)
        properties.headers = headers
        return self._encoded(properties)

    def with_reply_to(self, reply_to: str) -> "MessageProperties":
        properties = decode_properties(self.header)
        properties.reply_to = reply_to
        return self._encoded(properties)

    def as_delivered(self) -> "MessageProperties":
        """What consumers may see: without the blind copies."""
        if not self.has_blind_copies:
            return self
        properties = decode_properties(self.header)
        headers = dict(properties.headers or {})
        headers.pop(BLIND_CARBON_COPY, None)
        properties.headers = headers
        return self._encoded(properties)

    def _encoded(self, properties: BasicProperties) -> "MessageProperties":
        return read_stored_properties(encode_header(body_size_of(self.header), properties))


def _property(properties: BasicProperties, name: str) -> object:
    if name == "message_id":
        return properties.message_id
    if name == "correlation_id":
        return properties.correlation_id
    if name == "timestamp":
        return properties.timestamp
    if name == "type":
        return properties.type_
    if name == "reply_to":
        return properties.reply_to
    if name == "user_id":
        return properties.user_id
    if name == "app_id":
        return properties.app_id
    if name == "group_id":
        # As where messages cross to AMQP 1.0.
        return properties.app_id
    if name == "content_type":
        return properties.content_type
    if name == "content_encoding":
        return properties.content_encoding
    return None


def is_single(header: bytes) -> bool:
    """Whether a content header names its message, so that no other one will be like it."""
    return (header[12] << 8 | header[13]) & (MESSAGE_ID | CORRELATION_ID) != 0


def no_properties() -> MessageProperties:
    """The properties of a message without any property and body."""
    return read_properties(encode_header(0, BasicProperties()))


def properties_of(message: Message) -> MessageProperties:
    """A message's properties as this dialect wrote them."""
    properties = message.properties
    assert isinstance(properties, MessageProperties), "translated before it is delivered"
    return properties


def read_properties(header: bytes) -> MessageProperties:
    """Raises a channel error for what RabbitMQ refuses too, and `Malformed` for what cannot be
    decoded: also a text that is not UTF-8, which RabbitMQ passes on.
    """
    return _properties_of(header, scan_properties(header))


def read_stored_properties(header: bytes) -> MessageProperties:
    """Read a header that was accepted before. Journals of earlier versions hold texts that are not
    UTF-8: such a message keeps its octets.
    """
    try:
        return read_properties(header)
    except Malformed:
        properties = _properties_of(header, scan_properties(header, False))
        properties.is_utf8 = False
        return properties


def _properties_of(header: bytes, scanned: ScannedProperties) -> MessageProperties:
    if scanned.delivery_mode > PERSISTENT:
        raise _invalid(f"invalid message: {{delivery_mode_unknown,{scanned.delivery_mode}}}")
    expiration_ms = NO_EXPIRATION
    if scanned.expiration is not None:
        expiration_ms = _milliseconds(scanned.expiration)
    properties = MessageProperties(
        header, scanned.delivery_mode == PERSISTENT, max(scanned.priority, 0), expiration_ms
    )
    properties.has_priority = scanned.priority >= 0
    properties.user_id = scanned.user_id
    properties.reply_to = scanned.reply_to
    properties.headers_start = scanned.headers_start
    properties.is_plain = scanned.user_id is None and scanned.reply_to is None
    if scanned.headers_start:
        _look_for_copies(properties)
    return properties


def _look_for_copies(properties: MessageProperties) -> None:
    # A malformed table is never passed to consumers.
    if properties.header.find(_COPIES) < 0:
        check_table(properties.header, properties.headers_start)
        return
    headers = properties.headers()
    for name in (CARBON_COPY, BLIND_CARBON_COPY):
        if name not in headers:
            continue
        if not isinstance(headers[name], list):
            kind = "longstr" if isinstance(headers[name], str) else type(headers[name]).__name__
            raise _invalid(f'invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}')
        properties.has_extra_keys = True
        properties.is_plain = False
        if name == BLIND_CARBON_COPY:
            properties.has_blind_copies = True


def _milliseconds(expiration: str) -> int:
    match = _EXPIRATION.match(expiration)
    if match is None:
        raise _invalid(f"invalid expiration '{expiration}': no_integer")
    rest = match.group(2)
    if rest:
        raise _invalid(f"invalid expiration '{expiration}': {{leftover_string,\"{rest}\"}}")
    value = int(match.group(1))
    if value < 0:
        raise _invalid(f"invalid expiration '{expiration}': {{value_negative,{value}}}")
    if value > EXPIRATION_MS_MAX:
        raise _invalid(f"invalid expiration '{expiration}': {{value_too_large,{value}}}")
    return value


def _invalid(text: str) -> ChannelFault:
    return ChannelFault(PRECONDITION_FAILED, text)


def headers_from_wire(headers: dict[str, object]) -> dict[str, object]:
    """With the broker's own timestamps in place of the wire's."""
    return {name: _from_wire(value) for name, value in headers.items()}


def _from_wire(value: object) -> object:
    if isinstance(value, WireTimestamp):
        return Timestamp(value.seconds)
    if isinstance(value, dict):
        return headers_from_wire(value)
    if isinstance(value, list):
        return [_from_wire(item) for item in value]
    return value


def headers_for_wire(headers: dict[str, object]) -> dict[str, object]:
    """The broker's own header values as field-table values. Total: what came as AMQP 1.0 (with the
    outcome `modified`) and has no field type is written as text, and values that a table cannot
    hold are left out; the message is kept in any case.
    """
    return _table_for_wire(headers, 1)


def _table_for_wire(table: dict[str, object], depth: int) -> dict[str, object]:
    return {
        name: _for_wire(value, depth)
        for name, value in table.items()
        if len(name) <= _SHORT_NAME_LENGTH
        or len(name.encode(errors="surrogateescape")) <= NAME_OCTETS_MAX
    }


def _for_wire(value: object, depth: int) -> object:
    if isinstance(value, (str, bool, float, bytes)) or value is None:
        return value
    if isinstance(value, int):
        return value if _INT64_MIN <= value <= _INT64_MAX else str(value)
    if isinstance(value, Long):
        return WireLong(value.value)
    if isinstance(value, Timestamp):
        return WireTimestamp(value.seconds) if value.seconds >= 0 else WireLong(value.seconds)
    if isinstance(value, Decimal):
        return value if is_field_decimal(value) else str(value)
    if depth >= DEPTH_MAX:
        return None
    if isinstance(value, dict):
        return _table_for_wire(value, depth + 1)
    if isinstance(value, list):
        return [_for_wire(item, depth + 1) for item in value]
    return value
