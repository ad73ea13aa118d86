"""Properties of a message as JSON, under the names that RabbitMQ's management API has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.definitions.exporting import exported_table
from penstock.dialects.amqp091.properties import MessageProperties, read_properties
from penstock.formats.octets import Malformed
from penstock.server.http.problems import Problem
from penstock.wire.amqp091.content import BasicProperties, decode_properties, encode_header
from penstock.wire.amqp091.errors import ChannelFault

if TYPE_CHECKING:
    from collections.abc import Mapping

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
# Python's name of a property whose own name is taken.
_ATTRIBUTES: Final = {"type": "type_"}


def properties_from(given: Mapping[str, object], body_size: int) -> MessageProperties:
    """Raises a `Problem`. Names that are not known are ignored, as in RabbitMQ."""
    basic = BasicProperties()
    for name in _TEXTS:
        if name in given:
            value = given[name]
            if not isinstance(value, str):
                raise Problem(400, f"the property '{name}' must be a string")
            setattr(basic, _ATTRIBUTES.get(name, name), value)
    for name, largest in _NUMBERS.items():
        if name in given:
            number = given[name]
            if not isinstance(number, int) or isinstance(number, bool):
                raise Problem(400, f"the property '{name}' must be an integer")
            if not 0 <= number <= largest:
                raise Problem(400, f"the property '{name}' must be between 0 and {largest}")
            setattr(basic, name, number)
    headers = given.get("headers")
    if headers not in (None, [], {}):
        if not isinstance(headers, dict):
            raise Problem(400, "the property 'headers' must be an object")
        basic.headers = headers
    try:
        return read_properties(encode_header(body_size, basic))
    except (ValueError, Malformed) as error:
        raise Problem(400, f"the properties cannot be encoded: {error}") from None
    except ChannelFault as fault:
        raise Problem(400, fault.text) from None


def properties_as_json(header: bytes) -> dict[str, object]:
    """Of the payload of a content header frame."""
    try:
        basic = decode_properties(header)
    except Malformed:
        # Stored by an earlier version, with texts that are not UTF-8.
        return {}
    found: dict[str, object] = {}
    for name in (*_TEXTS, *_NUMBERS):
        value = getattr(basic, _ATTRIBUTES.get(name, name))
        if value is not None:
            found[name] = value
    if basic.headers is not None:
        found["headers"] = exported_table(basic.headers)
    return found
