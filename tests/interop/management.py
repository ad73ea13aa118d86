"""What the tests of management clients share: a broker with HTTP, and some traffic on it."""

import contextlib
from collections.abc import Iterator

import pika
from pika.adapters.blocking_connection import BlockingChannel

from penstock import Broker


class Traffic:
    """A connection with a topology, a publisher and a consumer. Held by a test."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        self.channel: BlockingChannel = self.connection.channel()
        self.channel.exchange_declare("events", "topic", durable=True)
        self.channel.queue_declare("work", durable=True)
        self.channel.queue_bind("work", "events", "work.#")
        self.channel.confirm_delivery()
        for number in range(3):
            self.channel.basic_publish("events", "work.now", str(number).encode())
        self.channel.basic_qos(prefetch_count=1)
        self.channel.basic_consume("work", lambda *told: None, consumer_tag="worker")
        self.connection.process_data_events(0)

    @property
    def address(self) -> str:
        """The host and port of the API."""
        return f"{self.broker.host}:{self.broker.http_port}"


@contextlib.contextmanager
def traffic() -> Iterator[Traffic]:
    with Broker(http=True) as broker:
        going = Traffic(broker)
        try:
            yield going
        finally:
            going.connection.close()
