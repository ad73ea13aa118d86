"""Counts and their rates as RabbitMQ's clients read them: `publish` beside `publish_details`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.dialects.facts import UNKNOWN
from penstock.server.http.api.operation import Query
from penstock.server.http.api.sampler import LENGTH_COUNT
from penstock.server.http.api.samples import KINDS, LENGTHS, MESSAGE_RATES, Spans
from penstock.server.http.api.schema import COUNT, NUMBER, TEXT, Schema, list_of, object_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.server.http.api.listing import Row
    from penstock.server.http.api.operation import ApiRequest
    from penstock.server.http.api.samples import SampleHistory, Span

DETAILS: Schema = object_of(
    {"rate": NUMBER},
    {
        "avg": NUMBER,
        "avg_rate": NUMBER,
        "samples": list_of(object_of({"sample": NUMBER, "timestamp": COUNT})),
    },
)

SPAN_QUERIES = tuple(
    Query(f"{kind}_{part}", text, COUNT)
    for kind in KINDS
    for part, text in (
        ("age", "Samples of so many seconds are returned, together with the next parameter."),
        ("incr", "One sample for every so many seconds."),
    )
)


def with_details(names: Sequence[str], schema: Schema = COUNT) -> dict[str, Schema]:
    """The schema of counts with their details."""
    properties: dict[str, Schema] = {}
    for name in names:
        properties[name] = schema
        properties[f"{name}_details"] = DETAILS
    return properties


def row_schema(properties: dict[str, Schema]) -> Schema:
    """Of a row, any key of which may be missing: a client can ask for some columns."""
    return object_of({}, properties)


def nullable(schema: Schema) -> Schema:
    return {**schema, "type": [schema["type"], "null"]}


NULLABLE_TEXT: Schema = nullable(TEXT)


def spans_of(call: ApiRequest) -> Spans:
    return Spans(call.query)


def message_stats(
    names: Sequence[str],
    numbers: Sequence[int],
    history: SampleHistory,
    span: Span | None,
    first: int = 0,
) -> Row:
    """From column `first` on. Empty while nothing was counted, and without what nobody counts."""
    stats: Row = {}
    if not any(number > 0 for number in numbers[first:]):
        return stats
    for column in range(first, len(names)):
        number = numbers[column]
        if number == UNKNOWN:
            continue
        details = history.details(column, span)
        if history.rate(column) < 0:
            # Sums fall when a queue goes; nobody un-publishes.
            details["rate"] = 0.0
        stats[names[column]] = number
        stats[f"{names[column]}_details"] = details
    return stats


def put_details(
    row: Row,
    names: Sequence[str],
    numbers: Sequence[int],
    history: SampleHistory,
    span: Span | None,
    first: int,
    end: int,
) -> None:
    """Put counts of some columns into a row itself."""
    for column in range(first, end):
        row[names[column]] = numbers[column]
        row[f"{names[column]}_details"] = history.details(column, span)


def put_queue_numbers(
    row: Row, names: Sequence[str], numbers: Sequence[int], history: SampleHistory, spans: Spans
) -> None:
    """Lengths into the row, and what its messages did into `message_stats`, as in a queue's row."""
    put_details(row, names, numbers, history, spans.of(LENGTHS), 0, LENGTH_COUNT)
    stats = message_stats(names, numbers, history, spans.of(MESSAGE_RATES), LENGTH_COUNT)
    if stats:
        row["message_stats"] = stats
