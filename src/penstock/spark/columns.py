"""The columns of a row, as Spark's and as Arrow's types.

Spark 4.2 and later demand exactly these Arrow types: no dictionaries, views or large ones.

Spark does not tell a Python source which columns a query uses, so every column in the schema costs
time. The default schema has what the index of a stream contains, and the body; the head of a
message (headers, properties, id) is decoded only on request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable

_TIME: Final = pa.timestamp("us", "UTC")
_TEXTS: Final = pa.map_(pa.string(), pa.string())

# The properties of a message, in AMQP 0-9-1's names and order.
PROPERTIES: Final[tuple[tuple[str, DataType, pa.DataType], ...]] = (
    ("content_type", StringType(), pa.string()),
    ("content_encoding", StringType(), pa.string()),
    ("delivery_mode", IntegerType(), pa.int32()),
    ("priority", IntegerType(), pa.int32()),
    ("correlation_id", StringType(), pa.string()),
    ("reply_to", StringType(), pa.string()),
    ("expiration", StringType(), pa.string()),
    ("message_id", StringType(), pa.string()),
    ("timestamp", TimestampType(), _TIME),
    ("type", StringType(), pa.string()),
    ("user_id", StringType(), pa.string()),
    ("app_id", StringType(), pa.string()),
)

PROPERTIES_ARROW: Final = pa.struct([pa.field(name, arrow) for name, _, arrow in PROPERTIES])
_PROPERTIES_SPARK: Final = StructType([StructField(name, spark) for name, spark, _ in PROPERTIES])

# `offset` is that in the stream; of a leased message, LEASE_OFFSET_STEP times the lease's number
# and its place in the lease: as unique and as repeatable.
COLUMNS: Final[dict[str, tuple[DataType, pa.DataType]]] = {
    "stream": (StringType(), pa.string()),
    "partition": (IntegerType(), pa.int32()),
    "offset": (LongType(), pa.int64()),
    "timestamp": (TimestampType(), _TIME),
    "exchange": (StringType(), pa.string()),
    "routing_key": (StringType(), pa.string()),
    "headers": (MapType(StringType(), StringType()), _TEXTS),
    # The types of the texts, by the header's name (`header_values`).
    "header_types": (MapType(StringType(), StringType()), _TEXTS),
    "properties": (_PROPERTIES_SPARK, PROPERTIES_ARROW),
    "body": (BinaryType(), pa.binary()),
    "id": (StringType(), pa.string()),
    "redelivered": (BooleanType(), pa.bool_()),
}
# More than a lease can hold messages.
LEASE_OFFSET_STEP: Final = 1 << 20

DEFAULT_COLUMNS: Final = (
    "stream",
    "partition",
    "offset",
    "timestamp",
    "exchange",
    "routing_key",
    "body",
)
# A stream does not redeliver messages.
DEFAULT_COLUMNS_OF_QUEUE: Final = (*DEFAULT_COLUMNS, "redelivered")
ALL: Final = "*"
_BESIDES: Final = "+"
_FORM: Final = "List column names, '*' for all, or '+' and names to add to the default ones."


def chosen_columns(text: str | None, is_queue: bool = False) -> tuple[str, ...]:
    """From the option `columns`: names with commas, or `*`, or `+` and additional ones."""
    usual = DEFAULT_COLUMNS_OF_QUEUE if is_queue else DEFAULT_COLUMNS
    if text is None:
        return usual
    text = text.strip()
    if text == ALL:
        return tuple(COLUMNS)
    written = [name.strip() for name in text.removeprefix(_BESIDES).split(",") if name.strip()]
    # As everywhere in Spark, a name means the same in capitals; all of ours are in small letters.
    names = [name.lower() if name.lower() in COLUMNS else name for name in written]
    unknown = [name for name in names if name not in COLUMNS]
    if unknown or not names or len(set(names)) != len(names):
        problem = "the list of columns is empty"
        if unknown:
            problem = f"unknown column {', '.join(map(repr, unknown))}"
        elif names:
            problem = "a column is listed twice"
        raise OptionError("columns", problem, f"{_FORM} Available: {', '.join(COLUMNS)}.")
    if text.startswith(_BESIDES):
        return tuple(name for name in COLUMNS if name in usual or name in names)
    return tuple(names)


def spark_schema(names: Iterable[str]) -> StructType:
    return StructType([StructField(name, COLUMNS[name][0]) for name in names])


def arrow_schema(names: Iterable[str]) -> pa.Schema:
    return pa.schema([pa.field(name, COLUMNS[name][1]) for name in names])


def columns_of(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema that the user gave; raises when one is unknown."""
    for field in schema.fields:
        known = COLUMNS.get(field.name)
        if known is None or known[0] != field.dataType:
            wanted = f"{field.name} {field.dataType.simpleString()}"
            offered = ", ".join(
                f"{name} {spark.simpleString()}" for name, (spark, _) in COLUMNS.items()
            )
            raise OptionError(
                "schema",
                f"the source has no column '{wanted}'",
                "Omit .schema() and select columns with the option 'columns'. Available: "
                f"{offered}.",
            )
    return tuple(field.name for field in schema.fields)
