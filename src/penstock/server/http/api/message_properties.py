"""Properties of a message in JSON, under the names that RabbitMQ's management API has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.dialects.amqp091.properties import MessageProperties, read_properties
from penstock.formats.octets import Malformed
from penstock.server.http.api.message_rows import plain
from penstock.server.http.problems import Problem
from penstock.server.http.request_parts import is_writable
from penstock.wire.amqp091.content import BasicProperties, decode_properties, encode_header
from penstock.wire.amqp091.errors import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.server.http.api.message_rows import Row

NAME_BYTES_MAX: Final = 255  # a short string of AMQP 0-9-1
_TEXTS: Final = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
# With the largest value that their place on the wire has.
_NUMBERS: Final = {"delivery_mode": 255, "priority": 255, "timestamp": 2**64 - 1}
_HEADERS: Final = "headers"
# Python's name of a property whose own name is taken.
_ATTRIBUTES: Final = {"type": "type_"}


def properties_in(given: Mapping[str, object], body_bytes: int) -> MessageProperties:
    """Raises a `Problem` for what no publisher could send. Names that are not known are ignored, as
    in RabbitMQ.
    """
    basic = BasicProperties()
    for name, value in given.items():
        if value is None:
            continue
        if name == _HEADERS:
            # Some clients write an empty table as an empty list.
            if value == []:
                continue
            if not isinstance(value, dict):
                raise Problem(400, "the property 'headers' must be an object")
            basic.headers = value or None
        elif name in _TEXTS:
            setattr(basic, _ATTRIBUTES.get(name, name), _text(name, value))
        elif name in _NUMBERS:
            setattr(basic, name, _number(name, value))
    try:
        return read_properties(encode_header(body_bytes, basic))
    except Fault as fault:
        raise Problem(400, fault.text) from None
    except (Malformed, ValueError, OverflowError) as error:
        raise Problem(400, f"no message can have these properties: {error}") from None


def check_names(given: Mapping[str, object]) -> None:
    """Raises a `Problem` for a name that no property has."""
    known = [_HEADERS, *_TEXTS, *_NUMBERS]
    for name in given:
        if name not in known:
            raise Problem(
                400, f"'{name[:50]}' is not a property", f"There are: {', '.join(known)}."
            )


def properties_row(header: bytes) -> Row:
    """Of the payload of a content header frame."""
    try:
        basic = decode_properties(header)
    except Malformed:
        # Stored by an earlier version: a text that is not UTF-8.
        return {}
    row: Row = {}
    for name in (*_TEXTS, *_NUMBERS):
        value = getattr(basic, _ATTRIBUTES.get(name, name))
        if value is not None:
            row[name] = value
    if basic.headers is not None:
        row[_HEADERS] = plain(basic.headers)
    return row


def short_text(what: str, value: object) -> str:
    """`what` is for the `Problem` that this raises."""
    if (
        not isinstance(value, str)
        or not is_writable(value)
        or len(value.encode(errors="surrogateescape")) > NAME_BYTES_MAX
    ):
        raise Problem(400, f"{what} must be a text of at most {NAME_BYTES_MAX} bytes")
    return value


def _text(name: str, value: object) -> str:
    return short_text(f"the property '{name}'", value)


def _number(name: str, value: object) -> int:
    largest = _NUMBERS[name]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
        raise Problem(400, f"the property '{name}' must be a number from 0 to {largest}")
    return value
