"""Real clients of a cluster member that has no root yet: they wait, and live by its heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pika
import pytest
from proton.utils import BlockingConnection
from websockets.sync.client import connect

from penstock import Broker
from penstock.node.node import Node
from tests.dialects.test_serving import ToldServing
from tests.server.http.doubles import AMQP, WebSocketClient
from tests.server.raw_client import wait_for

HEARTBEAT_SECONDS = 2
# Longer than any client waits that gets no heartbeats.
HELD_MS = 5_000
PATIENCE_SECONDS = 60


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(http=True) as running:
        yield running


def with_pika(broker: Broker) -> Callable[[], object]:
    parameters = pika.ConnectionParameters(
        port=broker.port, heartbeat=HEARTBEAT_SECONDS, blocked_connection_timeout=PATIENCE_SECONDS
    )
    return lambda: pika.BlockingConnection(parameters)


def with_proton(broker: Broker) -> Callable[[], object]:
    address = f"amqp://guest:guest@127.0.0.1:{broker.port}"
    return lambda: BlockingConnection(
        address, heartbeat=HEARTBEAT_SECONDS, timeout=PATIENCE_SECONDS
    )


def over_websocket(broker: Broker) -> Callable[[], object]:
    def opened() -> object:
        line = ExitStack()
        address = f"ws://127.0.0.1:{broker.http_port}/ws"
        WebSocketClient(line.enter_context(connect(address, subprotocols=AMQP)))
        return line

    return opened


@pytest.mark.parametrize("client", [with_pika, with_proton, over_websocket])
def test_a_client_waits_for_a_root_and_is_then_served(
    broker: Broker, client: Callable[[Broker], Callable[[], object]]
) -> None:
    serving = ToldServing()

    def join(node: Node, now: int) -> None:
        node.container.held_clients.serving = serving

    def held_since(node: Node, now: int) -> int:
        """For how many milliseconds its oldest connection has been there; -1 without one."""
        is_held = node.container.held_clients.count() == 1
        return now - min(one.began for one in node.connections.values()) if is_held else -1

    def serve(node: Node, now: int) -> None:
        serving.serves = True
        node.container.held_clients.changed(now)

    broker._call(join)
    with ThreadPoolExecutor(1) as threads:
        opening = threads.submit(client(broker))
        wait_for(lambda: opening.done() or broker._call(held_since) >= HELD_MS)
        assert not opening.done(), opening.exception(0)
        broker._call(serve)
        opened = opening.result(PATIENCE_SECONDS)
        assert broker.connection_count == 1
        opened.close()  # type: ignore[attr-defined]
