"""What a client may ask of every list: `columns`, `sort`, `page` and a filter by name.

As RabbitMQ does it: a list without `page` is an array, one with `page` (or `pagination=true`) is an
object with counts and `items`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

Row = dict[str, object]

PAGE_SIZE: Final = 100
# RabbitMQ's; a client that wants more asks for more pages, or for no page.
PAGE_SIZE_MAX: Final = 500
# Of a filter. A regular expression is the caller's own and runs in the HTTP server's thread, so its
# length bounds what it may cost only roughly; callers have logged in.
FILTER_LENGTH_MAX: Final = 1000
_TRUE: Final = "true"


def arranged(rows: list[Row], query: Mapping[str, str]) -> object:
    """The answer to a list. Raises a `Problem` for a query that makes no sense."""
    is_paged = "page" in query or query.get("pagination") == _TRUE
    filtered = _filtered(rows, query)
    ordered = _sorted(filtered, query)
    if not is_paged:
        return _with_columns(ordered, query)
    size = _number(query, "page_size", PAGE_SIZE)
    page = _number(query, "page", 1)
    if not 1 <= size <= PAGE_SIZE_MAX:
        raise Problem(400, f"page_size must be between 1 and {PAGE_SIZE_MAX}")
    page_count = max(1, -(-len(ordered) // size))
    if not 1 <= page <= page_count:
        raise Problem(
            400, f"page {page} is out of range: there are {page_count} pages of {size} items"
        )
    items = ordered[(page - 1) * size : page * size]
    return {
        "total_count": len(rows),
        "filtered_count": len(ordered),
        "item_count": len(items),
        "page": page,
        "page_count": page_count,
        "page_size": size,
        "items": _with_columns(items, query),
    }


def with_columns(row: Row, query: Mapping[str, str]) -> Row:
    """The columns that were asked for; a dot reaches into an object."""
    names = [name for name in query.get("columns", "").split(",") if name]
    if not names:
        return row
    chosen: Row = {}
    for name in names:
        _choose(row, chosen, name.split("."))
    return chosen


def _with_columns(rows: list[Row], query: Mapping[str, str]) -> list[Row]:
    if not query.get("columns"):
        return rows
    return [with_columns(row, query) for row in rows]


def _choose(row: Row, chosen: Row, path: list[str]) -> None:
    name = path[0]
    if name not in row:
        return
    value = row[name]
    if len(path) == 1:
        chosen[name] = value
    elif isinstance(value, dict):
        inner = chosen.setdefault(name, {})
        if isinstance(inner, dict):
            _choose(value, inner, path[1:])


def _filtered(rows: list[Row], query: Mapping[str, str]) -> list[Row]:
    text = query.get("name", "")
    if not text:
        return rows
    if len(text) > FILTER_LENGTH_MAX:
        raise Problem(400, f"the filter 'name' is longer than {FILTER_LENGTH_MAX} characters")
    if query.get("use_regex") != _TRUE:
        lowered = text.lower()
        return [row for row in rows if lowered in str(row.get("name", "")).lower()]
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise Problem(
            400, f"the filter 'name' is not a valid regular expression: {error}"
        ) from None
    return [row for row in rows if pattern.search(str(row.get("name", "")))]


def _sorted(rows: list[Row], query: Mapping[str, str]) -> list[Row]:
    column = query.get("sort", "")
    if not column:
        return rows
    path = column.split(".")
    return sorted(
        rows,
        key=lambda row: _rank(_value_at(row, path)),
        reverse=query.get("sort_reverse") == _TRUE,
    )


def _value_at(row: Row, path: list[str]) -> object:
    value: object = row
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _rank(value: object) -> tuple[int, float, str]:
    """Missing values first, then numbers, then texts."""
    if value is None:
        return 0, 0.0, ""
    if isinstance(value, (bool, int, float)):
        return 1, float(value), ""
    return 2, 0.0, str(value)


def _number(query: Mapping[str, str], key: str, default: int) -> int:
    text = query.get(key, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise Problem(400, f"{key} must be a positive number")
    return int(text)
