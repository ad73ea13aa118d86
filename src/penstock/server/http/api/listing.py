"""What a client may ask of every list: `columns`, `sort`, `page` and a filter by name.

As RabbitMQ does it: a list without `page` is an array, one with `page` (or `pagination=true`) is an
object with counts and `items`.
"""

from __future__ import annotations

from heapq import merge
from typing import TYPE_CHECKING, Final, Protocol

from penstock.server.http.api.name_filter import LENGTH_MAX, compiled_filter
from penstock.server.http.api.pace import SORTED_AT_ONCE, Pace, encoded
from penstock.server.http.api.pieces import PIECE_BYTES
from penstock.server.http.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = dict[str, object]
Rank = tuple[int, float, str]

PAGE_SIZE: Final = 100
# RabbitMQ's; a client that wants more asks for more pages, or for no page.
PAGE_SIZE_MAX: Final = 500
_TRUE: Final = "true"


class Record(Protocol):
    """Facts of which a row is made only if it is shown: a page of a hundred queues out of ten
    thousand makes a hundred rows.
    """

    @property
    def name(self) -> str: ...

    def row(self) -> Row: ...


Ranked = tuple[Rank, Record]


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


def listed(records: Sequence[Record], query: Mapping[str, str], pace: Pace) -> list[bytes]:
    """The answer to a list, in pieces of JSON. Raises a `Problem` for a query that makes no sense.

    A row is made, encoded and forgotten before the next one is made: thousands of them at once would
    have the interpreter look through all of them for garbage, and nobody else runs meanwhile.
    """
    ordered = _sorted(_filtered(records, query), query, pace)
    if "page" not in query and query.get("pagination") != _TRUE:
        return _encoded(b"[", ordered, b"]", query, pace)
    size = _number(query, "page_size", PAGE_SIZE)
    page = _number(query, "page", 1)
    if not 1 <= size <= PAGE_SIZE_MAX:
        raise Problem(400, f"page_size must be between 1 and {PAGE_SIZE_MAX}")
    page_count = max(1, -(-len(ordered) // size))
    if not 1 <= page <= page_count:
        raise Problem(
            400,
            f"page {page} is out of range: there are {page_count} pages of {size} items",
            # RabbitMQ's word for it.
            facts={"error": "page_out_of_range"},
        )
    items = ordered[(page - 1) * size : page * size]
    counts = {
        "total_count": len(records),
        "filtered_count": len(ordered),
        "item_count": len(items),
        "page": page,
        "page_count": page_count,
        "page_size": size,
    }
    return _encoded(b'%b,"items":[' % encoded(counts)[:-1], items, b"]}", query, pace)


def _encoded(
    head: bytes, records: Sequence[Record], tail: bytes, query: Mapping[str, str], pace: Pace
) -> list[bytes]:
    pieces: list[bytes] = []
    piece = bytearray(head)
    for index, record in enumerate(records):
        if index:
            piece += b","
        piece += encoded(with_columns(record.row(), query))
        if len(piece) >= PIECE_BYTES:
            pieces.append(bytes(piece))
            piece.clear()
        pace.rest_if_due()
    piece += tail
    pieces.append(bytes(piece))
    return pieces


def with_columns(row: Row, query: Mapping[str, str]) -> Row:
    """The columns that were asked for; a dot reaches into an object."""
    names = [name for name in query.get("columns", "").split(",") if name]
    if not names:
        return row
    chosen: Row = {}
    for name in names:
        _choose(row, chosen, name.split("."))
    return chosen


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


def _filtered(records: Sequence[Record], query: Mapping[str, str]) -> Sequence[Record]:
    text = query.get("name", "")
    if not text:
        return records
    if query.get("use_regex") != _TRUE:
        if len(text) > LENGTH_MAX:
            raise Problem(400, f"the filter 'name' is longer than {LENGTH_MAX} characters")
        lowered = text.lower()
        return [record for record in records if lowered in record.name.lower()]
    pattern = compiled_filter(text)
    return [record for record in records if pattern.search(record.name)]


def _sorted(records: Sequence[Record], query: Mapping[str, str], pace: Pace) -> Sequence[Record]:
    """In parts that are merged: a sort is one call, which cannot rest."""
    column = query.get("sort", "")
    if not column:
        return records
    is_reverse = query.get("sort_reverse") == _TRUE
    path = column.split(".")
    parts: list[list[Ranked]] = []
    for begin in range(0, len(records), SORTED_AT_ONCE):
        part: list[Ranked] = []
        for record in records[begin : begin + SORTED_AT_ONCE]:
            # A name is known without the row.
            value = record.name if column == "name" else _value_at(record.row(), path)
            part.append((_rank(value), record))
            pace.rest_if_due()
        parts.append(sorted(part, key=_first, reverse=is_reverse))
    ordered: list[Record] = []
    for _, record in merge(*parts, key=_first, reverse=is_reverse):
        ordered.append(record)
        pace.rest_if_due()
    for ranked in parts:
        pace.free(ranked)
    return ordered


def _first(ranked: Ranked) -> Rank:
    return ranked[0]


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
