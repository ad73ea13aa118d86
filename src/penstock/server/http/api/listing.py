"""What a client may ask of every list: `columns`, `sort`, `page` and a filter by name.

As RabbitMQ does it: a list without `page` is an array, one with `page` (or `pagination=true`) is an
object with counts and `items`.
"""

from __future__ import annotations

import re
from heapq import merge
from typing import TYPE_CHECKING, Final, Protocol

from penstock.server.http.api.pace import ITEMS, SORTED_AT_ONCE, Pace
from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Row = dict[str, object]
Rank = tuple[int, float, str]

PAGE_SIZE: Final = 100
# RabbitMQ's; a client that wants more asks for more pages, or for no page.
PAGE_SIZE_MAX: Final = 500
# Of a filter. A regular expression is the caller's own and runs in the HTTP server's thread, so its
# length bounds what it may cost only roughly; callers have logged in.
FILTER_LENGTH_MAX: Final = 1000
_TRUE: Final = "true"


class Record(Protocol):
    """Facts of which a row is made only if it is shown: a page of a hundred queues out of ten
    thousand makes a hundred rows.
    """

    @property
    def name(self) -> str: ...

    def row(self) -> Row: ...


class MadeRow:
    """A record whose row is there already."""

    __slots__ = ("_row",)

    def __init__(self, row: Row) -> None:
        self._row = row

    @property
    def name(self) -> str:
        return str(self._row.get("name", ""))

    def row(self) -> Row:
        return self._row


def arranged(rows: list[Row], query: Mapping[str, str]) -> object:
    """The answer to a list. Raises a `Problem` for a query that makes no sense."""
    return arranged_records([MadeRow(row) for row in rows], query, Pace())


def arranged_records(records: Sequence[Record], query: Mapping[str, str], pace: Pace) -> object:
    """As `arranged`."""
    filtered = _filtered(records, query)
    column = query.get("sort", "")
    if column == "name":
        # Known without the rows.
        ordered = _merged(filtered, lambda record: record.name, query, pace)
        return _answer(ordered, len(records), query, pace)
    if column:
        path = column.split(".")
        made = [MadeRow(row) for row in _rows(filtered, pace)]
        ordered = _merged(made, lambda record: _rank(_value_at(record.row(), path)), query, pace)
        return _answer(ordered, len(records), query, pace)
    return _answer(filtered, len(records), query, pace)


def _answer(
    ordered: Sequence[Record], total_count: int, query: Mapping[str, str], pace: Pace
) -> object:
    if "page" not in query and query.get("pagination") != _TRUE:
        return _with_columns(_rows(ordered, pace), query)
    size = _number(query, "page_size", PAGE_SIZE)
    page = _number(query, "page", 1)
    if not 1 <= size <= PAGE_SIZE_MAX:
        raise Problem(400, f"page_size must be between 1 and {PAGE_SIZE_MAX}")
    page_count = max(1, -(-len(ordered) // size))
    if not 1 <= page <= page_count:
        raise Problem(
            400, f"page {page} is out of range: there are {page_count} pages of {size} items"
        )
    items = _rows(ordered[(page - 1) * size : page * size], pace)
    return {
        "total_count": total_count,
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


def _rows(records: Sequence[Record], pace: Pace) -> list[Row]:
    rows: list[Row] = []
    for index, record in enumerate(records):
        rows.append(record.row())
        if index % ITEMS == 0:
            pace.rest_if_due()
    return rows


def _filtered(records: Sequence[Record], query: Mapping[str, str]) -> Sequence[Record]:
    text = query.get("name", "")
    if not text:
        return records
    if len(text) > FILTER_LENGTH_MAX:
        raise Problem(400, f"the filter 'name' is longer than {FILTER_LENGTH_MAX} characters")
    if query.get("use_regex") != _TRUE:
        lowered = text.lower()
        return [record for record in records if lowered in record.name.lower()]
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise Problem(
            400, f"the filter 'name' is not a valid regular expression: {error}"
        ) from None
    return [record for record in records if pattern.search(record.name)]


def _merged(
    records: Sequence[Record],
    rank: Callable[[Record], str | Rank],
    query: Mapping[str, str],
    pace: Pace,
) -> list[Record]:
    is_reverse = query.get("sort_reverse") == _TRUE
    parts: list[list[Record]] = []
    for begin in range(0, len(records), SORTED_AT_ONCE):
        part = records[begin : begin + SORTED_AT_ONCE]
        parts.append(sorted(part, key=rank, reverse=is_reverse))
        pace.rest_if_due()
    ordered: list[Record] = []
    for index, record in enumerate(merge(*parts, key=rank, reverse=is_reverse)):
        ordered.append(record)
        if index % ITEMS == 0:
            pace.rest_if_due()
    return ordered


def _value_at(row: Row, path: list[str]) -> object:
    value: object = row
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _rank(value: object) -> Rank:
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
