"""Writing a DataFrame to exchanges, on real Spark and a real broker."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream
from tests.spark.written import declare_target, drained, numbers_in, sinks_of, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PROPERTIES = (
    "content_type string, content_encoding string, priority int, correlation_id string, "
    "reply_to string, expiration string, message_id string, timestamp timestamp, type string, "
    "app_id string, delivery_mode int"
)
TIME = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
VALUES: tuple[Any, ...] = (
    "text/plain",
    "gzip",
    5,
    "c",
    "r",
    "60000",
    "m",
    TIME,
    "t",
    "a",
    1,
)


def check(message: Any) -> None:
    properties = message.properties
    assert (
        properties.content_type,
        properties.content_encoding,
        properties.priority,
        properties.correlation_id,
        properties.reply_to,
        properties.expiration,
        properties.message_id,
        properties.timestamp,
        properties.type_,
        properties.app_id,
        properties.delivery_mode,
    ) == (*VALUES[:7], int(TIME.timestamp()), *VALUES[8:])


def test_every_property_arrives(spark: SparkSession, broker: BrokerProcess, name: str) -> None:
    declare_target(broker, name)
    headers = {"region": "eu", "empty": None}
    single = spark.createDataFrame(
        [(name, b"\x00\xff", headers, *VALUES)],
        f"routing_key string, body binary, headers map<string,string>, {PROPERTIES}",
    )
    write(single, broker)
    fields = ",".join(part.strip().replace(" ", ":") for part in PROPERTIES.split(","))
    as_struct = spark.createDataFrame(
        [("text", VALUES)], f"body string, properties struct<{fields}>"
    )
    write(as_struct, broker, routingKey=name)
    first, second = drained(broker, name)
    assert first.body == b"\x00\xff"
    assert first.properties.headers == headers
    assert second.body == b"text"
    assert second.properties.headers is None
    for message in (first, second):
        check(message)


def test_rows_without_properties_are_persistent_and_their_columns_say_where(
    spark: SparkSession, broker: BrokerProcess, name: str
) -> None:
    declare_target(broker, name)
    frame = spark.range(0, 50_000, 1, 3).selectExpr(
        "'amq.direct' as exchange", f"'{name}' as routing_key", "cast(id as string) as body"
    )
    write(frame, broker, exchange="amq.default", window=7000)
    messages = drained(broker, name)[:100]
    assert {message.properties.delivery_mode for message in messages} == {2}
    assert {message.exchange for message in messages} == {""}
    assert sinks_of(broker) == []


def test_a_stream_can_be_written(spark: SparkSession, broker: BrokerProcess, name: str) -> None:
    declare_stream(broker, name)
    write(spark.range(5000).selectExpr("cast(id as string) as body"), broker, routingKey=name)
    found = spark.read.format("penstock").options(uri=broker.uri, stream=name).load().collect()
    assert sorted(int(row.body) for row in found) == list(range(5000))


def test_nothing_is_published_when_a_task_fails(
    spark: SparkSession, broker: BrokerProcess, name: str
) -> None:
    declare_target(broker, name)
    frame = (
        spark.range(0, 1000, 1, 4)
        .selectExpr("if(id = 999, null, id) as n", "cast(id as string) as body")
        .selectExpr("body", f"if(n is null, null, '{name}') as routing_key")
    )
    with pytest.raises(Exception, match="column 'routing_key' is null in 1 of"):
        write(frame, broker)
    assert numbers_in(broker, name) == []
    assert sinks_of(broker) == []


def test_rows_that_reach_no_queue_fail_the_job_when_that_was_asked_for(
    spark: SparkSession, broker: BrokerProcess, name: str
) -> None:
    frame = spark.range(0, 10, 1, 1).selectExpr("cast(id as string) as body")
    write(frame, broker, routingKey=name)
    with pytest.raises(Exception, match="10 of 10 rows are not routed to any queue"):
        write(frame, broker, routingKey=name, mandatory="true")


def test_a_queue_without_room_fails_the_job_and_nothing_is_published(
    spark: SparkSession, broker: BrokerProcess, name: str
) -> None:
    limits = {"x-max-length": 15, "x-overflow": "reject-publish"}
    declare_target(broker, name, limits)
    frame = spark.range(0, 10, 1, 2).selectExpr("cast(id as string) as body")
    write(frame, broker, routingKey=name)
    with pytest.raises(Exception, match=f"queue '{name}' rejects publishes .* Nothing was publ"):
        write(frame, broker, routingKey=name)
    assert sinks_of(broker) == []
    assert numbers_in(broker, name) == list(range(10))
    write(frame, broker, routingKey=name)
    assert numbers_in(broker, name) == list(range(10))


def test_a_job_may_wait_for_room(spark: SparkSession, broker: BrokerProcess, name: str) -> None:
    declare_target(broker, name, {"x-max-length": 15, "x-overflow": "reject-publish"})
    frame = spark.range(0, 1000, 1, 2).selectExpr("cast(id as string) as body")
    is_written = Event()

    def consume() -> list[int]:
        found: list[int] = []
        while not is_written.wait(0.01):
            found += numbers_in(broker, name)
        return found + numbers_in(broker, name)

    with ThreadPoolExecutor(1) as pool:
        consumed = pool.submit(consume)
        try:
            write(frame, broker, routingKey=name, whenFull="wait")
        finally:
            is_written.set()
    assert sorted(consumed.result()) == list(range(1000))


def test_direct_publishing_is_confirmed_and_mandatory_counts(
    spark: SparkSession, broker: BrokerProcess, name: str
) -> None:
    declare_target(broker, name)
    frame = spark.range(0, 5000, 1, 2).selectExpr(
        "cast(id as string) as body", "map('k', 'v') as headers"
    )
    direct = {"deduplicate": "false", "amqpUri": broker.amqp_uri, "routingKey": name}
    write(frame, broker, window=300, **direct)
    messages = drained(broker, name)
    assert sorted(int(message.body) for message in messages) == list(range(5000))
    assert messages[0].properties.headers == {"k": "v"}
    lost = {**direct, "routingKey": "nowhere"}
    with pytest.raises(Exception, match="messages were not routed to any queue"):
        write(frame, broker, mandatory="true", **lost)


@pytest.mark.parametrize(
    ("columns", "options", "text"),
    [
        ("id", {}, "the column 'body' is missing"),
        ("1 as body", {}, "column 'body int' cannot be written"),
        ("'x' as body, 1 as offset", {}, "describes where a message was read from"),
        ("'x' as body, 'y' as colour", {}, "column 'colour string' cannot be written"),
        ("'x' as body, map('a', 1) as headers", {}, "column 'headers map<string,int>'"),
        ("'x' as body, named_struct('size', 1) as properties", {}, "'properties.size int'"),
        (
            "'x' as body, 't' as type, named_struct('type', 't') as properties",
            {},
            "'type' is both a column and a field of 'properties'",
        ),
        ("'x' as body", {"routingKey": None}, "no routing key is given"),
        ("'x' as body", {"exchange": None}, "no exchange is given"),
        ("'x' as body", {"exchange": "missing"}, "no exchange 'missing' in vhost '/'"),
        ("'x' as body", {"exhcange": "e"}, "Did you mean 'exchange'"),
        ("'x' as body", {"path": "orders"}, "messages cannot be written to a path"),
        ("'x' as body", {"window": "many"}, "'many' is not a positive number"),
        (
            "'x' as body",
            {"deduplicate": "false", "sink": "s"},
            "messages are not staged in this mode",
        ),
        ("'x' as body", {"whenFull": "drop"}, "'drop' is not a valid value"),
        ("'x' as body", {"password": "wrong"}, "the login was refused"),
    ],
)
def test_what_cannot_be_written_is_said_before_the_job_starts(
    spark: SparkSession, broker: BrokerProcess, columns: str, options: dict[str, Any], text: str
) -> None:
    chosen = {"uri": broker.uri, "exchange": "", "routingKey": "q", **options}
    given = {name: value for name, value in chosen.items() if value is not None}
    frame = spark.range(1).selectExpr(*[part.strip() for part in split(columns)])
    with pytest.raises(Exception) as caught:
        frame.write.format("penstock").options(**given).mode("append").save()
    assert text in str(caught.value)


def split(columns: str) -> list[str]:
    """At commas that stand in no parentheses."""
    parts, depth = [""], 0
    for letter in columns:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def test_overwriting_is_refused(spark: SparkSession, broker: BrokerProcess) -> None:
    frame = spark.range(1).selectExpr("'x' as body")
    writer = frame.write.format("penstock").options(uri=broker.uri, exchange="", routingKey="q")
    with pytest.raises(Exception, match="cannot be overwritten"):
        writer.mode("overwrite").save()
