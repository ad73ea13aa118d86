"""Spark's own filters as bounds of what a batch reads. Bounds may be wide, never narrow.

Spark 4.0 has no filter pushdown, so the classes of filters are looked up late.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import datasource

from penstock.spark.broker_streams import offset_at
from penstock.spark.progress import Extent
from penstock.spark.row_filter import RowFilter

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from penstock.spark.http_client import BrokerClient

# Times are kept in milliseconds; this much is added around a bound because of rounding.
_ROUNDING_MS: Final = 1


@dataclass
class Bounds:
    """Held by a batch reader."""

    offset_min: int = 0
    offset_end: int | None = None
    timestamp_min: int | None = None
    timestamp_max: int | None = None
    streams: set[str] | None = None
    numbers: set[int] | None = None
    key_expressions: list[str] = field(default_factory=list)

    def within(self, client: BrokerClient, extent: Extent) -> Extent:
        stream = extent.stream
        start = max(extent.start, self.offset_min)
        end = extent.end if self.offset_end is None else min(extent.end, self.offset_end)
        if self.timestamp_min is not None:
            start = max(start, offset_at(client, stream, self.timestamp_min))
        if self.timestamp_max is not None:
            end = min(end, offset_at(client, stream, self.timestamp_max + 1))
        if self.streams is not None and stream.parent not in self.streams:
            end = start
        if self.numbers is not None and stream.number not in self.numbers:
            end = start
        return Extent(stream, start, max(start, end))

    def added_to(self, row_filter: RowFilter | None) -> RowFilter:
        known = row_filter or RowFilter((), ())
        return RowFilter((*known.key_expressions, *self.key_expressions), known.headers)


def bounds_of(filters: list[Filter]) -> Bounds:
    """All filters must hold, so each supported one narrows the bounds."""
    bounds = Bounds()
    for given in filters:
        attribute: tuple[str, ...] = getattr(given, "attribute", ())
        value = getattr(given, "value", None)
        if len(attribute) != 1 or value is None:
            continue
        name = attribute[0]
        if name == "offset" and isinstance(value, int | tuple | list):
            _bound_offset(bounds, given, value)
        elif name == "timestamp":
            _bound_time(bounds, given, value)
        elif name in {"stream", "partition", "routing_key"}:
            _bound_name(bounds, name, given, value)
    return bounds


def _bound_offset(bounds: Bounds, given: Filter, value: Any) -> None:
    low: int | None = None
    end: int | None = None
    if isinstance(given, datasource.EqualTo):
        low, end = value, value + 1
    elif isinstance(given, datasource.GreaterThan):
        low = value + 1
    elif isinstance(given, datasource.GreaterThanOrEqual):
        low = value
    elif isinstance(given, datasource.LessThan):
        end = value
    elif isinstance(given, datasource.LessThanOrEqual):
        end = value + 1
    elif isinstance(given, datasource.In) and value:
        low, end = min(value), max(value) + 1
    if low is not None:
        bounds.offset_min = max(bounds.offset_min, low)
    if end is not None:
        bounds.offset_end = end if bounds.offset_end is None else min(bounds.offset_end, end)


def _bound_time(bounds: Bounds, given: Filter, value: Any) -> None:
    # A time without a time zone is ambiguous.
    if not isinstance(value, datetime) or value.tzinfo is None:
        return
    milliseconds = int(value.timestamp() * 1000)
    if isinstance(
        given, datasource.GreaterThan | datasource.GreaterThanOrEqual | datasource.EqualTo
    ):
        low = milliseconds - _ROUNDING_MS
        bounds.timestamp_min = max(bounds.timestamp_min or low, low)
    if isinstance(given, datasource.LessThan | datasource.LessThanOrEqual | datasource.EqualTo):
        high = milliseconds + _ROUNDING_MS
        bounds.timestamp_max = min(bounds.timestamp_max or high, high)


def _bound_name(bounds: Bounds, name: str, given: Filter, value: Any) -> None:
    if isinstance(given, datasource.EqualTo):
        values = [value]
    elif isinstance(given, datasource.In):
        values = list(value)
    elif isinstance(given, datasource.StringStartsWith) and name == "routing_key":
        bounds.key_expressions.append(rf"\A\.{re.escape(value)}" if value else "")
        return
    else:
        return
    if name == "stream":
        bounds.streams = set(values) if bounds.streams is None else bounds.streams & set(values)
    elif name == "partition":
        bounds.numbers = set(values) if bounds.numbers is None else bounds.numbers & set(values)
    elif all(values):
        # `RowFilter` puts a dot before every key that is not empty.
        alternatives = "|".join(re.escape(str(key)) for key in values)
        bounds.key_expressions.append(rf"\A\.(?:{alternatives})\z")
