"""Streams as a batch source, on real Spark and a real broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client.calls import declare_exchange
from penstock.wire.amqp091.content import BasicProperties
from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream, declare_topic, publish, publish_numbers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow


def read(spark: SparkSession, broker: BrokerProcess, **options: Any) -> DataFrame:
    return (
        spark.read.format("penstock")
        .options(uri=broker.uri, retryTimeout="5s")
        .options(**options)
        .load()
    )


def numbers(frame: DataFrame) -> list[int]:
    return [int(row.body) for row in frame.select("body").collect()]


def test_every_column_holds_what_was_published(
    spark: SparkSession, broker: BrokerProcess, name: str
) -> None:
    declare_stream(broker, name)
    declare_topic(broker, f"{name}-topic", name)
    before = time.time()
    properties = BasicProperties(
        content_type="text/plain",
        headers={"region": "eu", "count": 5, "fresh": True, "path": ["a", 1], "none": None},
        delivery_mode=2,
        priority=3,
        correlation_id="c-1",
        reply_to="answers",
        expiration="60000",
        message_id="m-1",
        timestamp=1_700_000_000,
        type_="order",
        app_id="tests",
    )
    publish(broker, f"{name}-topic", [("orders.eu", "hé".encode())], properties)
    publish(broker, "", [(name, b"")])
    first, second = read(spark, broker, stream=name, columns="*").orderBy("offset").collect()
    assert (first.stream, first.partition, first.offset) == (name, 0, 0)
    assert before - 1 <= first.timestamp.timestamp() <= time.time() + 1
    assert (first.exchange, first.routing_key) == (f"{name}-topic", "orders.eu")
    assert first.headers == {
        "region": "eu",
        "count": "5",
        "fresh": "true",
        "path": '["a", 1]',
        "none": None,
    }
    told = first.properties.asDict()
    assert told.pop("timestamp").timestamp() == 1_700_000_000
    assert told == {
        "content_type": "text/plain",
        "content_encoding": None,
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "c-1",
        "reply_to": "answers",
        "expiration": "60000",
        "message_id": "m-1",
        "type": "order",
        "user_id": None,
        "app_id": "tests",
    }
    assert (bytes(first.body), first.id, first.redelivered) == ("hé".encode(), "m-1", False)
    assert (second.offset, second.exchange, second.routing_key) == (1, "", name)
    assert (bytes(second.body), second.headers, second.id) == (b"", {}, None)


def test_a_range_is_split_among_tasks_and_read_whole(
    spark: SparkSession, broker: BrokerProcess, name: str
) -> None:
    declare_stream(broker, name, stream_max_segment_size_bytes=100_000)
    publish_numbers(broker, name, 0, 25_000)
    frame = read(spark, broker, stream=name, minPartitions=7, columns="offset,body", verify="true")
    assert frame.rdd.getNumPartitions() == 7
    rows = frame.orderBy("offset").collect()
    assert [row.offset for row in rows] == list(range(25_000))
    assert [int(row.body) for row in rows] == list(range(25_000))


def test_offsets_and_times_bound_a_batch(
    spark: SparkSession, broker: BrokerProcess, name: str
) -> None:
    declare_stream(broker, name)
    publish_numbers(broker, name, 0, 50)
    time.sleep(0.02)  # so that the next millisecond is another
    middle = time.time_ns() // 1_000_000
    publish_numbers(broker, name, 50, 100)
    chosen = {"stream": name}
    assert numbers(read(spark, broker, startingOffsets="90", **chosen)) == list(range(90, 100))
    assert numbers(read(spark, broker, endingOffsets="10", **chosen)) == list(range(10))
    assert numbers(read(spark, broker, startingOffsets="last", **chosen)) == [99]
    assert numbers(read(spark, broker, startingOffsets="latest", **chosen)) == []
    assert numbers(read(spark, broker, startingOffsets="1h", **chosen)) == list(range(100))
    each = f'{{"{name}": 95}}'
    assert numbers(read(spark, broker, startingOffsets=each, **chosen)) == list(range(95, 100))
    assert numbers(read(spark, broker, startingTimestamp=str(middle), **chosen)) == list(
        range(50, 100)
    )
    assert numbers(read(spark, broker, endingTimestamp=str(middle), **chosen)) == list(range(50))


def test_partitions_of_a_partitioned_stream_are_told_apart(
    spark: SparkSession, broker: BrokerProcess, name: str
) -> None:
    with broker.connection() as connection, connection.channel() as channel:
        channel.call(
            declare_exchange(
                name, "x-partitioned-stream", durable=True, arguments={"x-partitions": 3}
            )
        )
    publish(broker, name, [(f"key{number}", b"%d" % number) for number in range(300)])
    frame = read(spark, broker, stream=name)
    rows = frame.select("stream", "partition", "offset", "body").collect()
    assert {row.stream for row in rows} == {name}
    assert {row.partition for row in rows} == {0, 1, 2}
    assert sorted(int(row.body) for row in rows) == list(range(300))
    assert len({(row.partition, row.offset) for row in rows}) == 300


def test_several_streams_are_named_or_matched(
    spark: SparkSession, broker: BrokerProcess, name: str
) -> None:
    for letter in "abc":
        declare_stream(broker, f"{name}.{letter}")
        publish(broker, "", [(f"{name}.{letter}", letter.encode())])
    listed = read(spark, broker, stream=f"{name}.a, {name}.c").select("stream", "body").collect()
    assert {(row.stream, bytes(row.body)) for row in listed} == {
        (f"{name}.a", b"a"),
        (f"{name}.c", b"c"),
    }
    matched = read(spark, broker, streamPattern=rf"{name}\.[bc]").select("stream").collect()
    assert {row.stream for row in matched} == {f"{name}.b", f"{name}.c"}


def test_a_filter_takes_keys_by_pattern_and_headers_by_value(
    spark: SparkSession, broker: BrokerProcess, name: str
) -> None:
    declare_stream(broker, name)
    declare_topic(broker, f"{name}-topic", name)
    for region in ("eu", "us"):
        messages = [(key, f"{key} {region}".encode()) for key in ("a.x.b", "a.b", "a.x.y.b", "c")]
        publish(broker, f"{name}-topic", messages, BasicProperties(headers={"region": region}))

    def bodies(text: str) -> list[str]:
        frame = read(spark, broker, stream=name, filter=text, columns="body")
        return [bytes(row.body).decode() for row in frame.collect()]

    assert bodies("key: a.*.b") == ["a.x.b eu", "a.x.b us"]
    assert bodies("key: a.#.b; header: region = us") == ["a.x.b us", "a.b us", "a.x.y.b us"]
    assert bodies("header: region=none") == []


def test_pushed_filters_bound_what_is_read_and_change_no_result(
    spark: SparkSession, broker: BrokerProcess, name: str
) -> None:
    declare_stream(broker, name)
    publish_numbers(broker, name, 0, 1000)
    pushed = read(spark, broker, stream=name, filterPushdown="true", minPartitions="10")
    plain = read(spark, broker, stream=name)
    for condition in (
        "offset >= 990",
        "offset between 10 and 12",
        "offset = 7",
        f"routing_key = '{name}' and offset < 3",
        "routing_key like 'other%'",
        "timestamp > timestamp'2020-01-01 00:00:00'",
        "stream = 'other'",
    ):
        assert sorted(numbers(pushed.where(condition))) == sorted(numbers(plain.where(condition)))
    # Bodies say what was read: 10 partitions of one row each, where there were 1000 rows.
    assert pushed.where("offset >= 990").rdd.getNumPartitions() == 10
    assert read(spark, broker, stream=name).where("offset >= 990").rdd.getNumPartitions() == 1


def test_a_schema_chooses_columns_and_must_be_ours(
    spark: SparkSession, broker: BrokerProcess, name: str
) -> None:
    declare_stream(broker, name)
    publish_numbers(broker, name, 0, 3)
    reader = spark.read.format("penstock").options(uri=broker.uri, stream=name)
    chosen = reader.schema("body binary, offset bigint").load()
    assert [tuple(row) for row in chosen.collect()] == [(b"0", 0), (b"1", 1), (b"2", 2)]
    with pytest.raises(Exception, match="no column 'body string'"):
        reader.schema("body string").load().collect()
