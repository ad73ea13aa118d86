"""What python-qpid-proton published over AMQP 1.0 into a stream, as Spark's rows."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from tests.spark.broker_process import BrokerProcess
from tests.spark.published import declare_stream, publish_numbers

pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from proton import Message, symbol
from proton.utils import BlockingConnection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,
    # Proton's Python binding leaves its own sockets to the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

PATIENCE_SECONDS = 30.0
CORRELATION = uuid.UUID("12345678-1234-5678-1234-567812345678")


def send(broker: BrokerProcess, stream: str, messages: list[Message]) -> None:
    address = broker.amqp_uri.replace("amqp://", "amqp://guest:guest@")
    connection = BlockingConnection(address, timeout=PATIENCE_SECONDS, allowed_mechs="PLAIN")
    try:
        sender = connection.create_sender(f"/queues/{stream}")
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
    send(broker, name, [full, Message(body="téxt"), Message(body=b"value")])
    publish_numbers(broker, name, 3, 4)
    frame = (
        spark.read.format("penstock")
        .options(uri=broker.uri, stream=name, verify="true")
        .option("columns", "offset,exchange,routing_key,headers,properties,body,id")
        .load()
    )
    first, text, value, other = frame.orderBy("offset").collect()
    assert (first.exchange, first.routing_key, first.id) == ("", name, "m-1")
    assert bytes(first.body) == b"\x00octets\xff"
    assert first.headers == {"region": "eu", "count": "5", "fresh": "true"}
    told = first.properties.asDict()
    assert told.pop("timestamp").timestamp() == 1_700_000_000
    assert told == {
        "content_type": "application/json",
        "content_encoding": "gzip",
        "delivery_mode": 2,
        "priority": 7,
        "correlation_id": str(CORRELATION),
        "reply_to": "/queues/answers",
        "expiration": "60000",
        "message_id": "m-1",
        "type": None,
        "user_id": "guest",
        "app_id": "tests",
    }
    assert [bytes(row.body).decode() for row in (text, value, other)] == ["téxt", "value", "3"]
    assert text.headers == {}
    assert text.properties.message_id is None
