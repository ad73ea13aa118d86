"""The head of a message of either dialect: headers and properties.

A head as the broker stores it is the payload of an AMQP 0-9-1 content header, which begins with
the class number 00 3C, or the sections of an AMQP 1.0 message that come before its body. The latter
are read as a consumer of AMQP 0-9-1 would see them (`bare_messages`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.formats.amqp091_frames import (
    CLASS_BASIC,
    CONTENT_HEADER_FIXED_SIZE,
    CONTENT_HEADER_START,
)
from penstock.formats.octets import Malformed
from penstock.spark.bare_messages import basic_head
from penstock.spark.header_values import text_of
from penstock.wire.amqp091.content import decode_properties

if TYPE_CHECKING:
    from penstock.spark.bare_messages import Body

# The part before the property flags; the rest is the same for messages that differ only in size.
_FIXED: Final = CONTENT_HEADER_START + bytes(CONTENT_HEADER_FIXED_SIZE - len(CONTENT_HEADER_START))
_MICROSECONDS: Final = 1_000_000
# The largest timestamp of Spark, year 9999; a publisher may write anything.
_SECONDS_MAX: Final = 253_402_300_799


class Head:
    """Decoded for the columns `headers`, `header_types`, `properties` and `id`."""

    __slots__ = ("headers", "properties", "types")

    def __init__(
        self,
        headers: list[tuple[str, str | None]] | None,
        types: list[tuple[str, str]] | None,
        properties: dict[str, Any] | None,
    ) -> None:
        self.headers = headers
        # By name of the header.
        self.types = types
        self.properties = properties

    @property
    def id(self) -> str | None:
        return None if self.properties is None else self.properties["message_id"]


# For a head that cannot be read. Brokers do not store such heads; a row with nulls is better than
# no rows.
UNREADABLE: Final = Head(None, None, None)


def decode_property_list(octets: bytes) -> Head:
    """An AMQP 0-9-1 head without its first `CONTENT_HEADER_FIXED_SIZE` octets."""
    return decode_head(_FIXED + octets)


def decode_head(octets: bytes, body: Body | None = None) -> Head:
    """Of either dialect. `body` is that of an AMQP 1.0 message, unless it is one data section."""
    try:
        if octets[:2] != CLASS_BASIC:
            octets = basic_head(octets, body)
        return _decode_091(octets)
    except (Malformed, ValueError):
        return UNREADABLE


def _decode_091(octets: bytes) -> Head:
    found = decode_properties(octets)
    headers: list[tuple[str, str | None]] = []
    types: list[tuple[str, str]] = []
    for name, value in (found.headers or {}).items():
        kind, text = text_of(value)
        headers.append((clean(name), text))
        types.append((clean(name), kind))
    return Head(
        headers,
        types,
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


def clean(text: str) -> str:
    """Bytes that are not UTF-8 came as lone surrogates, which Arrow does not accept."""
    if text.isascii():
        return text
    return text.encode(errors="surrogateescape").decode(errors="replace")


def _clean(text: str | None) -> str | None:
    return None if text is None else clean(text)


def _seconds(seconds: int | None) -> int | None:
    """In microseconds, as Arrow has it; None for a value that is not a valid date."""
    if seconds is None or not 0 <= seconds <= _SECONDS_MAX:
        return None
    return seconds * _MICROSECONDS
