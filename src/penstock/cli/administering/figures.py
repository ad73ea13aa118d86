"""Figures as a person reads them: 1.2 MB, 3 min, 4.0/s."""

from __future__ import annotations

from typing import Final

_THOUSAND: Final = 1000
_SECONDS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


def size_text(octets: object) -> str:
    """Bytes, in decimal units."""
    if not isinstance(octets, int | float):
        return "-"
    value = float(octets)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < _THOUSAND:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= _THOUSAND
    return f"{value:.1f} TB"


def duration_text(milliseconds: object) -> str:
    if not isinstance(milliseconds, int | float):
        return "-"
    seconds = milliseconds / 1000
    for size, unit in _SECONDS:
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 1 else f"{milliseconds:.0f} ms"


def rate_text(rate: object) -> str:
    if not isinstance(rate, int | float):
        return "-"
    return f"{rate:.1f}/s"
