"""Real clients of a cluster member that has no root yet: they wait, and live by its heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pika
import pytest
from proton.utils import BlockingConnection
from websockets.sync.client import connect

from penstock import Broker
from penstock.client import blocking
from penstock.ha.connection_observer import ConnectionObserver
from penstock.node.node import Node
from tests.ha.test_connection_observer import ToldRoot, observer
from tests.server.http.doubles import AMQP, WebSocketClient
from tests.server.raw_client import wait_for

# Servers send one after half of it; a busy machine may be late by the other half.
HEARTBEAT_SECONDS = 4
# Longer than any client waits that gets no heartbeats: pika waits five seconds more than
# agreed, and a handshake may take ten.
HELD_MS = 12_000
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


def with_our_client(broker: Broker) -> Callable[[], object]:
    return lambda: blocking.connect(f"amqp://127.0.0.1:{broker.port}?heartbeat={HEARTBEAT_SECONDS}")


CLIENTS = (with_pika, with_proton, over_websocket, with_our_client)


def test_clients_wait_for_a_root_and_are_then_served(broker: Broker) -> None:
    serving = ToldRoot()

    def join(node: Node, now: int) -> None:
        node.container.admission = ConnectionObserver(node.state.timers, serving)

    def held_since(node: Node, now: int) -> int:
        """For how many milliseconds all of them have been there; -1 while one is missing."""
        are_held = observer(node).count() == len(CLIENTS)
        return now - max(one.began for one in node.connections.values()) if are_held else -1

    def serve(node: Node, now: int) -> None:
        serving.serves = True
        observer(node).changed(now)

    broker._call(join)
    with ThreadPoolExecutor(len(CLIENTS)) as threads:
        opening = [threads.submit(client(broker)) for client in CLIENTS]
        wait_for(lambda: any_done(opening) or broker._call(held_since) >= HELD_MS)
        assert not any_done(opening), [one.exception(0) for one in opening if one.done()]
        broker._call(serve)
        opened = [one.result(PATIENCE_SECONDS) for one in opening]
        assert broker.connection_count == len(CLIENTS)
        for connection in opened:
            connection.close()  # type: ignore[attr-defined]


def any_done(calls: list[Future[object]]) -> bool:
    return any(call.done() for call in calls)
