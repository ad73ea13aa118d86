"""Clients of a cluster that lose their server and go on, and the ledger of what they were promised.

Every publish has a body of its own, also when a message in doubt is sent again. So a body that comes
twice is a message that was delivered twice.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

from penstock.cli.chaos_steps.ledger import ChaosLedger
from penstock.client.asynchronous_reconnect import connect_lasting
from penstock.client.calls import declare_queue
from penstock.client.errors import ClientError
from tests.cluster.processes.servers import (
    PATIENCE_SECONDS,
    POLL_SECONDS,
    ClusterServer,
    RunningCluster,
)

QUEUE = "orders"
PERSISTENT = pika.BasicProperties(delivery_mode=2)
TROUBLES = (pika.exceptions.AMQPError, OSError, ClientError)


# By which clients that work on and on notice that their server sleeps.
HEARTBEAT_SECONDS = 5


def parameters(server: ClusterServer, heartbeat: int = 0) -> pika.ConnectionParameters:
    """Without heartbeats, a client ends only when the server ends it."""
    return pika.ConnectionParameters(
        "127.0.0.1",
        server.port,
        heartbeat=heartbeat,
        socket_timeout=PATIENCE_SECONDS,
        stack_timeout=PATIENCE_SECONDS,
        blocked_connection_timeout=PATIENCE_SECONDS,
    )


def connected(cluster: RunningCluster, heartbeat: int = 0) -> pika.BlockingConnection:
    """A connection to whichever server is the active root."""

    def attempt() -> pika.BlockingConnection | None:
        with contextlib.suppress(*TROUBLES):
            return pika.BlockingConnection(parameters(cluster.root(), heartbeat))
        return None

    return cluster.until("a client is connected", attempt)


class Ledger(ChaosLedger):
    """What clients know, as `penstock chaos` keeps it."""

    def check(self) -> None:
        """After everything that was left has been delivered."""
        assert self.lies == []
        lost = self.lost()
        assert lost == set(), f"{len(lost)} of {len(self.confirmed)} confirmed messages are lost"
        assert self.strangers() == set()


class Client:
    """A thread that works until it is told to end, whatever happens to the servers."""

    def __init__(self, cluster: RunningCluster, ledger: Ledger) -> None:
        self.cluster = cluster
        self.ledger = ledger
        self.is_ending = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self.is_ending.is_set():
                with contextlib.suppress(*TROUBLES):
                    self.work()
        except BaseException as error:
            self._error = error

    def work(self) -> None:
        """Until the connection is lost, or the client ends."""
        raise NotImplementedError

    def end(self) -> None:
        self.is_ending.set()
        self._thread.join(2 * PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "a client hangs"
        if self._error is not None:
            raise self._error


class PikaPublisher(Client):
    """Publishes and waits for the confirm, again and again; sends again what is in doubt."""

    def __init__(self, cluster: RunningCluster, ledger: Ledger, prefix: str = "pika") -> None:
        self._prefix = prefix
        self._count = 0
        super().__init__(cluster, ledger)

    def work(self) -> None:
        with connected(self.cluster, HEARTBEAT_SECONDS) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            while not self.is_ending.is_set():
                self._count += 1
                body = f"{self._prefix} {self._count}".encode()
                self.ledger.in_doubt.add(body)
                channel.basic_publish("", QUEUE, body, PERSISTENT)
                self.ledger.confirm([body])


class OwnPublisher(Client):
    """The project's client, which knows all addresses and repeats by itself what is in doubt. So
    a message may be there twice, in a queue of its own, and the confirms are what counts.
    """

    QUEUE = "own"

    def __init__(self, cluster: RunningCluster) -> None:
        self.confirmed: list[bytes] = []
        super().__init__(cluster, Ledger())

    def work(self) -> None:
        asyncio.run(self._publish())

    async def _publish(self) -> None:
        root = self.cluster.root()
        others = [server for server in self.cluster.servers if server is not root]
        addresses = [f"amqp://127.0.0.1:{server.port}" for server in [root, *others]]
        async with await connect_lasting(addresses) as connection:
            channel = await connection.channel()
            await channel.call(declare_queue(self.QUEUE, durable=True))
            await channel.select_confirms()
            while not self.is_ending.is_set():
                body = f"own {len(self.confirmed)}".encode()
                await channel.publish("", self.QUEUE, body)
                self.confirmed.append(body)

    def check(self) -> None:
        found = {body for body, _ in drain(self.cluster, self.QUEUE)}
        assert self.confirmed, "it was never told that a message is safe"
        assert [body for body in self.confirmed if body not in found] == []


class TransactedConsumer(Client):
    """Acknowledges in transactions: commit-ok says that an acknowledgement is completed."""

    def work(self) -> None:
        with connected(self.cluster, HEARTBEAT_SECONDS) as connection:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=20)
            channel.tx_select()
            unsettled: list[bytes] = []
            for method, _, body in channel.consume(QUEUE, inactivity_timeout=POLL_SECONDS):
                if method is not None:
                    self.ledger.deliver(body, method.redelivered)
                    unsettled.append(body)
                if len(unsettled) >= 5:
                    channel.basic_ack(method.delivery_tag, multiple=True)
                    channel.tx_commit()
                    self.ledger.completed.update(unsettled)
                    unsettled = []
                if self.is_ending.is_set():
                    return


def with_channel(cluster: RunningCluster, use: Callable[[BlockingChannel], None]) -> None:
    """Something that may be done again when the root changes meanwhile."""

    def attempt() -> bool:
        with contextlib.suppress(*TROUBLES), connected(cluster) as connection:
            use(connection.channel())
            return True
        return False

    cluster.until("a client has done its work", attempt)


def root_channel(cluster: RunningCluster) -> tuple[ClusterServer, BlockingChannel]:
    """A channel that stays open, and the root that has it, with all servers in sync."""

    def attempt() -> tuple[ClusterServer, BlockingChannel] | None:
        root = cluster.whole_root()
        with contextlib.suppress(*TROUBLES):
            return root, pika.BlockingConnection(parameters(root)).channel()
        return None

    return cluster.until("a client is connected", attempt)


def declare(cluster: RunningCluster, queue: str = QUEUE) -> None:
    with_channel(cluster, lambda channel: channel.queue_declare(queue, durable=True))


def publish_confirmed(channel: BlockingChannel, body: bytes) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", QUEUE, body, PERSISTENT)


def publish(cluster: RunningCluster, *bodies: bytes, queue: str = QUEUE) -> None:
    """Each until it is confirmed; so one may be there twice, if the root changed meanwhile."""
    left = list(bodies)

    def send(channel: BlockingChannel) -> None:
        channel.queue_declare(queue, durable=True)
        channel.confirm_delivery()
        while left:
            channel.basic_publish("", queue, left[0], PERSISTENT)
            left.pop(0)

    with_channel(cluster, send)


def drain(cluster: RunningCluster, queue: str = QUEUE) -> list[tuple[bytes, bool]]:
    """Everything in a queue with its flag, acknowledged."""
    drained: list[list[tuple[bytes, bool]]] = []

    def take(channel: BlockingChannel) -> None:
        found = take_all(channel, queue)
        # Nothing is left if the commit before this one was done, and only its answer lost.
        if found or not drained:
            drained.append(found)
        channel.tx_commit()

    with_channel(cluster, take)
    return drained[-1]


def drain_bodies(cluster: RunningCluster, queue: str = QUEUE) -> list[bytes]:
    """Everything in a queue, in order, acknowledged; what was sent again counts once."""
    return list(dict.fromkeys(body for body, _ in drain(cluster, queue)))


def take_all(channel: BlockingChannel, queue: str) -> list[tuple[bytes, bool]]:
    """Acknowledged in a transaction that is not committed yet."""
    count = channel.queue_declare(queue, passive=True).method.message_count
    found: list[tuple[bytes, bool]] = []
    channel.tx_select()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(found) < count:
        method, _, body = channel.basic_get(queue)
        if method is None:
            assert time.monotonic() < deadline, f"{len(found)} of {count} came"
            time.sleep(POLL_SECONDS)
            continue
        assert body is not None
        found.append((body, method.redelivered))
    if found:
        channel.basic_ack(0, multiple=True)
    return found


def settle(cluster: RunningCluster, ledger: Ledger) -> None:
    """Everything that is left is delivered and acknowledged; then the ledger must be right."""
    for body, is_redelivered in drain(cluster):
        ledger.deliver(body, is_redelivered)
    ledger.check()


def await_confirms(cluster: RunningCluster, ledger: Ledger, more: int) -> None:
    wanted = len(ledger.confirmed) + more
    cluster.until(f"{wanted} confirms", lambda: len(ledger.confirmed) >= wanted)


def is_lost(use: Callable[[], object]) -> bool:
    """Whether the connection is gone when it is used."""
    try:
        use()
    except TROUBLES:
        return True
    return False
