"""Lengths of time as RabbitMQ writes them: a count and a unit, such as "7D" or "1h"."""

from typing import Final

SECOND_MS: Final = 1000
_DAY: Final = 86_400 * SECOND_MS
# RabbitMQ's: a year has 365 days and a month 30.
UNITS_MS: Final[dict[str, int]] = {
    "Y": 365 * _DAY,
    "M": 30 * _DAY,
    "D": _DAY,
    "h": 3600 * SECOND_MS,
    "m": 60 * SECOND_MS,
    "s": SECOND_MS,
}
# Digits of an interval's count; a longer count is a mistake.
_DIGITS_MAX: Final = 9


def milliseconds_of(text: str) -> int:
    """The length of an interval such as "1h"; -1 for a text that is not an interval."""
    digits = text[:-1]
    unit = UNITS_MS.get(text[-1:])
    if unit is None or not (digits.isascii() and digits.isdigit()) or len(digits) > _DIGITS_MAX:
        return -1
    count = int(digits)
    return count * unit if count > 0 else -1
