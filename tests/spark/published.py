"""What tests put into a broker before Spark reads it."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.client.calls import bind_queue, declare_exchange, declare_queue, delete_queue
from penstock.wire.amqp091.content import PERSISTENT, BasicProperties
from tests.spark.broker_process import BrokerProcess


def declare_stream(broker: BrokerProcess, name: str, **arguments: object) -> None:
    """Arguments are RabbitMQ's, without the `x-` and with underscores."""
    given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    with broker.connection() as connection, connection.channel() as channel:
        channel.call(
            declare_queue(name, durable=True, arguments={"x-queue-type": "stream", **given})
        )


def declare_topic(broker: BrokerProcess, exchange: str, queue: str) -> None:
    with broker.connection() as connection, connection.channel() as channel:
        channel.call(declare_exchange(exchange, "topic", durable=True))
        channel.call(bind_queue(queue, exchange, "#"))


def delete_stream(broker: BrokerProcess, name: str) -> None:
    with broker.connection() as connection, connection.channel() as channel:
        channel.call(delete_queue(name))


def publish(
    broker: BrokerProcess,
    exchange: str,
    messages: Iterable[tuple[str, bytes]],
    properties: BasicProperties | None = None,
) -> None:
    """Returns when all are confirmed, so on disk."""
    with broker.connection() as connection, connection.channel() as channel:
        channel.select_confirms()
        channel.publish_batch(exchange, messages, properties)
        channel.wait_for_confirms()


def publish_numbers(broker: BrokerProcess, queue: str, start: int, end: int) -> None:
    """To a stream or, persistent, to a queue."""
    messages = [(queue, b"%d" % number) for number in range(start, end)]
    publish(broker, "", messages, BasicProperties(delivery_mode=PERSISTENT))
