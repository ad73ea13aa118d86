"""Qpid Proton's C library through Debian's own examples, unmodified, and pika on the same queues.

They have no login and no SASL layer, and send to queues that nobody has declared.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from penstock import Broker

PATIENCE_SECONDS = 20.0

# Without the time a fixture may take to install and compile.
pytestmark = pytest.mark.timeout(60, func_only=True)

Example = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def example(broker: Broker | None, proton_examples: Path) -> Example:
    if broker is None:
        pytest.skip("an outside broker was named, and it may not speak AMQP 1.0")
    place = [broker.host, str(broker.port)]

    def run(name: str, address: str, count: int) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(proton_examples / name), *place, address, str(count)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    return run


@pytest.fixture
def channel(broker: Broker | None) -> Iterator[BlockingChannel]:
    assert broker is not None
    opened = pika.BlockingConnection(pika.URLParameters(broker.url))
    yield opened.channel()
    opened.close()


@pytest.fixture
def queue(
    example: Example, channel: BlockingChannel, unique: Callable[[str], str]
) -> Iterator[str]:
    """The name of one that is created when it is used."""
    name = unique("proton.c")
    yield name
    channel.queue_delete(name)


def depth(channel: BlockingChannel, queue: str) -> int:
    count: int = channel.queue_declare(queue, passive=True).method.message_count
    return count


def test_the_sender_and_the_receiver_of_the_examples(
    example: Example, queue: str, channel: BlockingChannel
) -> None:
    sent = example("send", queue, 1000)
    assert (sent.returncode, sent.stdout) == (0, "1000 messages sent and acknowledged\n")
    assert depth(channel, queue) == 1000
    # More than its window of credit, which it gives again as it goes.
    received = example("receive", queue, 1000)
    assert received.returncode == 0, received.stderr
    wanted = [f'{{"sequence"={number}}}' for number in range(1, 1001)]
    assert received.stdout.splitlines() == [*wanted, "1000 messages received"]
    assert depth(channel, queue) == 0


def test_aborted_messages_are_never_enqueued(
    example: Example, queue: str, channel: BlockingChannel
) -> None:
    aborted = example("send-abort", queue, 20)
    assert (aborted.returncode, aborted.stdout) == (0, "20 messages started and aborted\n")
    assert depth(channel, queue) == 0
    assert example("send", queue, 1).returncode == 0
    assert depth(channel, queue) == 1


def test_the_receiver_reads_what_pika_published(
    example: Example, queue: str, channel: BlockingChannel
) -> None:
    channel.queue_declare(queue, durable=True)
    channel.basic_publish("", queue, b"octets")
    assert example("receive", queue, 1).stdout.splitlines()[0] == 'b"octets"'


def test_pika_reads_what_the_sender_sent(
    example: Example, queue: str, channel: BlockingChannel
) -> None:
    assert example("send", queue, 1).returncode == 0
    method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert method is not None
    # A map has no likeness in AMQP 0-9-1 and stays encoded, which its type says.
    assert properties.type == "amqp-1.0"
    assert b"sequence" in body


def test_a_queue_that_is_not_there_is_an_error_of_the_example(example: Example) -> None:
    refused = example("send", "/queues/there-is-no-such-queue", 1)
    assert refused.returncode == 1
    assert "amqp:not-found" in refused.stderr


def test_an_example_that_does_not_log_in_is_told_to_where_it_must(proton_examples: Path) -> None:
    with Broker(anonymous="never") as strict:
        refused = subprocess.run(
            [str(proton_examples / "send"), strict.host, str(strict.port), "examples", "1"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert refused.returncode == 1
    assert "SASL" in refused.stderr


def test_nothing_is_created_where_the_operator_does_not_want_it(proton_examples: Path) -> None:
    with Broker(create_queues=False) as strict:
        refused = subprocess.run(
            [str(proton_examples / "send"), strict.host, str(strict.port), "examples", "1"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert strict.queue_depths() == {}
    assert refused.returncode == 1
    assert "amqp:not-found" in refused.stderr
