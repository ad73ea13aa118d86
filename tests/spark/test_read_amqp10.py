"""What python-qpid-proton published over AMQP 1.0 into a stream, as Spark's rows."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pika
import pytest

from penstock.client.calls import bind_queue, declare_exchange, declare_queue
from penstock.spark.bodies import plain_body
from penstock.spark.columns import PROPERTIES
from penstock.spark.header_values import value_of
from penstock.wire.amqp091.field_table import Timestamp
from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream, publish_numbers
from tests.spark.spark_versions import QUEUES, needs_spark

pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from proton import Message, symbol, timestamp
from proton.utils import BlockingConnection

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = [
    pytest.mark.slow,
    # Proton's Python binding leaves its own sockets to the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

PATIENCE_SECONDS = 30.0
CORRELATION = uuid.UUID("12345678-1234-5678-1234-567812345678")


def send(broker: BrokerProcess, target: str, messages: list[Message]) -> None:
    address = broker.amqp_uri.replace("amqp://", "amqp://guest:guest@")
    connection = BlockingConnection(address, timeout=PATIENCE_SECONDS, allowed_mechs="PLAIN")
    try:
        sender = connection.create_sender(target)
        for message in messages:
            sender.send(message)
    finally:
        connection.close()


def test_bodies_properties_and_headers_are_what_was_sent(
    spark: SparkSession, broker: BrokerProcess, name: str
) -> None:
    declare_stream(broker, name)
    full = Message(
        body=b"\x00octets\xff",
        inferred=True,
        durable=True,
        priority=7,
        ttl=60.0,
        id="m-1",
        user_id=b"guest",
        correlation_id=CORRELATION,
        reply_to="/queues/answers",
        content_type=symbol("application/json"),
        content_encoding=symbol("gzip"),
        creation_time=1_700_000_000.0,
        group_id="tests",
        properties={"region": "eu", "count": 5, "fresh": True},
    )
    send(broker, f"/queues/{name}", [full, Message(body="téxt"), Message(body=b"value")])
    publish_numbers(broker, name, 3, 4)
    frame = (
        spark.read.format("penstock")
        .options(uri=broker.uri, stream=name, verify="true")
        .option("columns", "offset,exchange,routing_key,headers,properties,body,id")
        .load()
    )
    first, text, _, _ = frame.orderBy("offset").collect()
    assert (first.exchange, first.routing_key, first.id) == ("", name, "m-1")
    assert bytes(first.body) == b"\x00octets\xff"
    assert first.headers == {
        "region": "eu",
        "count": "5",
        "fresh": "true",
        # Proton sends one with every message that has a group.
        "x-amqp-1.0-group-sequence": "0",
    }
    told = first.properties.asDict()
    assert told.pop("timestamp").timestamp() == 1_700_000_000
    assert told == {
        "content_type": "application/json",
        "content_encoding": "gzip",
        "delivery_mode": 2,
        "priority": 7,
        "correlation_id": f"urn:uuid:{CORRELATION}",
        "reply_to": "answers",
        "expiration": "60000",
        "message_id": "m-1",
        "type": None,
        "user_id": "guest",
        "app_id": "tests",
    }
    assert text.properties.type == "amqp-1.0"
    assert text.properties.message_id is None
    plain = frame.select("offset", plain_body().alias("plain")).orderBy("offset").collect()
    assert [bytes(row.plain).decode() for row in plain[1:]] == ["téxt", "value", "3"]


def seen_by_pika(broker: BrokerProcess, queue: str) -> list[dict[str, Any]]:
    """Every column that a consumer of AMQP 0-9-1 has, of each message of a queue."""
    seen: list[dict[str, Any]] = []
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_uri))
    try:
        channel = connection.channel()
        while True:
            method, properties, body = channel.basic_get(queue, auto_ack=True)
            if method is None:
                return seen
            told = {name: getattr(properties, name) for name, _, _ in PROPERTIES}
            if told["timestamp"] is not None:
                told["timestamp"] = datetime.fromtimestamp(told["timestamp"], UTC)
            seen.append(
                {
                    "exchange": method.exchange,
                    "routing_key": method.routing_key,
                    "headers": properties.headers or {},
                    "properties": told,
                    "id": properties.message_id,
                    "body": body,
                }
            )
    finally:
        connection.close()


def told_by(row: Row) -> dict[str, Any]:
    """The same of a row of Spark."""
    properties = row.properties.asDict()
    if properties["timestamp"] is not None:
        properties["timestamp"] = properties["timestamp"].astimezone(UTC)
    headers: dict[str, object] = {}
    for name, text in row.headers.items():
        value = value_of(row.header_types[name], text)
        if isinstance(value, Timestamp):
            value = datetime.fromtimestamp(value.seconds, UTC)
        headers[name] = value
    return {
        "exchange": row.exchange,
        "routing_key": row.routing_key,
        "headers": headers,
        "properties": properties,
        "id": row.id,
        "body": bytes(row.body),
    }


def compare(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Column by column, so that a difference can be seen."""
    assert len(found) == len(expected)
    for row, seen in zip(found, expected, strict=True):
        for column, value in seen.items():
            assert row[column] == value, column


def varied_messages() -> list[Message]:
    full = Message(
        body=b"data",
        inferred=True,
        durable=True,
        priority=7,
        id=CORRELATION,
        subject="prices",
        reply_to="/queues/answers",
        creation_time=1_700_000_000.25,
        group_id="tests",
        group_sequence=3,
        properties={
            "text": "5",
            "count": 5,
            "large": 2**40,
            "fresh": True,
            # Pika makes a whole number of every double.
            "share": 2.0,
            "raw": b"\xff\x00",
            "at": timestamp(1_700_000_000_000),
            "nothing": None,
        },
        annotations={symbol("x-basic-type"): "order", symbol("x-list"): [1, b"\xfe", "a"]},
    )
    return [
        full,
        Message(body="téxt", durable=True, subject="text"),
        Message(body={"a": [1, 2]}, durable=True),
        Message(body=b"plain", inferred=True, durable=True),
    ]


@needs_spark("4.2", QUEUES)
def test_rows_of_streams_and_queues_are_what_pika_sees(
    spark: SparkSession, broker: BrokerProcess, name: str, tmp_path: Path
) -> None:
    declare_stream(broker, name)
    for_pika, leased = f"{name}.pika", f"{name}.leased"
    with broker.connection() as connection, connection.channel() as channel:
        channel.call(declare_exchange(name, "fanout", durable=True))
        channel.call(bind_queue(name, name, ""))
        for queue in (for_pika, leased):
            channel.call(declare_queue(queue, durable=True))
            channel.call(bind_queue(queue, name, ""))
    messages = varied_messages()
    send(broker, f"/exchanges/{name}/key", messages)
    expected = seen_by_pika(broker, for_pika)
    assert len(expected) == len(messages)
    options = {"uri": broker.uri, "columns": "*"}
    frame = spark.read.format("penstock").options(stream=name, **options).load()
    compare([told_by(row) for row in frame.orderBy("offset").collect()], expected)
    rows: list[Row] = []
    query = (
        spark.readStream.format("penstock")
        .options(queue=leased, owner="rows", **options)
        .load()
        .writeStream.foreachBatch(lambda batch, _: rows.extend(batch.orderBy("offset").collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    compare([told_by(row) for row in rows], expected)
    first = expected[0]
    assert (first["properties"]["type"], first["properties"]["priority"]) == ("order", 7)
    assert first["headers"]["x-amqp-1.0-subject"] == "prices"
