"""The shapes of the answers of the management API: which keys they have, and of which types.

`recorded/management.json` has those of RabbitMQ 3.10. `python -m tests.behaviour.management_shapes
AMQP_URL HTTP_URL FILE` writes those of any broker.
"""

from __future__ import annotations

import base64
import contextlib
import json
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

RECORDED = Path(__file__).parent / "recorded" / "management.json"
# A loaded machine answers late.
ANSWER_SECONDS = 60
# Two samples of a broker that samples every five seconds, with some room.
SAMPLED_SECONDS = 14
SPANS = "&".join(
    f"{kind}_age=60&{kind}_incr=5" for kind in ("lengths", "msg_rates", "data_rates", "node_stats")
)
# Names under which pages are recorded, with their paths; CONNECTION is the name of the connection.
PAGES = {
    "overview": f"overview?{SPANS}",
    "cluster-name": "cluster-name",
    "nodes": f"nodes?{SPANS}",
    "connections": f"connections?{SPANS}",
    "connection": f"connections/CONNECTION?{SPANS}",
    "connections of a vhost": "vhosts/%2F/connections",
    "connections of a user": "connections/username/guest",
    "channels": f"channels?{SPANS}",
    "channels of a connection": "connections/CONNECTION/channels",
    "channel that publishes": f"channels/CONNECTION%20(1)?{SPANS}",
    "channel that consumes": f"channels/CONNECTION%20(2)?{SPANS}",
    "consumers": "consumers/%2F",
    "exchanges": "exchanges",
    "exchange": f"exchanges/%2F/shapes.topic?{SPANS}",
    "bindings from an exchange": "exchanges/%2F/shapes.topic/bindings/source",
    "bindings to an exchange": "exchanges/%2F/shapes.fanout/bindings/destination",
    "queues": f"queues?{SPANS}",
    "page of queues": "queues?page=1&page_size=2",
    "queues without figures": "queues?disable_stats=true",
    "classic queue": f"queues/%2F/shapes.classic?{SPANS}",
    "quorum queue": f"queues/%2F/shapes.quorum?{SPANS}",
    "stream": f"queues/%2F/shapes.stream?{SPANS}",
    "bindings of a queue": "queues/%2F/shapes.classic/bindings",
    "bindings": "bindings",
    "bindings between two": "bindings/%2F/e/shapes.topic/q/shapes.classic",
    "binding": "bindings/%2F/e/shapes.topic/q/shapes.classic/k.%2A",
    "vhosts": f"vhosts?{SPANS}",
    "vhost": f"vhosts/%2F?{SPANS}",
}
# Objects whose keys are names of the user's, of the client's or of the machine.
OPAQUE = frozenset({"arguments", "client_properties", "cluster_state", "open_files", "readers"})
_QUEUES: dict[str, dict[str, object]] = {
    "shapes.classic": {"x-max-length": 1000},
    "shapes.quorum": {"x-queue-type": "quorum"},
    "shapes.stream": {"x-queue-type": "stream"},
}


def shape_of(value: Any, key: str = "") -> Any:
    """Objects by their keys, lists by what their members have together, values by their types."""
    if isinstance(value, dict):
        if key in OPAQUE:
            return "object"
        return {name: shape_of(member, name) for name, member in sorted(value.items())}
    if isinstance(value, list):
        merged: dict[str, Any] = {}
        for member in value:
            shape = shape_of(member)
            if isinstance(shape, dict):
                merged.update(shape)
        return [merged] if merged else "list"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    return "null" if value is None else "string"


def missing(expected: Any, found: Any, place: str) -> list[str]:
    """What is expected and not found, or is of another type. Keys that are not expected do not
    matter to any client.
    """
    if isinstance(expected, list) and isinstance(found, list):
        return missing(expected[0], found[0], f"{place}[]")
    if isinstance(expected, dict) and isinstance(found, dict):
        wrong: list[str] = []
        for key, shape in expected.items():
            if key not in found:
                wrong.append(f"{place}.{key}")
            else:
                wrong += missing(shape, found[key], f"{place}.{key}")
        return wrong
    # A client that reads a value that may be null is prepared for it.
    if expected == found or "null" in (expected, found) or isinstance(expected, list):
        return []
    return [f"{place} is {found}, not {expected}"]


class Traffic:
    """The same topology and traffic on any broker. Held while its pages are read."""

    def __init__(self, url: str) -> None:
        self._connection = pika.BlockingConnection(pika.URLParameters(url))
        self._publisher: BlockingChannel = self._connection.channel()
        self._consumer: BlockingChannel = self._connection.channel()

    def begin(self) -> None:
        channel = self._publisher
        channel.exchange_declare("shapes.topic", "topic", durable=True)
        channel.exchange_declare("shapes.fanout", "fanout")
        channel.exchange_bind("shapes.fanout", "shapes.topic", "k.#")
        for name, arguments in _QUEUES.items():
            channel.queue_declare(name, durable=True, arguments=arguments)
            channel.queue_bind(name, "shapes.topic", "k.*")
        channel.confirm_delivery()
        for _ in range(20):
            channel.basic_publish("shapes.topic", "k.a", b"x")
        with contextlib.suppress(pika.exceptions.UnroutableError):
            channel.basic_publish("shapes.topic", "nowhere", b"x", mandatory=True)
        for auto_ack in (True, False):
            channel.basic_get("shapes.quorum", auto_ack=auto_ack)
        self._consumer.basic_qos(prefetch_count=10)
        self._consumer.basic_consume(
            "shapes.classic", self._take, arguments={"x-priority": 2}, consumer_tag="shapes"
        )

    def _take(self, channel: Any, method: Any, properties: object, body: bytes) -> None:
        del properties, body
        if method.redelivered:
            channel.basic_ack(method.delivery_tag)
        elif method.delivery_tag <= 3:
            channel.basic_nack(method.delivery_tag)

    def go_on(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._publisher.basic_publish("shapes.topic", "k.a", b"x")
            self._connection.process_data_events(0.2)

    def end(self) -> None:
        for name in _QUEUES:
            self._publisher.queue_delete(name)
        for name in ("shapes.topic", "shapes.fanout"):
            self._publisher.exchange_delete(name)
        self._connection.close()


class Reader:
    """Reads the pages of one broker."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self._url = f"{parts.scheme}://{parts.hostname}:{parts.port}/api/"
        login = f"{parts.username or 'guest'}:{parts.password or 'guest'}"
        self._login = base64.b64encode(login.encode()).decode()

    def get(self, path: str) -> Any:
        request = urllib.request.Request(
            self._url + path, headers={"Authorization": f"Basic {self._login}"}
        )
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            return json.loads(answer.read())


def shapes(amqp_url: str, http_url: str, seconds: float = SAMPLED_SECONDS) -> dict[str, Any]:
    reader = Reader(http_url)
    # Some brokers sample from the first request on.
    reader.get(f"queues?{SPANS}")
    traffic = Traffic(amqp_url)
    try:
        traffic.begin()
        traffic.go_on(seconds)
        name = urllib.parse.quote(reader.get("connections")[0]["name"], safe="")
        return {
            page: shape_of(reader.get(path.replace("CONNECTION", name)))
            for page, path in PAGES.items()
        }
    finally:
        traffic.end()


if __name__ == "__main__":
    found = shapes(sys.argv[1], sys.argv[2])
    # A line for each page, so that differences can be read.
    lines = [f"{json.dumps(page)}: {json.dumps(found[page], sort_keys=True)}" for page in found]
    Path(sys.argv[3]).write_text("{\n" + ",\n".join(lines) + "\n}\n")
