"""What tests of a server that is killed have in common: rounds of clients that end with SIGKILL.

A round ends when the clients have been promised a few things more, however long that takes: on a
machine with much else to do everything is slower, and nothing else is different.
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

from tests.server.durable_broker import DurableBroker

# For everything that a client or a test waits for. Nothing takes nearly as long, even where ten
# others want the processor.
PATIENCE_SECONDS = 120
# For a whole test of many rounds.
TEST_SECONDS = 900
POLL_SECONDS = 0.002
# How many promises a round waits for, and how long after the last one the server may live on: a
# kill is to meet every state, and not only the one just behind a promise.
PROMISES_MAX = 60
JITTER_SECONDS_MAX = 0.02


def parameters(broker: DurableBroker) -> pika.ConnectionParameters:
    return pika.ConnectionParameters(
        "127.0.0.1",
        broker.port,
        socket_timeout=PATIENCE_SECONDS,
        stack_timeout=PATIENCE_SECONDS,
        blocked_connection_timeout=PATIENCE_SECONDS,
    )


@contextlib.contextmanager
def until_killed(broker: DurableBroker) -> Iterator[BlockingChannel]:
    """A channel of a client that works until the server dies, which ends the block."""
    with contextlib.suppress(pika.exceptions.AMQPError, OSError):
        try:
            channel = pika.BlockingConnection(parameters(broker)).channel()
        except (pika.exceptions.AMQPError, OSError):
            # It died before this client had connected.
            channel = cast("BlockingChannel", NoChannel())
        yield channel


class NoChannel:
    """Fails as a channel of a dead server does."""

    def __getattr__(self, name: str) -> object:
        raise pika.exceptions.AMQPConnectionError(f"no channel for {name}")


def play_round(
    broker: DurableBroker,
    clients: Sequence[Callable[[], None]],
    promises: Callable[[], int],
    dice: random.Random,
) -> None:
    """Let the clients work until the server dies. They end when it does."""
    threads = [threading.Thread(target=client) for client in clients]
    for thread in threads:
        thread.start()
    wait_for_promises(promises, promises() + dice.randint(1, PROMISES_MAX))
    time.sleep(dice.uniform(0, JITTER_SECONDS_MAX))
    broker.kill()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), "a client hangs on a server that is dead"


def wait_for_promises(promises: Callable[[], int], wanted: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while promises() < wanted:
        assert time.monotonic() < deadline, f"{promises()} of {wanted} promises were made"
        time.sleep(POLL_SECONDS)
