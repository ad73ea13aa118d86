"""A server that is killed while clients append to a stream and read it."""

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.server.durable_broker import PERSISTENT, DurableBroker, durable_broker
from tests.server.killing import PATIENCE_SECONDS, TEST_SECONDS, play_round, until_killed

pytestmark = pytest.mark.timeout(TEST_SECONDS)

ROUNDS = 8
SEED = 12
PUBLISHERS = 2
STREAM: dict[str, object] = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 20_000}


class Ledger:
    """What clients know. Bodies are `publisher:number`."""

    def __init__(self) -> None:
        self.sent: dict[int, int] = dict.fromkeys(range(PUBLISHERS), 0)
        self.confirmed: set[bytes] = set()
        # What somebody has read where.
        self.read: dict[int, bytes] = {}
        self.faults: list[str] = []

    def promises(self) -> int:
        return len(self.confirmed) + len(self.read)


def publish(broker: DurableBroker, ledger: Ledger, publisher: int) -> None:
    with until_killed(broker) as channel:
        channel.confirm_delivery()
        while True:
            ledger.sent[publisher] += 1
            body = b"%d:%d" % (publisher, ledger.sent[publisher])
            channel.basic_publish("", "s", body, PERSISTENT)
            ledger.confirmed.add(body)


def read(broker: DurableBroker, ledger: Ledger) -> None:
    """From the beginning: what was read in an earlier life must be where it was."""
    with until_killed(broker) as channel:
        for offset, body in entries(channel, 1):
            if ledger.read.setdefault(offset, body) != body:
                ledger.faults.append(f"{offset} was {ledger.read[offset]!r} and is {body!r}")


def entries(channel: BlockingChannel, patience: float) -> Iterator[tuple[int, bytes]]:
    """All that is there, and goes on with what comes."""
    channel.basic_qos(prefetch_count=100)
    arguments: dict[str, object] = {"x-stream-offset": "first"}
    for method, properties, body in channel.consume(
        "s", inactivity_timeout=patience, arguments=arguments
    ):
        if method is not None:
            channel.basic_ack(method.delivery_tag)
            yield properties.headers["x-stream-offset"], body


def everything(channel: BlockingChannel) -> list[bytes]:
    count = channel.queue_declare("s", passive=True).method.message_count
    bodies: list[bytes] = []
    for offset, body in entries(channel, PATIENCE_SECONDS):
        assert offset == len(bodies), "no offset is left out"
        bodies.append(body)
        if len(bodies) == count:
            break
    channel.cancel()
    return bodies


def test_killed_again_and_again_a_stream_keeps_what_was_confirmed_and_read(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    ledger = Ledger()
    with durable_broker(tmp_path / "data") as broker:
        broker.start()
        broker.channel().queue_declare("s", durable=True, arguments=STREAM)
        for _ in range(ROUNDS):
            clients = [partial(publish, broker, ledger, number) for number in range(PUBLISHERS)]
            clients.append(partial(read, broker, ledger))
            play_round(broker, clients, ledger.promises, dice)
            broker.start()
        assert ledger.confirmed and ledger.read
        assert not ledger.faults
        bodies = everything(broker.channel())
    assert len(set(bodies)) == len(bodies), "nothing twice"
    assert ledger.confirmed <= set(bodies), "nothing confirmed is lost"
    for offset, body in ledger.read.items():
        assert bodies[offset] == body, "what was read is where it was"
    for publisher in range(PUBLISHERS):
        prefix = b"%d:" % publisher
        numbers = [int(body[len(prefix) :]) for body in bodies if body.startswith(prefix)]
        assert numbers == sorted(numbers), "order is kept"
