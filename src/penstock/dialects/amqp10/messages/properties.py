"""The head of a message as the broker needs it: the facts it acts on, and the octets it passes on.

A head is header, message-annotations, properties and application-properties as the publisher wrote
them. It is decoded once when it is first seen, and a fault in it raises `Malformed`; from then on
all of it is known to be valid. Identical heads share one object.

The bare message (properties, application-properties, body) is never written anew. What the broker
adds goes into message annotations.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.message import NO_EXPIRATION, Address, Properties
from penstock.dialects.amqp10.messages.deaths import (
    DEATHS,
    DEATHS_ANNOTATION,
    deaths_array,
    deaths_of,
)
from penstock.dialects.amqp10.messages.message_head import (
    out_of_order,
    section_code,
    skip_section,
    value_start,
)
from penstock.dialects.amqp10.messages.neutral_values import (
    from_neutral,
    plain_text,
    text_of_identifier,
    to_neutral,
)
from penstock.formats.octets import Malformed, read_u32
from penstock.wire.amqp10.decoding import Reader
from penstock.wire.amqp10.encoding import encode_value, write_list, write_string
from penstock.wire.amqp10.fields import (
    boolean_field,
    encode_composite,
    fields_of,
    ubyte_field,
    uint_field,
)
from penstock.wire.amqp10.performatives_generated import (
    DATA,
    DELIVERY_ANNOTATIONS,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
)
from penstock.wire.amqp10.performatives_generated import Properties as PropertiesSection
from penstock.wire.amqp10.values import Symbol

# Routing keys besides the first: an annotation here, the header CC to the broker.
COPIES_ANNOTATION: Final = Symbol("x-cc")
COPIES: Final = "CC"
# Where a message was published to; the broker says so itself with every delivery.
EXCHANGE_ANNOTATION: Final = Symbol("x-exchange")
KEY_ANNOTATION: Final = Symbol("x-routing-key")
# AMQP 0-9-1's type, in RabbitMQ's name for it.
TYPE_ANNOTATION: Final = Symbol("x-basic-type")

_HEADER: Final = b"\x00\x53\x70"
_ANNOTATIONS: Final = b"\x00\x53\x72"
_EXCHANGE_KEY: Final = encode_value(EXCHANGE_ANNOTATION)
_ROUTING_KEY_KEY: Final = encode_value(KEY_ANNOTATION)
_UINT_MAX: Final = 2**32 - 1
_NOTHING: Final = PropertiesSection()


@mypyc_attr(acyclic=True)
class TransferProperties(Properties):
    """Shared and never changed. Made by `read_head`."""

    def __init__(self, head: bytes) -> None:
        super().__init__(False, 0, NO_EXPIRATION)
        self.head: bytes = head
        # As the header says them, if it does.
        self.durable: bool | None = None
        self.given_priority: int | None = None
        # Whether nobody had acquired the message before its publisher sent it here.
        self.first_acquirer: bool = False
        # Where the values of sections begin, behind their descriptors; 0 for those that are absent.
        self.annotations_start: int = 0
        self.properties_start: int = 0
        self.application_start: int = 0
        # The bare message's part of the head: head[bare_start:].
        self.bare_start: int = len(head)
        # Asked for with every publish.
        self._user_id: bytes | None = None
        self._to: str | None = None
        self._subject: str | None = None

    def encoded(self) -> bytes:
        return self.head

    def headers(self) -> dict[str, object]:
        """Application properties, and annotations whose name begins with `x-`. An annotation hides
        an application property of its name: the broker can change only the former.
        """
        headers: dict[str, object] = {}
        for key, value in self.application().items():
            if isinstance(key, str):
                headers[plain_text(key)] = to_neutral(value)
        for key, value in self.annotations().items():
            if not isinstance(key, str) or not key.startswith("x-"):
                continue
            if key == COPIES_ANNOTATION:
                headers[COPIES] = _texts(value)
                continue
            deaths = deaths_of(value) if key == DEATHS_ANNOTATION else None
            if deaths is not None:
                headers[DEATHS] = to_neutral(deaths)
            else:
                headers[plain_text(key)] = to_neutral(value)
        return headers

    def extra_keys(self) -> list[str]:
        return _texts(self.annotations().get(COPIES_ANNOTATION)) if self.has_extra_keys else []

    def text_of(self, name: str) -> str:
        if name == "type":
            return text_of_identifier(self.annotations().get(TYPE_ANNOTATION))
        section = self.section()
        if name == "timestamp":
            created = section.creation_time
            return "" if created is None else str(created // 1000)
        # AMQP 0-9-1's app-id crosses as group-id.
        return text_of_identifier(_field(section, "group_id" if name == "app_id" else name))

    def rewritten(self, headers: dict[str, object], drop_expiration: bool) -> Properties:
        before = self.headers()
        annotations = dict(self.annotations())
        for name in before:
            if name not in headers:
                annotations.pop(_annotation_of(name), None)
        for name, value in headers.items():
            if not name.startswith("x-") or not name.isascii():
                continue
            if name in before and before[name] == value:
                continue
            written = from_neutral(value)
            if name == DEATHS:
                deaths = deaths_array(written)
                if deaths is not None:
                    annotations[DEATHS_ANNOTATION] = deaths
                    continue
            annotations[Symbol(name)] = written
        lifetime = NO_EXPIRATION if drop_expiration else self.expiration_ms
        return self._with(annotations, lifetime)

    def with_annotations(self, changes: dict[str, object]) -> "TransferProperties":
        """More message annotations, or other values of those that are there (AMQP 1.0 values)."""
        annotations = dict(self.annotations())
        for name, value in changes.items():
            annotations[Symbol(name)] = value
        return self._with(annotations, self.expiration_ms)

    def _with(self, annotations: dict[object, object], lifetime: int) -> "TransferProperties":
        head = header_octets(self.durable, self.given_priority, lifetime, self.first_acquirer, 0)
        if annotations:
            head += _ANNOTATIONS + encode_value(annotations)
        return read_head(head + self.bare())

    def bare(self) -> bytes:
        """Properties and application properties as they were published."""
        return self.head[self.bare_start :]

    def annotations(self) -> dict[object, object]:
        return self._map_at(self.annotations_start)

    def application(self) -> dict[object, object]:
        return self._map_at(self.application_start)

    def _map_at(self, start: int) -> dict[object, object]:
        if start == 0:
            return {}
        value = Reader(self.head, start, len(self.head)).value()
        assert isinstance(value, dict), "checked when the head was read"
        return value

    def read_section(self, start: int) -> None:
        """The properties section begins here."""
        self.properties_start = start
        section = self.section()
        self._user_id = section.user_id
        self._to = _text(section.to)
        self._subject = section.subject

    def section(self) -> PropertiesSection:
        if self.properties_start == 0:
            return _NOTHING
        reader = Reader(self.head, self.properties_start, len(self.head))
        return PropertiesSection.decode(fields_of(reader))

    def user_id(self) -> bytes | None:
        return self._user_id

    def to(self) -> str | None:
        return self._to

    def subject(self) -> str | None:
        return self._subject

    def reply_to(self) -> str | None:
        return _text(self.section().reply_to)

    def message_id(self) -> object:
        return self.section().message_id

    def correlation_id(self) -> object:
        return self.section().correlation_id


def read_head(head: bytes) -> TransferProperties:
    """Raises `Malformed`. Everything in the head is decoded once, so that it can be later."""
    found = TransferProperties(head)
    size = len(head)
    at = 0
    previous = 0
    while at < size:
        code = section_code(head, at)
        if code <= previous or code >= DATA or code == DELIVERY_ANNOTATIONS:
            raise out_of_order(code)
        end = skip_section(head, at, code)
        start = value_start(head, at)
        if code == HEADER:
            _read_header(found, start, end)
        elif code == MESSAGE_ANNOTATIONS:
            found.annotations_start = start
            found.has_extra_keys = COPIES_ANNOTATION in _read_map(head, start, end)
        else:
            if previous < PROPERTIES:
                found.bare_start = at
            if code == PROPERTIES:
                found.read_section(start)
            else:
                found.application_start = start
                _read_map(head, start, end)
        previous = code
        at = end
    return found


def _read_header(found: TransferProperties, start: int, end: int) -> None:
    fields = fields_of(Reader(found.head, start, end))
    durable = fields.boolean()
    priority = fields.ubyte()
    lifetime = fields.uint()
    first_acquirer = fields.boolean()
    # The delivery count is between the publisher and us.
    fields.uint()
    fields.finish()
    found.first_acquirer = first_acquirer is True
    found.durable = durable
    found.given_priority = priority
    found.persistent = durable is True
    if priority is not None:
        found.priority = priority
        found.has_priority = True
    if lifetime is not None:
        found.expiration_ms = lifetime


def _read_map(head: bytes, start: int, end: int) -> dict[object, object]:
    value = Reader(head, start, end).value()
    if not isinstance(value, dict):
        raise Malformed(f"map expected, got {type(value).__name__}")
    return value


def composed_head(
    properties: TransferProperties, address: Address, delivery_count: int, is_first: bool
) -> bytes:
    """What a receiver gets before the body. `is_first` says whether nobody has acquired the message
    here; then first-acquirer is what the publisher said, and false otherwise.
    """
    pairs = [
        _EXCHANGE_KEY,
        write_string(plain_text(address.exchange)),
        _ROUTING_KEY_KEY,
        write_string(plain_text(address.routing_key)),
    ]
    return b"".join(
        [
            header_octets(
                # An absent one says the same as an explicit false.
                properties.durable or None,
                properties.given_priority,
                properties.expiration_ms,
                is_first and properties.first_acquirer,
                delivery_count,
            ),
            _ANNOTATIONS,
            _joined(properties, pairs),
            properties.bare(),
        ]
    )


def _joined(properties: TransferProperties, pairs: list[bytes]) -> bytes:
    """The annotations as they stand, with these in addition or instead."""
    start = properties.annotations_start
    if start == 0:
        return write_list(pairs, 0xC1)
    head = properties.head
    narrow = head[start] == 0xC1
    end = start + (2 + head[start + 1] if narrow else 5 + read_u32(head, start + 1))
    content_start = start + (3 if narrow else 9)
    content = head[content_start:end]
    if b"x-exchange" in content or b"x-routing-key" in content:
        annotations = properties.annotations()
        annotations.pop(EXCHANGE_ANNOTATION, None)
        annotations.pop(KEY_ANNOTATION, None)
        kept: list[bytes] = []
        for key, value in annotations.items():
            kept.append(encode_value(key))
            kept.append(encode_value(value))
        return write_list(kept + pairs, 0xC1)
    count = len(pairs) + (head[start + 2] if narrow else read_u32(head, start + 5))
    content += b"".join(pairs)
    if len(content) < 0xFF and count <= 0xFF:
        return bytes((0xC1, len(content) + 1, count)) + content
    sizes = (len(content) + 4).to_bytes(4, "big") + count.to_bytes(4, "big")
    return b"\xd1" + sizes + content


def header_octets(
    durable: bool | None,
    priority: int | None,
    lifetime: int,
    first_acquirer: bool,
    delivery_count: int,
) -> bytes:
    """The header section; empty when every field has its default."""
    says_lifetime = lifetime != NO_EXPIRATION
    if (
        durable is None
        and priority is None
        and not (says_lifetime or first_acquirer or delivery_count)
    ):
        return b""
    return encode_composite(
        _HEADER,
        [
            boolean_field(durable),
            ubyte_field(priority),
            uint_field(min(lifetime, _UINT_MAX) if says_lifetime else None),
            boolean_field(True if first_acquirer else None),
            uint_field(delivery_count or None),
        ],
    )


def _annotation_of(name: str) -> object:
    if name == COPIES:
        return COPIES_ANNOTATION
    return DEATHS_ANNOTATION if name == DEATHS else name


def _texts(value: object) -> list[str]:
    if not isinstance(value, list):
        return []
    return [plain_text(item) for item in value if isinstance(item, str)]


def _text(value: object) -> str | None:
    return plain_text(value) if isinstance(value, str) else None


def _field(section: PropertiesSection, name: str) -> object:
    for field, value in section.shown():
        if field == name:
            return value
    return None
