"""A busy root that is stopped, wherever that is in its work, and continued when another one is the root."""

import threading
import time

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic, BasicProperties

from tests.cluster.processes.servers import PATIENCE_SECONDS, ClusterServer, RunningCluster
from tests.cluster.processes.traffic import (
    PERSISTENT,
    QUEUE,
    TROUBLES,
    connected,
    declare,
    parameters,
)

pytestmark = pytest.mark.timeout(900)

MESSAGES = 6_000
PADDING = b"x" * 100
PREFETCH = 1_000
ACK_EVERY = 100
# Nothing comes for so long when everything that was sent is read.
QUIET_SECONDS = 1.0


class Consumer:
    """Reads as fast as it can, and acknowledges a hundred at a time; notes when each message came."""

    def __init__(self, server: ClusterServer) -> None:
        self.came: dict[bytes, float] = {}
        self._connection = pika.BlockingConnection(parameters(server))
        channel = self._connection.channel()
        channel.basic_qos(prefetch_count=PREFETCH)
        channel.basic_consume(QUEUE, self._heard)
        self._thread = threading.Thread(target=self._run, args=(channel,), daemon=True)
        self._thread.start()

    def _run(self, channel: BlockingChannel) -> None:
        try:
            channel.start_consuming()
        except TROUBLES:
            return

    def _heard(
        self, channel: BlockingChannel, method: Basic.Deliver, _: BasicProperties, body: bytes
    ) -> None:
        self.came[body] = time.monotonic()
        if len(self.came) % ACK_EVERY == 0:
            channel.basic_ack(method.delivery_tag, multiple=True)

    def has_begun(self) -> bool:
        return len(self.came) > PREFETCH

    def await_end(self) -> None:
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "the old root has left its client alone"


def fill(cluster: RunningCluster) -> None:
    """One transaction, which is there completely or not at all."""
    with connected(cluster) as connection:
        channel = connection.channel()
        channel.tx_select()
        for number in range(MESSAGES):
            channel.basic_publish("", QUEUE, b"%d %s" % (number, PADDING), PERSISTENT)
        channel.tx_commit()


def taken_at(server: ClusterServer) -> set[bytes]:
    """What it delivers without acknowledgements, so that all of it is completed."""
    found: set[bytes] = set()
    with pika.BlockingConnection(parameters(server)) as connection:
        channel = connection.channel()
        for method, _, body in channel.consume(
            QUEUE, auto_ack=True, inactivity_timeout=QUIET_SECONDS
        ):
            if method is None:
                break
            found.add(body)
    return found


def test_what_another_root_has_delivered_does_not_come_from_the_old_one_any_more(
    three: RunningCluster,
) -> None:
    three.start()
    declare(three)
    fill(three)
    old = three.whole_root()
    consumer = Consumer(old)
    three.until("messages are delivered", consumer.has_begun)
    old.pause()
    # What was sent before is read.
    time.sleep(QUIET_SECONDS)
    new = three.root()
    assert new is not old
    taken = taken_at(new)
    assert taken
    woken = time.monotonic()
    old.resume()
    consumer.await_end()
    late = {body for body, came in consumer.came.items() if came >= woken}
    assert not late & taken, f"{len(late & taken)} of {len(taken)} came again"
