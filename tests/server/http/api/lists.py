"""What the tests of the management API share: a topology with some traffic, and lists of rows."""

from typing import Any
from urllib.parse import quote

import pika
from pika.adapters.blocking_connection import BlockingChannel

from penstock import Broker
from tests.server.http.asking import Pages
from tests.server.opened import pika_connection

Row = dict[str, Any]


def rows(pages: Pages, path: str) -> list[Row]:
    response = pages.get(path)
    assert response.status_code == 200, response.text
    found = response.json()
    assert isinstance(found, list)
    return found


def row(pages: Pages, path: str) -> Row:
    response = pages.get(path)
    assert response.status_code == 200, response.text
    found = response.json()
    assert isinstance(found, dict)
    return found


def quoted(name: str) -> str:
    return quote(name, safe="")


class Scene:
    """An exchange, a queue behind it, and a client that publishes and consumes."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.connection = pika_connection(broker.url)
        self.publisher: BlockingChannel = self.connection.channel()
        self.consumer: BlockingChannel = self.connection.channel()
        self.publisher.exchange_declare("ex", "topic", durable=True)
        self.publisher.exchange_declare("other", "fanout")
        self.publisher.exchange_bind("other", "ex", "far.#")
        self.publisher.queue_declare("q", durable=True, arguments={"x-max-length": 1000})
        self.publisher.queue_bind("q", "ex", "near.*")
        self.publisher.queue_bind("q", "ex", "near.*", {"a": 1})
        self.publisher.confirm_delivery()
        for _ in range(5):
            self.publisher.basic_publish("ex", "near.by", b"x" * 10)
        self.consumer.basic_qos(prefetch_count=2)
        self.consumer.basic_consume(
            "q", lambda *told: None, consumer_tag="tag", arguments={"x-priority": 2}
        )
        self.connection.process_data_events(0)

    @property
    def name(self) -> str:
        """Of the connection, as the API calls it."""
        (only,) = rows(Pages(self.broker), "/api/connections")
        assert isinstance(only["name"], str)
        return only["name"]


def mandatory(channel: BlockingChannel) -> None:
    """Publish a message that is returned."""
    try:
        channel.basic_publish("ex", "nowhere", b"", mandatory=True)
    except pika.exceptions.UnroutableError:
        return
    raise AssertionError("the message was not returned")
