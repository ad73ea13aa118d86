"""rhea, the JavaScript client of AMQP 1.0: every scenario of `rhea/` in its own process, and pika
on the same queues.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from penstock import Broker

FOLDER = Path(__file__).parent / "rhea"
SCRIPT = FOLDER / "scenarios.cjs"
SOURCES = [SCRIPT.read_text("utf-8"), (FOLDER / "resuming.cjs").read_text("utf-8")]
SCENARIOS = re.findall(r"^  async (\w+)\(url", "\n".join(SOURCES), re.MULTILINE)
# These want something done meanwhile or before, by tests of their own.
DELETED = "hears_that_its_queue_was_deleted"
FOR_PIKA = "leaves_messages_for_pika"
FROM_PIKA = "takes_what_pika_left"
ALONE = [name for name in SCENARIOS if name not in (DELETED, FOR_PIKA, FROM_PIKA)]

PATIENCE_SECONDS = 25.0

# Without the time npm may take to install rhea, which is a fixture's.
pytestmark = pytest.mark.timeout(60, func_only=True)


@pytest.fixture
def address(broker: Broker | None) -> str:
    if broker is None:
        pytest.skip("an outside broker was named, and it may not speak AMQP 1.0")
    return f"amqp://guest:guest@{broker.host}:{broker.port}"


@pytest.fixture
def channel(broker: Broker | None) -> Iterator[BlockingChannel]:
    assert broker is not None
    opened = pika.BlockingConnection(pika.URLParameters(broker.url))
    yield opened.channel()
    opened.close()


@pytest.fixture
def queue(address: str, channel: BlockingChannel, unique: Callable[[str], str]) -> Iterator[str]:
    name = unique("rhea")
    dead = f"{name}.dead"
    channel.queue_declare(dead)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(name, arguments=arguments)
    yield name
    channel.queue_delete(name)
    channel.queue_delete(dead)


def start(rhea: Path, scenario: str, address: str, queue: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["node", str(SCRIPT), scenario, address, queue],
        env=os.environ | {"NODE_PATH": str(rhea / "node_modules")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    try:
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        pytest.fail(f"node did not end in {PATIENCE_SECONDS} s\n{output}")
    assert process.returncode == 0, output


@pytest.mark.parametrize("scenario", ALONE)
def test_rhea(rhea: Path, address: str, queue: str, scenario: str) -> None:
    finish(start(rhea, scenario, address, queue))


def test_rhea_hears_that_its_queue_was_deleted(
    rhea: Path, address: str, queue: str, channel: BlockingChannel
) -> None:
    process = start(rhea, DELETED, address, queue)
    assert process.stdout is not None
    assert process.stdout.readline() == "attached\n"
    channel.queue_delete(queue)
    finish(process)


def test_pika_reads_what_rhea_sent(
    rhea: Path, address: str, queue: str, channel: BlockingChannel
) -> None:
    finish(start(rhea, FOR_PIKA, address, queue))
    method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert method is not None
    assert body == b"octets"
    assert properties.delivery_mode == 2
    assert properties.priority == 3
    assert properties.message_id == "id"
    assert properties.correlation_id == "correlation"
    assert properties.content_type == "text/plain"
    assert properties.headers == {"text": "t", "number": 42, "truth": True}


def test_rhea_reads_what_pika_published(
    rhea: Path, address: str, queue: str, channel: BlockingChannel
) -> None:
    properties = pika.BasicProperties(
        delivery_mode=2,
        priority=3,
        message_id="id",
        correlation_id="correlation",
        content_type="text/plain",
        headers={"text": "t", "number": 42, "truth": True},
    )
    channel.basic_publish("", queue, b"octets", properties)
    finish(start(rhea, FROM_PIKA, address, queue))


def test_no_scenario_was_overlooked() -> None:
    assert len(SCENARIOS) == sum(source.count("\n  async ") for source in SOURCES) >= 20
