"""What the tests of this folder share: a broker with HTTP, its pages, messages in a stream."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
from pika.adapters.blocking_connection import BlockingChannel

from penstock import Broker
from tests.server.opened import close_all, pika_connection

GUEST: Final = ("guest", "guest")
STREAM: Final[dict[str, object]] = {"x-queue-type": "stream"}
# So small that every few messages begin a segment.
SHORT_SEGMENTS: Final[dict[str, object]] = {**STREAM, "x-stream-max-segment-size-bytes": 500}


@contextmanager
def serving(data: Path | None = None, connections_max: int = 100) -> Iterator[Broker]:
    """A broker with HTTP. Clients are closed before it ends: it would wait for their answers."""
    with Broker(http=True, data=data, connections_max=connections_max) as running:
        try:
            yield running
        finally:
            close_all()


class Pages:
    """Asks one broker over HTTP. Held by a test."""

    def __init__(self, broker: Broker, login: tuple[str, str] | None = GUEST) -> None:
        self.broker = broker
        self._login = login

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.ask(
            "GET", path, headers={name.replace("_", "-"): headers[name] for name in headers}
        )

    def ask(
        self, method: str, path: str, content: bytes = b"", headers: dict[str, str] | None = None
    ) -> httpx.Response:
        return httpx.request(
            method,
            self.broker.http_url + path,
            auth=self._login,
            content=content,
            headers=headers,
            timeout=20,
        )

    def facts(self, path: str) -> dict[str, object]:
        response = self.get(path)
        assert response.status_code == 200, response.text
        found = response.json()
        assert isinstance(found, dict)
        return found

    def segments(self, stream: str) -> list[dict[str, int]]:
        found = self.facts(f"/api/streams/%2F/{stream}")["segments"]
        assert isinstance(found, list)
        return found


def problem(response: httpx.Response, status: int) -> dict[str, object]:
    """The body of a refusal, whose form is the same everywhere."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = json.loads(response.text)
    assert isinstance(body, dict) and body["error"] and body["reason"]
    return body


def declared(broker: Broker, name: str, arguments: dict[str, object]) -> BlockingChannel:
    channel = pika_connection(broker.url).channel()
    channel.queue_declare(name, durable=True, arguments=arguments)
    channel.confirm_delivery()
    return channel


def publish(channel: BlockingChannel, name: str, bodies: list[bytes]) -> None:
    """Returns when they are safe."""
    for body in bodies:
        channel.basic_publish("", name, body)
