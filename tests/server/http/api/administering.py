"""What tests of pages that change something share."""

import json
import socket
from collections.abc import Callable

import httpx

from penstock import Broker
from penstock.node.node import Node
from tests.server.http.asking import Pages
from tests.support.recorded_events import RecordedEvents

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


def sent(
    pages: Pages, method: str, path: str, body: object = None, **headers: str
) -> httpx.Response:
    """`body` as JSON; none when it is None."""
    content = b"" if body is None else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return pages.ask(method, path, content, named)


def done(pages: Pages, method: str, path: str, body: object = None) -> httpx.Response:
    response = sent(pages, method, path, body)
    assert response.is_success, response.text
    return response


def user_of(pages: Pages, name: str, tags: str = "", **permissions: str) -> Pages:
    """A new user, who has permissions in `/` when some are given."""
    done(pages, "PUT", f"/api/users/{name}", {"password": "p", "tags": tags})
    if permissions:
        nothing = {"configure": "", "write": "", "read": ""}
        done(pages, "PUT", f"/api/permissions/%2F/{name}", {**nothing, **permissions})
    return Pages(pages.broker, (name, "p"))


def publish(
    pages: Pages,
    exchange: str,
    key: str,
    payload: str = "x",
    properties: dict[str, object] | None = None,
) -> httpx.Response:
    body = {
        "properties": properties or {},
        "routing_key": key,
        "payload": payload,
        "payload_encoding": "string",
    }
    return sent(pages, "POST", f"/api/exchanges/%2F/{exchange}/publish", body)


def looked_at(broker: Broker, look: Callable[[Node], object]) -> object:
    """What the broker's state says, on its own thread."""
    return broker._call(lambda node, now: look(node))


def listening(broker: Broker) -> RecordedEvents:
    """What the broker tells its log from now on."""
    events = RecordedEvents()

    def listen(node: Node) -> None:
        node.container.events = events

    looked_at(broker, listen)
    return events


def own_end(raw: socket.socket) -> str:
    host, port = raw.getsockname()
    return f"{host}:{port}"
