"""Values of headers as texts beside the names of their types, and back: nothing is lost.

| type | text |
|---|---|
| string | itself |
| binary | base64; strings that are not UTF-8 come as binary, too |
| boolean | true, false |
| integer | digits |
| double | the shortest digits that convert back to it; NaN, Infinity, -Infinity |
| decimal | digits with a point |
| timestamp | seconds since 1970 |
| array, table | JSON, in which `{"$binary": ...}`, `{"$timestamp": ...}`, `{"$decimal": ...}`, `{"$double": "NaN"}` stand for what JSON has not, and `{"$table": ...}` for a table that looks like one of these |
| void | null |
"""

from __future__ import annotations

import base64
import json
import math
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from penstock.wire.amqp091.field_table import Timestamp

STRING: Final = "string"
BINARY: Final = "binary"
BOOLEAN: Final = "boolean"
INTEGER: Final = "integer"
DOUBLE: Final = "double"
DECIMAL: Final = "decimal"
TIMESTAMP: Final = "timestamp"
ARRAY: Final = "array"
TABLE: Final = "table"
VOID: Final = "void"
TYPES: Final = (
    STRING, BINARY, BOOLEAN, INTEGER, DOUBLE, DECIMAL, TIMESTAMP, ARRAY, TABLE, VOID,
)  # fmt: skip
_TAG: Final = "$"
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def text_of(value: object) -> tuple[str, str | None]:
    """Type and text of a value as the codec of AMQP 0-9-1 reads it."""
    if value is None:
        return VOID, None
    if isinstance(value, str):
        octets = _octets_of(value)
        return (STRING, value) if octets is None else (BINARY, _base64(octets))
    if isinstance(value, bool):
        return BOOLEAN, "true" if value else "false"
    if isinstance(value, int):
        return INTEGER, str(value)
    if isinstance(value, float):
        return DOUBLE, _double(value)
    if isinstance(value, Decimal):
        return DECIMAL, f"{value:f}"
    if isinstance(value, bytes):
        return BINARY, _base64(value)
    if isinstance(value, Timestamp):
        return TIMESTAMP, str(value.seconds)
    if isinstance(value, list):
        return ARRAY, json.dumps(_plain(value), ensure_ascii=False)
    if isinstance(value, dict):
        return TABLE, json.dumps(
            {_name(n): _plain(v) for n, v in value.items()}, ensure_ascii=False
        )
    raise ValueError(f"a header has a value of the unsupported type {type(value).__name__}")


def value_of(kind: str, text: str | None) -> object:
    """The value of a text. Raises a `ValueError` for a text that is not valid for its type."""
    if text is None or kind == VOID:
        return None
    try:
        return _value_of(kind, text)
    except (ValueError, InvalidOperation, TypeError, KeyError) as error:
        raise ValueError(f"{text[:60]!r} is not a valid {kind} of a header") from error


def _value_of(kind: str, text: str) -> object:
    if kind == STRING:
        return text
    if kind == BINARY:
        return base64.b64decode(text, validate=True)
    if kind == BOOLEAN:
        return {"true": True, "false": False}[text]
    if kind == INTEGER:
        return int(text)
    if kind == DOUBLE:
        return float(text)
    if kind == DECIMAL:
        return Decimal(text)
    if kind == TIMESTAMP:
        return Timestamp(int(text))
    if kind not in {ARRAY, TABLE}:
        raise KeyError(kind)
    read = json.loads(text)
    if kind == ARRAY and isinstance(read, list):
        return [_unplain(item) for item in read]
    if kind == TABLE and isinstance(read, dict):
        return {name: _unplain(item) for name, item in read.items()}
    raise KeyError(kind)


def _plain(value: object) -> Any:
    """Within an array or a table."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        named = {_name(name): _plain(item) for name, item in value.items()}
        is_like_a_tag = len(named) == 1 and next(iter(named)).startswith(_TAG)
        return {_TAG + TABLE: named} if is_like_a_tag else named
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    kind, text = text_of(value)
    return text if kind == STRING else {_TAG + kind: text}


def _unplain(value: Any) -> object:
    if isinstance(value, list):
        return [_unplain(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        [(name, item)] = value.items()
        if name == _TAG + TABLE and isinstance(item, dict):
            return {key: _unplain(inner) for key, inner in item.items()}
        if name.startswith(_TAG) and isinstance(item, str):
            return _value_of(name.removeprefix(_TAG), item)
    return {name: _unplain(item) for name, item in value.items()}


def _double(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return next(text for text, number in _NOT_FINITE.items() if repr(number) == repr(value))


def _octets_of(text: str) -> bytes | None:
    """The bytes of a text that was not UTF-8: they came as lone surrogates."""
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogateescape")
    return None


def _name(name: object) -> str:
    """Names are texts to Spark, and must be UTF-8."""
    return str(name).encode(errors="surrogateescape").decode(errors="backslashreplace")


def _base64(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii")
