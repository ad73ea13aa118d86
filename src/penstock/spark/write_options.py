"""The options and columns of a write: checked together in the driver, before any job starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.formats.octets import SHORT_STRING_BYTES_MAX
from penstock.spark.errors import OptionError
from penstock.spark.options import ACCESS_OPTIONS, UserOptions, access_of
from penstock.spark.rows_encoding import PROPERTY_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.spark.address import BrokerAccess

WRITE_OPTIONS: Final = (
    *ACCESS_OPTIONS,
    "exchange",
    "routingKey",
    "mandatory",
    "whenFull",
    "window",
    "deduplicate",
    "sink",
    "amqpUri",
)
# Spark passes its own options as well.
_SPARKS_OPTIONS: Final = ("checkpointLocation", "queryName")
# The usual name of the exchange with the empty name.
DEFAULT_EXCHANGE: Final = "amq.default"
# What happens to a batch for which a queue with reject-publish has no room.
WHEN_FULL: Final = ("fail", "wait")
# Messages in flight: with sinks those of one request, directly those unconfirmed.
WINDOW: Final = 20_000
# Columns of the source that are ignored when publishing.
_OF_READERS: Final = frozenset({"stream", "partition", "offset", "id", "redelivered"})
# The broker takes it from the login, and refuses another.
_LOGIN_PROPERTY: Final = "user_id"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The settings of a writer. Sent to executors."""

    access: BrokerAccess
    # None: the column says it.
    exchange: str | None
    routing_key: str | None
    mandatory: bool
    # One of WHEN_FULL.
    when_full: str
    window: int
    deduplicate: bool
    sink: str | None
    amqp_uri: str | None


def write_options(options: Mapping[str, str], schema: StructType) -> WriteOptions:
    """Raises `OptionError`; does not contact the broker."""
    # These two may be empty: the default exchange, and a key that nothing looks at.
    exchange = _constant(options, "exchange")
    routing_key = _constant(options, "routingKey")
    rest = {n: v for n, v in options.items() if n.lower() not in {"exchange", "routingkey"}}
    given = UserOptions(rest)
    if given.text("path") is not None:
        raise OptionError(
            "path",
            "messages cannot be written to a path",
            "Call save() or start() without a path; the option 'exchange' names the exchange to "
            "publish to.",
        )
    given.check_names((*WRITE_OPTIONS, *_SPARKS_OPTIONS))
    check_columns(schema)
    names = set(schema.names)
    if exchange is None and "exchange" not in names:
        raise OptionError(
            "exchange",
            "no exchange is given",
            f"Name an exchange ('{DEFAULT_EXCHANGE}' is the default one), or give the rows a "
            "column 'exchange'.",
        )
    if routing_key is None and "routing_key" not in names:
        raise OptionError(
            "routingKey",
            "no routing key is given",
            "Give it (it may be empty), or give the rows a column 'routing_key'.",
        )
    deduplicate = given.truth("deduplicate", True)
    if deduplicate:
        given.exclude("deduplicate", ("amqpUri",), "sinks use HTTP")
    else:
        given.exclude(
            "deduplicate=false", ("sink", "whenFull"), "messages are not staged in this mode"
        )
    return WriteOptions(
        access_of(given),
        "" if exchange == DEFAULT_EXCHANGE else exchange,
        routing_key,
        given.truth("mandatory", False),
        _when_full(given),
        given.number("window") or WINDOW,
        deduplicate,
        given.text("sink"),
        given.text("amqpUri"),
    )


def _when_full(given: UserOptions) -> str:
    word = (given.text("whenFull") or WHEN_FULL[0]).lower()
    if word not in WHEN_FULL:
        raise OptionError(
            "whenFull",
            f"'{word}' is not a valid value",
            "Use 'fail' to fail the whole batch when a queue has no room for it, or 'wait' to wait "
            "for room.",
        )
    return word


def _constant(options: Mapping[str, str], name: str) -> str | None:
    for given, value in options.items():
        if given.lower() == name.lower():
            if len(value.encode()) > SHORT_STRING_BYTES_MAX:
                raise OptionError(
                    name, "it is too long", f"The maximum is {SHORT_STRING_BYTES_MAX} bytes."
                )
            return value
    return None


def check_columns(schema: StructType) -> None:
    """Raises `OptionError` for columns that cannot be written."""
    names = [name.lower() for name in schema.names]
    if "body" not in names:
        raise _wrong("the column 'body' is missing")
    for field in schema.fields:
        if field.name in _OF_READERS:
            raise _wrong(
                f"column '{field.name}' describes where a message was read from and cannot be "
                "written"
            )
        if field.name == "properties":
            _check_properties(field, set(schema.names))
        elif not _fits(field.name, field.dataType):
            raise _wrong(f"column '{field.name} {field.dataType.simpleString()}' cannot be written")


def _check_properties(field: StructField, others: set[str]) -> None:
    if not isinstance(field.dataType, StructType):
        raise _wrong(f"column 'properties {field.dataType.simpleString()}' is not a struct")
    for inner in field.dataType.fields:
        if inner.name == _LOGIN_PROPERTY:
            continue
        if inner.name not in PROPERTY_NAMES or not _fits(inner.name, inner.dataType):
            raise _wrong(
                f"'properties.{inner.name} {inner.dataType.simpleString()}' cannot be written"
            )
        if inner.name in others:
            raise _wrong(f"'{inner.name}' is both a column and a field of 'properties'")


def _fits(name: str, kind: DataType) -> bool:
    if name == "body":
        return isinstance(kind, BinaryType | StringType)
    if name in {"exchange", "routing_key"}:
        return isinstance(kind, StringType)
    if name in {"headers", "header_types"}:
        return (
            isinstance(kind, MapType)
            and isinstance(kind.keyType, StringType)
            and isinstance(kind.valueType, StringType)
        )
    if name in {"delivery_mode", "priority"}:
        return isinstance(kind, IntegralType)
    if name == "timestamp":
        return isinstance(kind, TimestampType | TimestampNTZType | IntegralType)
    if name == "expiration":
        return isinstance(kind, StringType | IntegralType)
    return name in PROPERTY_NAMES and isinstance(kind, StringType)


def _wrong(problem: str) -> OptionError:
    return OptionError(
        "schema",
        problem,
        "Select the columns to write: body (binary or string) and optionally exchange, "
        "routing_key, headers and header_types (map<string,string>), properties (struct), or "
        "individual properties: "
        f"{', '.join(PROPERTY_NAMES)}.",
    )
