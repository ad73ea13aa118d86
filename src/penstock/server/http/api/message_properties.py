"""Properties of a message that somebody describes in JSON, with RabbitMQ's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.dialects.amqp091.properties import read_properties
from penstock.formats.octets import Malformed
from penstock.server.http.problems import Problem
from penstock.server.http.request_parts import is_writable
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.amqp091.errors import Fault

if TYPE_CHECKING:
    from penstock.broker.message import Properties

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
# The largest value of each.
_NUMBERS: Final = {"delivery_mode": 2, "priority": 255, "timestamp": 2**63 - 1}


def properties_in(table: dict[str, object], body_bytes: int) -> Properties:
    """Raises a `Problem` for what no publisher could send."""
    basic = BasicProperties()
    for name, value in table.items():
        if value is None:
            continue
        if name == "headers":
            if not isinstance(value, dict):
                raise Problem(400, "the property 'headers' must be an object")
            basic.headers = value
        elif name in _TEXTS:
            setattr(basic, "type_" if name == "type" else name, _text(name, value))
        elif name in _NUMBERS:
            setattr(basic, name, _number(name, value))
        else:
            known = ", ".join(["headers", *_TEXTS, *_NUMBERS])
            raise Problem(400, f"'{name[:50]}' is not a property", f"There are: {known}.")
    try:
        return read_properties(encode_header(body_bytes, basic))
    except Fault as fault:
        raise Problem(400, fault.text) from None
    except (Malformed, ValueError, OverflowError) as error:
        raise Problem(400, f"no message can have these properties: {error}") from None


def _text(name: str, value: object) -> str:
    if (
        not isinstance(value, str)
        or not is_writable(value)
        or len(value.encode(errors="surrogateescape")) > NAME_BYTES_MAX
    ):
        raise Problem(
            400, f"the property '{name}' must be a text of at most {NAME_BYTES_MAX} bytes"
        )
    return value


def _number(name: str, value: object) -> int:
    largest = _NUMBERS[name]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
        raise Problem(400, f"the property '{name}' must be a number from 0 to {largest}")
    return value
