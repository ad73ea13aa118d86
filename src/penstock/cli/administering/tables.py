"""Tables that fit the terminal.

On a terminal a table that is too wide first has its widest texts cut (…), then loses the columns
that matter least, the last ones first, and says which. Elsewhere (a pipe, a file) nothing is cut, so
that a script sees everything. What others chose (names, arguments) cannot command the terminal:
control characters are shown escaped.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

GAP: Final = "  "
# A text is cut to no fewer characters than this; then columns go.
CUT_WIDTH_MIN: Final = 12
# The first columns name what the row is about and always stay.
KEPT_COUNT: Final = 1
_BOLD: Final = "\033[1m"
_PLAIN: Final = "\033[0m"

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and how a row's cell is made. Numbers stand on the right."""

    heading: str
    cell: Callable[[Row], object]
    is_number: bool = False


def column(heading: str, *path: str, is_number: bool = False) -> Column:
    """A column of what is found at a path of keys."""
    return Column(heading, lambda row: found(row, *path), is_number)


def number(heading: str, *path: str) -> Column:
    return column(heading, *path, is_number=True)


def found(row: Row, *path: str) -> object:
    """What is found at a path of keys, or None."""
    value: object = row
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def shown(value: object) -> str:
    """One cell."""
    if value is None or value in ("", {}, []):
        return "-"
    if value is True:
        return "yes"
    if value is False:
        return "no"
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return visible(", ".join(value))
    if isinstance(value, dict | list):
        return visible(json.dumps(value, ensure_ascii=False))
    return str(value)


def visible(text: str) -> str:
    """With everything escaped that a terminal would act on."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def width_of(text: str) -> int:
    """Cells on a terminal."""
    if text.isascii():
        return len(text)
    width = 0
    for char in text:
        if unicodedata.combining(char):
            continue
        width += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return width


def cut(text: str, width: int) -> str:
    if width_of(text) <= width:
        return text
    kept = ""
    for char in text:
        if width_of(kept + char) > width - 1:
            break
        kept += char
    return kept + "…"


def table_lines(
    columns: Sequence[Column], rows: Sequence[Row], width: int = 0, is_bold: bool = False
) -> list[str]:
    """`width` 0 is a place without a width, where nothing is cut."""
    cells = [[shown(column.cell(row)) for column in columns] for row in rows]
    widths = [
        max([width_of(column.heading), *(width_of(line[place]) for line in cells)])
        for place, column in enumerate(columns)
    ]
    left_out = []
    kept = list(range(len(columns)))
    if width:
        kept, widths = _fitted(columns, widths, width)
        left_out = [column.heading for place, column in enumerate(columns) if place not in kept]
    heading = _line(columns, [column.heading for column in columns], kept, widths)
    lines = [f"{_BOLD}{heading}{_PLAIN}" if is_bold else heading]
    lines += [_line(columns, line, kept, widths) for line in cells]
    if left_out:
        lines.append(f"(not shown, for want of room: {', '.join(left_out)}; --json shows all)")
    return lines


def _fitted(
    columns: Sequence[Column], wanted: list[int], width: int
) -> tuple[list[int], list[int]]:
    """Which columns stay, and how wide each is."""
    kept = list(range(len(columns)))
    while True:
        widths = _narrowed(columns, wanted, kept, width)
        if _total(widths, kept) <= width or len(kept) <= KEPT_COUNT:
            return kept, widths
        kept.pop()


def _narrowed(
    columns: Sequence[Column], wanted: list[int], kept: list[int], width: int
) -> list[int]:
    """The widest texts give way first, cell by cell, as far as they can."""
    widths = list(wanted)
    texts = [place for place in kept if not columns[place].is_number]
    excess = _total(widths, kept) - width
    while excess > 0 and texts:
        widest = max(texts, key=lambda place: widths[place])
        if widths[widest] <= CUT_WIDTH_MIN:
            break
        widths[widest] -= 1
        excess -= 1
    return widths


def _total(widths: list[int], kept: list[int]) -> int:
    return sum(widths[place] for place in kept) + len(GAP) * (len(kept) - 1)


def _line(columns: Sequence[Column], cells: list[str], kept: list[int], widths: list[int]) -> str:
    parts = []
    for place in kept:
        text = cut(cells[place], widths[place])
        space = " " * (widths[place] - width_of(text))
        parts.append(space + text if columns[place].is_number else text + space)
    return GAP.join(parts).rstrip()


def fact_lines(facts: Sequence[tuple[str, object]], width: int = 0) -> list[str]:
    """One thing, as lines of a name and a value."""
    name_width = max((width_of(name) for name, _ in facts), default=0)
    lines = []
    for name, value in facts:
        text = shown(value)
        if width:
            text = cut(text, max(width - name_width - len(GAP), CUT_WIDTH_MIN))
        lines.append(f"{name}{' ' * (name_width - width_of(name))}{GAP}{text}".rstrip())
    return lines
