"""What stands in the head of a message: headers as texts, and properties. Either dialect's.

A head as the broker stores it is the payload of an AMQP 0-9-1 content header, which begins with
the class number 00 3C, or the sections of an AMQP 1.0 message that come before its body.
"""

from __future__ import annotations

import json
import uuid
from typing import Any, Final

from penstock.wire.amqp091.content import PERSISTENT, decode_properties
from penstock.wire.amqp091.field_table import Timestamp
from penstock.wire.amqp10.decoding import Reader
from penstock.wire.amqp10.performatives_generated import (
    AMQP_VALUE,
    DATA,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    Header,
)
from penstock.wire.amqp10.performatives_generated import Properties as PropertiesSection
from penstock.wire.amqp10.sections import Sections
from penstock.wire.amqp10.values import Array, Uuid
from penstock.wire.octets import Malformed

AMQP091_CLASS: Final = b"\x00\x3c"
# Class, weight and body size; what follows is the same for messages that differ only in size.
AMQP091_FIXED_SIZE: Final = 12
_FIXED: Final = AMQP091_CLASS + bytes(AMQP091_FIXED_SIZE - 2)
_MICROSECONDS: Final = 1_000_000
# Where a timestamp of Spark ends, year 9999; a publisher may write anything.
_SECONDS_MAX: Final = 253_402_300_799


class Head:
    """Decoded for the columns `headers`, `properties` and `id`."""

    __slots__ = ("headers", "properties")

    def __init__(
        self, headers: list[tuple[str, str | None]] | None, properties: dict[str, Any] | None
    ) -> None:
        self.headers = headers
        self.properties = properties

    @property
    def id(self) -> str | None:
        return None if self.properties is None else self.properties["message_id"]


# A head that cannot be read. Brokers do not store such; a row with nulls is better than no rows.
UNREADABLE: Final = Head(None, None)


def decode_property_list(octets: bytes) -> Head:
    """An AMQP 0-9-1 head without its first `AMQP091_FIXED_SIZE` octets."""
    return decode_head(_FIXED + octets)


def decode_head(octets: bytes) -> Head:
    try:
        if octets[:2] == AMQP091_CLASS:
            return _decode_091(octets)
        return _decode_10(octets)
    except (Malformed, ValueError):
        return UNREADABLE


def _decode_091(octets: bytes) -> Head:
    found = decode_properties(octets)
    headers = [(clean(name), text_of(value)) for name, value in (found.headers or {}).items()]
    return Head(
        headers,
        {
            "content_type": _clean(found.content_type),
            "content_encoding": _clean(found.content_encoding),
            "delivery_mode": found.delivery_mode,
            "priority": found.priority,
            "correlation_id": _clean(found.correlation_id),
            "reply_to": _clean(found.reply_to),
            "expiration": _clean(found.expiration),
            "message_id": _clean(found.message_id),
            "timestamp": _seconds(found.timestamp),
            "type": _clean(found.type_),
            "user_id": _clean(found.user_id),
            "app_id": _clean(found.app_id),
        },
    )


def _decode_10(octets: bytes) -> Head:
    sections = Sections(octets)
    headers: dict[str, str | None] = {}
    for name, value in sections.application_properties().items():
        headers[clean(str(name))] = text_of(value)
    annotations = _annotations(sections)
    for name, value in annotations.items():
        if isinstance(name, str) and name.startswith("x-"):
            headers[clean(str(name))] = text_of(value)
    header = sections.decode(HEADER)
    if not isinstance(header, Header):
        header = Header()
    section = sections.decode(PROPERTIES)
    if not isinstance(section, PropertiesSection):
        section = PropertiesSection()
    created = section.creation_time
    return Head(
        list(headers.items()),
        {
            "content_type": _identifier(section.content_type),
            "content_encoding": _identifier(section.content_encoding),
            "delivery_mode": PERSISTENT if header.durable else None,
            "priority": header.priority,
            "correlation_id": _identifier(section.correlation_id),
            "reply_to": _identifier(section.reply_to),
            "expiration": None if header.ttl is None else str(header.ttl),
            "message_id": _identifier(section.message_id),
            "timestamp": None if created is None else _seconds(int(created) // 1000),
            "type": _identifier(annotations.get("x-basic-type")),
            "user_id": _identifier(section.user_id),
            "app_id": _identifier(section.group_id),
        },
    )


def _annotations(sections: Sections) -> dict[object, object]:
    octets = sections.octets(MESSAGE_ANNOTATIONS)
    if not octets:
        return {}
    reader = Reader(octets, 0, len(octets))
    reader.described_as()
    value = reader.value()
    return value if isinstance(value, dict) else {}


def decode_body(octets: bytes) -> bytes:
    """The body of an AMQP 1.0 message: the octets of its data sections, the text or octets of its
    value; anything else stays encoded as it is.
    """
    try:
        sections = Sections(octets)
        values = _body_values(octets)
    except (Malformed, ValueError):
        return octets
    if sections.body_kind == DATA:
        return b"".join([value for value in values if isinstance(value, bytes)])
    if sections.body_kind == AMQP_VALUE and isinstance(values[0], bytes):
        return values[0]
    if sections.body_kind == AMQP_VALUE and isinstance(values[0], str):
        return values[0].encode(errors="surrogateescape")
    return octets


def _body_values(octets: bytes) -> list[object]:
    reader = Reader(octets, 0, len(octets))
    values: list[object] = []
    while reader.at < len(octets):
        reader.described_as()
        values.append(reader.value())
    return values


def text_of(value: object) -> str | None:
    """A header's value as text: what is no text is written as JSON has it."""
    if value is None or isinstance(value, str):
        return _clean(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, Timestamp):
        return str(value.seconds)
    if isinstance(value, Uuid):
        return str(uuid.UUID(bytes=value.octets))
    if isinstance(value, Array):
        value = value.items
    if isinstance(value, bool | int | float | list | dict):
        return json.dumps(value, default=_json_of, ensure_ascii=False)
    return clean(str(value))


def _json_of(value: object) -> object:
    return text_of(value)


def clean(text: str) -> str:
    """Octets that are no UTF-8 came as lone surrogates, which Arrow does not take."""
    if text.isascii():
        return text
    return text.encode(errors="surrogateescape").decode(errors="replace")


def _clean(text: str | None) -> str | None:
    return None if text is None else clean(text)


def _identifier(value: object) -> str | None:
    return None if value is None else text_of(value)


def _seconds(seconds: int | None) -> int | None:
    """In microseconds, as Arrow has it; None for what is no date."""
    if seconds is None or not 0 <= seconds <= _SECONDS_MAX:
        return None
    return seconds * _MICROSECONDS
