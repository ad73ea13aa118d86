"""Numbers as Java writes them.

    exact        57   57L   0x1F   017 (octal)   0b101
    approximate  7.   .5   7E3   -57.9e-2   6.2f   6.2d

A sign is an operator, not part of the number. An exact one fits 64 bits, with or without a sign.
"""

import math
from typing import Final

from penstock.broker.selectors.refusal import NUMBER_CHARACTERS_MAX, SelectorError, quoted

EXACT_MAX: Final = 2**64 - 1

_DECIMAL: Final = "0123456789"
_HEXADECIMAL: Final = "0123456789abcdefABCDEF"
_OCTAL: Final = "01234567"


def scan_number(text: str, start: int) -> tuple[object, int]:
    """The number that begins at `start`, an int or a float, and where it ends."""
    prefix = text[start : start + 2]
    if prefix in {"0x", "0X"}:
        return _exact_after_prefix(text, start, _HEXADECIMAL, 16)
    if prefix in {"0b", "0B"}:
        return _exact_after_prefix(text, start, "01", 2)
    end = _digits_end(text, start, _DECIMAL)
    whole_end = end
    if text[end : end + 1] == ".":
        end = _digits_end(text, end + 1, _DECIMAL)
    if text[end : end + 1] in {"e", "E"}:
        exponent = end + 1
        if text[exponent : exponent + 1] in {"+", "-"}:
            exponent += 1
        end = _digits_end(text, exponent, _DECIMAL)
        if end == exponent:
            raise SelectorError("a number", start + 1, quoted(text[start : end + 1]))
    suffix = text[end : end + 1]
    if end != whole_end or (suffix and suffix in "fFdD"):
        after = end + 1 if suffix and suffix in "fFdD" else end
        return _approximate(text, start, end), after
    if text[start] == "0" and end > start + 1:
        return _exact(text, start, start + 1, end, _OCTAL, 8)
    return _exact(text, start, start, end, _DECIMAL, 10)


def _digits_end(text: str, at: int, digits: str) -> int:
    while at < len(text) and text[at] in digits:
        at += 1
    return at


def _exact_after_prefix(text: str, start: int, digits: str, radix: int) -> tuple[object, int]:
    end = _digits_end(text, start + 2, digits)
    if end == start + 2:
        raise SelectorError("a number", start + 1, quoted(text[start : end + 1]))
    return _exact(text, start, start + 2, end, digits, radix)


def _exact(
    text: str, start: int, digits_start: int, end: int, digits: str, radix: int
) -> tuple[object, int]:
    if _digits_end(text, digits_start, digits) < end:
        # Java's rule is surprising, so the error states it.
        raise SelectorError("octal digits after a leading 0", start + 1, quoted(text[start:end]))
    _check_size(start, end)
    number = int(text[digits_start:end], radix)
    if number > EXACT_MAX:
        raise SelectorError("a number of at most 64 bits", start + 1, quoted(text[start:end]))
    return number, end + 1 if text[end : end + 1] in {"l", "L"} else end


def _approximate(text: str, start: int, end: int) -> float:
    _check_size(start, end)
    number = float(text[start:end])
    if math.isinf(number):
        raise SelectorError("a number of double precision", start + 1, quoted(text[start:end]))
    return number


def _check_size(start: int, end: int) -> None:
    if end - start > NUMBER_CHARACTERS_MAX:
        raise SelectorError(
            f"a number of at most {NUMBER_CHARACTERS_MAX} characters", start + 1, "more"
        )
