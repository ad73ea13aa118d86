"""AMQP 1.0 over WebSocket, as rhea speaks it: scenarios of `rhea/` through the HTTP port."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest

from penstock import Broker
from tests.interop.test_rhea import FROM_PIKA, finish, start

# Those in which it matters how octets travel; resuming cuts sockets that are not rhea's here.
SCENARIOS = [
    "sends_and_receives_a_thousand_in_order",
    "carries_large_messages_in_many_frames",
    "says_what_became_of_a_delivery",
    "drains",
    "selects",
    "a_refused_link_leaves_the_session_alone",
    "detaches_closes_and_attaches_again",
    "a_wrong_password_is_refused",
    "an_unknown_virtual_host_is_refused",
]

# Without the time npm may take to install rhea, which is a fixture's.
pytestmark = pytest.mark.timeout(60, func_only=True)


@pytest.fixture(scope="module")
def open_broker() -> Iterator[Broker]:
    with Broker(http=True) as running:
        yield running


@pytest.fixture
def queue(open_broker: Broker, unique: Callable[[str], str]) -> str:
    name = unique("websocket")
    connection = pika.BlockingConnection(pika.URLParameters(open_broker.url))
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}.dead"}
    connection.channel().queue_declare(f"{name}.dead")
    connection.channel().queue_declare(name, arguments=arguments)
    connection.close()
    return name


def address(broker: Broker, path: str) -> str:
    return f"ws://guest:guest@{broker.host}:{broker.http_port}{path}"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_rhea_over_websocket(rhea: Path, open_broker: Broker, queue: str, scenario: str) -> None:
    finish(start(rhea, scenario, address(open_broker, "/ws"), queue))


def test_what_pika_published_over_tcp_is_received_over_websocket(
    rhea: Path, open_broker: Broker, queue: str
) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(open_broker.url))
    properties = pika.BasicProperties(
        delivery_mode=2,
        priority=3,
        message_id="id",
        correlation_id="correlation",
        content_type="text/plain",
        headers={"text": "t", "number": 42, "truth": True},
    )
    connection.channel().basic_publish("", queue, b"octets", properties)
    connection.close()
    finish(start(rhea, FROM_PIKA, address(open_broker, "/"), queue))


def test_another_subprotocol_is_refused(rhea: Path, open_broker: Broker) -> None:
    program = """
        const WebSocket = require("ws");
        new WebSocket(process.argv[1], ["mqtt"])
          .on("unexpected-response", (_, answer) => process.exit(answer.statusCode === 400 ? 0 : 1))
          .on("open", () => process.exit(1));
    """
    done = subprocess.run(
        ["node", "-e", program, f"ws://{open_broker.host}:{open_broker.http_port}/ws"],
        env=os.environ | {"NODE_PATH": str(rhea / "node_modules")},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 0, done.stderr
