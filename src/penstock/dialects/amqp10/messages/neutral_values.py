"""AMQP 1.0 values as the broker and its selectors compare them, and back; identifiers as text.

The broker knows plain Python values and those of `broker/header_values`. An integer's width, and
whether a text was a string or a symbol, does not matter to it: whoever must write the same value
again keeps the octets.
"""

from decimal import Decimal
from typing import Final

from penstock.broker.header_values import Long
from penstock.broker.header_values import Timestamp as Moment
from penstock.wire.amqp10.values import (
    Array,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Raw,
    Symbol,
    Timestamp,
    ULong,
    Uuid,
)

UUID_PREFIX: Final = "urn:uuid:"
_HYPHENS: Final = (8, 13, 18, 23)
_UUID_DIGITS: Final = 32
_INT64_MAX: Final = 2**63 - 1
_UINT64_MAX: Final = 2**64 - 1
# A decimal in binary integer encoding is a sign, an exponent with this bias, and a coefficient of
# so many bits. (Coefficients with one bit more, infinities and no-numbers begin with two ones.)
_BIAS_32: Final = 101
_BITS_32: Final = 23
_BIAS_64: Final = 398
_BITS_64: Final = 53
_BIAS_128: Final = 6176
_BITS_128: Final = 113


def to_neutral(value: object) -> object:
    """An AMQP 1.0 value for the broker. Types that the broker does not have become text or
    octets.
    """
    if value is None or isinstance(value, (bool, bytes)):
        return value
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, Timestamp):
        milliseconds = int(value)
        # A field table's timestamp has whole seconds, so a fraction equals none.
        return milliseconds if milliseconds % 1000 else Moment(milliseconds // 1000)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, list):
        return [to_neutral(item) for item in value]
    if isinstance(value, dict):
        return {_name_of(key): to_neutral(item) for key, item in value.items()}
    if isinstance(value, Array):
        return [to_neutral(item) for item in value.items]
    if isinstance(value, Described):
        return to_neutral(value.value)
    if isinstance(value, Uuid):
        return text_of_uuid(value)
    if isinstance(value, Raw):
        number = number_of(value)
        return value.octets if number is None else number
    return str(value)


def from_neutral(value: object) -> object:
    """A value of the broker's as AMQP 1.0 writes it."""
    if isinstance(value, bool):  # before int: a bool is one
        return value
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, Long):
        return _integer(value.value)
    if isinstance(value, Moment):
        if not -_INT64_MAX <= value.seconds * 1000 <= _INT64_MAX:
            return _integer(value.seconds)
        return Timestamp(value.seconds * 1000)
    if isinstance(value, Decimal):
        decimal = decimal64_of(value)
        return float(value) if decimal is None else decimal
    if isinstance(value, list):
        return [from_neutral(item) for item in value]
    if isinstance(value, dict):
        named: dict[object, object] = {}
        for key, item in value.items():
            text = plain_text(key) if isinstance(key, str) else str(key)
            named[Symbol(text) if text.isascii() else text] = from_neutral(item)
        return named
    if isinstance(value, str):
        return plain_text(value)
    return value


def _integer(value: int) -> object:
    """Of the width it needs; text when no type has so many bits."""
    if -_INT64_MAX - 1 <= value <= _INT64_MAX:
        return value
    return ULong(value) if 0 < value <= _UINT64_MAX else str(value)


def plain_text(value: str) -> str:
    """Exactly a `str`, without surrogates, which no UTF-8 has."""
    if type(value) is str and value.isascii():
        return value
    return value.encode("utf-8", "replace").decode("utf-8")


def _name_of(key: object) -> str:
    return plain_text(key) if isinstance(key, str) else text_of_identifier(key)


def text_of_uuid(value: Uuid) -> str:
    digits = value.octets.hex()
    groups = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    return UUID_PREFIX + "-".join(groups)


def uuid_of_text(text: str) -> Uuid | None:
    """Only of the text that `text_of_uuid` writes."""
    digits = text[len(UUID_PREFIX) :]
    if not text.startswith(UUID_PREFIX) or len(digits) != _UUID_DIGITS + len(_HYPHENS):
        return None
    for at in _HYPHENS:
        if digits[at] != "-":
            return None
    digits = digits.replace("-", "")
    for digit in digits:
        if digit not in "0123456789abcdef":
            return None
    return Uuid(bytes.fromhex(digits)) if len(digits) == _UUID_DIGITS else None


def text_of_identifier(value: object) -> str:
    """A message-id or correlation-id, or any key, as text; empty when there is none."""
    if value is None:
        return ""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, Uuid):
        return text_of_uuid(value)
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return value.hex()
    return str(value)


def number_of(value: Raw) -> Decimal | None:
    """None for a value that is not a finite decimal number."""
    if isinstance(value, Decimal32):
        bias, bits = _BIAS_32, _BITS_32
    elif isinstance(value, Decimal64):
        bias, bits = _BIAS_64, _BITS_64
    elif isinstance(value, Decimal128):
        bias, bits = _BIAS_128, _BITS_128
    else:
        return None
    whole = int.from_bytes(value.octets, "big")
    width = len(value.octets) * 8
    if whole >> (width - 3) & 3 == 3:
        return None
    sign = whole >> (width - 1)
    exponent = (whole >> bits & (1 << (width - 1 - bits)) - 1) - bias
    coefficient = whole & (1 << bits) - 1
    return Decimal((sign, tuple([int(digit) for digit in str(coefficient)]), exponent))


def decimal64_of(value: Decimal) -> Decimal64 | None:
    """None when it has more digits than 53 bits or is not a number."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or not -_BIAS_64 <= exponent <= _BIAS_64 - 29:
        return None
    coefficient = 0
    for digit in digits:
        coefficient = coefficient * 10 + digit
        if coefficient >> _BITS_64:
            return None
    whole = sign << 63 | (exponent + _BIAS_64) << _BITS_64 | coefficient
    return Decimal64(whole.to_bytes(8, "big"))
