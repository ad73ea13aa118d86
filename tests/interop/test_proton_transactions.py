"""Transactions of python-qpid-proton, and what pika sees of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from penstock import Broker

pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from proton import Event, Message
from proton.handlers import TransactionalClientHandler
from proton.reactor import Container, Transaction

# Long enough for a loaded core; the client's container ends when its work is done.
PATIENCE_SECONDS = 20.0

pytestmark = [
    pytest.mark.timeout(60),
    # Proton's Python binding leaves its own sockets to the collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def address(broker: Broker | None) -> str:
    if broker is None:
        pytest.skip("an outside broker was named, and it may not speak AMQP 1.0")
    return f"amqp://guest:guest@{broker.host}:{broker.port}"


@pytest.fixture
def channel(broker: Broker | None) -> Iterator[BlockingChannel]:
    if broker is None:
        pytest.skip("an outside broker was named, and it may not speak AMQP 1.0")
    opened = pika.BlockingConnection(pika.URLParameters(broker.url))
    yield opened.channel()
    opened.close()


@pytest.fixture
def queue(channel: BlockingChannel, unique: Callable[[str], str]) -> Iterator[str]:
    name = unique("proton.tx")
    channel.queue_declare(name, durable=True)
    yield name
    channel.queue_delete(name)


class Client(TransactionalClientHandler):
    """One connection, and the story of its transactions. The container ends with it."""

    def __init__(self, address: str, prefetch: int = 0) -> None:
        super().__init__(prefetch=prefetch)
        self.address = address
        self.story: list[str] = []
        self.container: Container | None = None

    def run(self) -> list[str]:
        self.container = Container(self)
        self.container.run()
        return self.story

    def on_start(self, event: Event) -> None:
        self.connection = event.container.connect(self.address, allowed_mechs="PLAIN")
        self.limit = event.container.schedule(PATIENCE_SECONDS, self)
        self.began(event)

    def began(self, event: Event) -> None:
        raise NotImplementedError

    def declare(self, settle_before_discharge: bool = False) -> None:
        assert self.container is not None
        self.container.declare_transaction(
            self.connection, handler=self, settle_before_discharge=settle_before_discharge
        )

    def finish(self) -> None:
        self.limit.cancel()
        self.connection.close()

    def on_timer_task(self, event: Event) -> None:
        self.story.append("too late")
        self.finish()

    def on_transaction_declare_failed(self, event: Event) -> None:
        self.story.append("declare failed")
        self.finish()

    def on_transaction_committed(self, event: Event) -> None:
        self.story.append("committed")
        self.discharged()

    def on_transaction_aborted(self, event: Event) -> None:
        self.story.append("aborted")
        self.discharged()

    def on_transaction_commit_failed(self, event: Event) -> None:
        self.story.append("commit failed")
        self.discharged()

    def discharged(self) -> None:
        self.finish()


class Sender(Client):
    """Sends so many messages in each of its transactions, then commits it or not."""

    def __init__(self, address: str, queue: str, count: int, commits: list[bool]) -> None:
        super().__init__(address)
        self.queue = queue
        self.count = count
        self.commits = commits
        self.number = 0
        self.sent = 0
        self.confirmed = 0
        self.transaction: Transaction | None = None

    def began(self, event: Event) -> None:
        self.sender = event.container.create_sender(self.connection, f"/queues/{self.queue}")
        self.declare()

    def on_transaction_declared(self, event: Event) -> None:
        self.transaction = event.transaction
        self.sent = self.confirmed = 0
        self.send()

    def on_sendable(self, event: Event) -> None:
        self.send()

    def send(self) -> None:
        transaction = self.transaction
        while transaction is not None and self.sender.credit and self.sent < self.count:
            body = f"{self.number}.{self.sent}".encode()
            message = Message(body=body, inferred=True, durable=True)
            transaction.send(self.sender, message)
            self.sent += 1

    def on_settled(self, event: Event) -> None:
        if event.link != self.sender or self.transaction is None:
            return
        self.confirmed += 1
        if self.confirmed == self.count:
            transaction = self.transaction
            self.transaction = None
            if self.commits[self.number]:
                transaction.commit()
            else:
                transaction.abort()

    def discharged(self) -> None:
        self.number += 1
        if self.number == len(self.commits):
            self.finish()
        else:
            self.declare()


class Receiver(Client):
    """Accepts so many messages in one transaction; afterwards it commits it or not."""

    def __init__(self, address: str, queue: str, count: int, commits: bool, settles: bool) -> None:
        super().__init__(address, prefetch=count)
        self.queue = queue
        self.count = count
        self.commits = commits
        self.settles = settles
        self.bodies: list[bytes] = []
        self.transaction: Transaction | None = None

    def began(self, event: Event) -> None:
        self.declare(self.settles)

    def on_transaction_declared(self, event: Event) -> None:
        assert self.container is not None
        self.transaction = event.transaction
        self.container.create_receiver(self.connection, f"/queues/{self.queue}")

    def on_message(self, event: Event) -> None:
        transaction = self.transaction
        if transaction is None:
            return
        assert event.delivery is not None
        self.bodies.append(bytes(event.message.body))
        self.accept(event.delivery, transaction)
        if len(self.bodies) == self.count:
            self.transaction = None
            if self.commits:
                transaction.commit()
            else:
                transaction.abort()


class Mover(Receiver):
    """Sends on what it accepts, in the same transaction."""

    def __init__(self, address: str, queue: str, to: str, count: int, commits: bool) -> None:
        super().__init__(address, queue, count, commits, False)
        self.to = to

    def began(self, event: Event) -> None:
        self.sender = event.container.create_sender(self.connection, f"/queues/{self.to}")

    def on_sendable(self, event: Event) -> None:
        if event.link == self.sender and self.transaction is None and not self.bodies:
            self.declare()

    def on_message(self, event: Event) -> None:
        if self.transaction is not None:
            body = bytes(event.message.body)
            self.transaction.send(self.sender, Message(body=body, inferred=True, durable=True))
        super().on_message(event)


def publish(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    properties = pika.BasicProperties(delivery_mode=2)
    for body in bodies:
        channel.basic_publish("", queue, body, properties)


def drain(channel: BlockingChannel, queue: str) -> list[bytes]:
    found: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        assert body is not None
        found.append(body)


def test_pika_reads_what_was_sent_in_transactions_that_were_committed(
    address: str, queue: str, channel: BlockingChannel
) -> None:
    sender = Sender(address, queue, 3, [True, False, True])
    assert sender.run() == ["committed", "aborted", "committed"]
    assert drain(channel, queue) == [b"0.0", b"0.1", b"0.2", b"2.0", b"2.1", b"2.2"]


def test_a_transaction_of_thousands_of_messages(
    address: str, queue: str, channel: BlockingChannel
) -> None:
    assert Sender(address, queue, 5_000, [True]).run() == ["committed"]
    assert channel.queue_declare(queue, passive=True).method.message_count == 5_000


@pytest.mark.parametrize("settles", [False, True])
def test_what_was_accepted_in_a_committed_transaction_is_gone(
    address: str, queue: str, channel: BlockingChannel, settles: bool
) -> None:
    publish(channel, queue, b"1", b"2", b"3")
    receiver = Receiver(address, queue, 2, True, settles)
    assert receiver.run() == ["committed"]
    assert receiver.bodies == [b"1", b"2"]
    assert drain(channel, queue) == [b"3"]


@pytest.mark.parametrize("settles", [False, True])
def test_what_was_accepted_in_an_aborted_transaction_is_there(
    address: str, queue: str, channel: BlockingChannel, settles: bool
) -> None:
    publish(channel, queue, b"1", b"2", b"3")
    assert Receiver(address, queue, 2, False, settles).run() == ["aborted"]
    assert drain(channel, queue) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("commits", [True, False])
def test_messages_of_pika_are_moved_in_a_transaction(
    address: str,
    queue: str,
    channel: BlockingChannel,
    unique: Callable[[str], str],
    commits: bool,
) -> None:
    to = unique("moved")
    channel.queue_declare(to, durable=True)
    publish(channel, queue, b"1", b"2")
    mover = Mover(address, queue, to, 2, commits)
    assert mover.run() == ["committed" if commits else "aborted"]
    moved, left = drain(channel, to), drain(channel, queue)
    assert (moved, left) == (([b"1", b"2"], []) if commits else ([], [b"1", b"2"]))
    channel.queue_delete(to)


def test_a_full_queue_fails_the_commit(
    address: str, channel: BlockingChannel, unique: Callable[[str], str]
) -> None:
    name = unique("full")
    channel.queue_declare(name, arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    assert Sender(address, name, 3, [True]).run() == ["commit failed"]
    assert channel.queue_declare(name, passive=True).method.message_count == 0
    channel.queue_delete(name)


class Vanisher(Receiver):
    """Goes without a word, with a transaction that is not discharged."""

    def on_message(self, event: Event) -> None:
        assert event.delivery is not None
        assert self.transaction is not None
        self.accept(event.delivery, self.transaction)
        self.finish()


def test_a_connection_that_closes_aborts(
    address: str, queue: str, channel: BlockingChannel
) -> None:
    publish(channel, queue, b"1")
    assert Vanisher(address, queue, 1, True, False).run() == []
    assert drain(channel, queue) == [b"1"]
