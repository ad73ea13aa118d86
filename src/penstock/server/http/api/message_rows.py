"""A body and values of headers as JSON, with the names that RabbitMQ's `get` has for its parts."""

from __future__ import annotations

import base64
import json
import math
from decimal import Decimal
from enum import Enum
from typing import Final

Row = dict[str, object]
# A larger body is not shown as JSON: it is read in one go, and nothing else runs meanwhile. At worst
# this many bytes take some seven milliseconds.
JSON_BYTES_MAX: Final = 256 * 1024


class BodyForm(Enum):
    """How a body is shown. One that is no text, or no JSON, is shown in the next form that fits it;
    `payload_encoding` says which.
    """

    TEXT = "text"
    JSON = "json"
    BASE64 = "base64"
    NONE = "none"


def payload_row(body: bytes, form: BodyForm, size: int) -> Row:
    """`size` is that of the whole body, of which `body` may be the beginning."""
    row: Row = {"payload_bytes": size}
    if form is BodyForm.NONE:
        return row
    if form is BodyForm.JSON and len(body) == size <= JSON_BYTES_MAX:
        try:
            value = json.loads(body, parse_constant=_no_number)
            # It must be written again, some levels deeper.
            json.dumps([[[[[[[[value]]]]]]]])
        except (ValueError, RecursionError):
            pass
        else:
            return {**row, "payload": value, "payload_encoding": "json"}
    if form is not BodyForm.BASE64:
        text = _text_of(body, len(body) < size)
        if text is not None:
            return {**row, "payload": text, "payload_encoding": "string"}
    return {**row, "payload": base64.b64encode(body).decode(), "payload_encoding": "base64"}


def _no_number(word: str) -> float:
    """NaN and the infinities are not JSON, though Python reads them."""
    raise ValueError(f"{word} is not valid JSON")


def _text_of(body: bytes, is_cut: bool) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        # A cut may go through a character, which has up to four bytes.
        if is_cut and error.start >= len(body) - 3 and "unexpected end" in error.reason:
            return body[: error.start].decode()
        return None


def plain(value: object) -> object:
    """A value of a field table as JSON has it: octets as text or base64, times as seconds."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        text = _text_of(bytes(value), False)
        return base64.b64encode(value).decode() if text is None else text
    if isinstance(value, Decimal):
        return float(value)
    for attribute in ("seconds", "value"):
        # A timestamp, or an integer of a given width.
        inner = getattr(value, attribute, None)
        if isinstance(inner, int):
            return inner
    return str(value)
