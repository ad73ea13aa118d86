"""python-qpid-proton, the AMQP 1.0 client that most others are built on, and pika on the same queues."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from penstock import Broker

pytest.importorskip("proton", reason="python-qpid-proton is not installed")

from proton import (
    ConnectionException,
    Delivery,
    Disposition,
    Event,
    Link,
    Message,
    Terminus,
    Timeout,
    symbol,
)
from proton.handlers import MessagingHandler
from proton.reactor import (
    AtLeastOnce,
    AtMostOnce,
    Container,
    Copy,
    ReceiverOption,
    Selector,
)
from proton.utils import (
    BlockingConnection,
    BlockingReceiver,
    LinkDetached,
    SendException,
)

# Long enough for a loaded core; every wait ends as soon as what it waits for is there.
PATIENCE_SECONDS = 10.0
# Proving that nothing comes needs a quiet moment.
QUIET_SECONDS = 0.3

pytestmark = [
    pytest.mark.timeout(30),
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
def connection(address: str) -> Iterator[BlockingConnection]:
    opened = BlockingConnection(address, timeout=PATIENCE_SECONDS, allowed_mechs="PLAIN")
    yield opened
    opened.close()


@pytest.fixture
def channel(broker: Broker | None) -> Iterator[BlockingChannel]:
    assert broker is not None
    opened = pika.BlockingConnection(pika.URLParameters(broker.url))
    yield opened.channel()
    opened.close()


@pytest.fixture
def queue(channel: BlockingChannel, unique: Callable[[str], str]) -> Iterator[str]:
    name = unique("proton")
    channel.queue_declare(name, durable=True)
    yield name
    channel.queue_delete(name)


def receive(receiver: BlockingReceiver) -> Message:
    return receiver.receive(timeout=PATIENCE_SECONDS)


def octets(message: Message) -> bytes:
    assert isinstance(message.body, (bytes, memoryview))
    return bytes(message.body)


def has_nothing(receiver: BlockingReceiver) -> bool:
    try:
        receiver.receive(timeout=QUIET_SECONDS)
    except Timeout:
        return True
    return False


def test_a_thousand_messages_go_in_and_come_out_in_order(
    address: str, queue: str, channel: BlockingChannel
) -> None:
    sender = Sender(address, queue, 1000)
    Container(sender).run()
    assert sender.accepted == 1000
    receiver = Receiver(address, queue, 1000)
    Container(receiver).run()
    assert receiver.bodies == [f"message {number}" for number in range(1000)]
    assert channel.queue_declare(queue, passive=True).method.message_count == 0


class Sender(MessagingHandler):
    """Sends as the credit allows and waits for all to be settled."""

    def __init__(self, address: str, queue: str, total: int) -> None:
        super().__init__()
        self.address = address
        self.queue = queue
        self.total = total
        self.sent = 0
        self.accepted = 0

    def on_start(self, event: Event) -> None:
        connection = event.container.connect(self.address, allowed_mechs="PLAIN")
        event.container.create_sender(connection, f"/queues/{self.queue}")

    def on_sendable(self, event: Event) -> None:
        assert event.sender is not None
        while event.sender.credit and self.sent < self.total:
            event.sender.send(Message(body=f"message {self.sent}", durable=True))
            self.sent += 1

    def on_accepted(self, event: Event) -> None:
        self.accepted += 1
        if self.accepted == self.total:
            assert event.connection is not None
            event.connection.close()


class Receiver(MessagingHandler):
    """Takes and accepts so many messages."""

    def __init__(self, address: str, queue: str, total: int) -> None:
        super().__init__(prefetch=100)
        self.address = address
        self.queue = queue
        self.total = total
        self.bodies: list[str] = []

    def on_start(self, event: Event) -> None:
        connection = event.container.connect(self.address, allowed_mechs="PLAIN")
        event.container.create_receiver(connection, f"/queues/{self.queue}")

    def on_message(self, event: Event) -> None:
        self.bodies.append(event.message.body)
        if len(self.bodies) == self.total:
            # Settled before the close, or it would come again.
            assert event.delivery is not None
            assert event.connection is not None
            self.accept(event.delivery)
            event.connection.close()


def test_anonymous_logs_in_from_this_machine(address: str, queue: str) -> None:
    opened = BlockingConnection(
        address.replace("guest:guest@", ""), timeout=PATIENCE_SECONDS, allowed_mechs="ANONYMOUS"
    )
    opened.create_sender(f"/queues/{queue}").send(Message(body="hello"))
    opened.close()


def test_a_wrong_password_is_refused(address: str) -> None:
    wrong = address.replace("guest:guest@", "guest:wrong@")
    with pytest.raises(ConnectionException):
        BlockingConnection(wrong, timeout=PATIENCE_SECONDS, allowed_mechs="PLAIN")


def test_a_queue_that_is_not_there_refuses_the_link(connection: BlockingConnection) -> None:
    with pytest.raises(LinkDetached, match="amqp:not-found"):
        connection.create_receiver("/queues/there-is-no-such-queue")


def test_outcomes_of_the_receiver(
    connection: BlockingConnection, channel: BlockingChannel, unique: Callable[[str], str]
) -> None:
    dead, name = unique("dead"), unique("q")
    channel.queue_declare(dead)
    channel.queue_declare(
        name, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    )
    sender = connection.create_sender(f"/queues/{name}")
    sender.send(Message(body="x", first_acquirer=True))
    receiver = connection.create_receiver(f"/queues/{name}", credit=1)
    message = receive(receiver)
    assert (message.delivery_count, message.first_acquirer) == (0, True)
    receiver.release(delivered=False)
    message = receive(receiver)
    assert (message.delivery_count, message.first_acquirer) == (0, False)
    assert receiver.fetcher is not None
    receiver.fetcher.unsettled[0].local.failed = True
    receiver.release(delivered=True)
    message = receive(receiver)
    assert message.delivery_count == 1
    receiver.reject()
    rejected = connection.create_receiver(f"/queues/{dead}", credit=1)
    assert receive(rejected).body == "x"
    rejected.accept()


def test_a_message_that_reaches_no_queue_is_released(connection: BlockingConnection) -> None:
    sender = connection.create_sender("/exchanges/amq.direct/nobody")
    with pytest.raises(SendException) as refused:
        sender.send(Message(body="x"))
    assert refused.value.state == Delivery.RELEASED


def test_a_full_queue_rejects(
    connection: BlockingConnection, channel: BlockingChannel, unique: Callable[[str], str]
) -> None:
    name = unique("full")
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare(name, arguments=arguments)
    sender = connection.create_sender(f"/queues/{name}")
    sender.send(Message(body="1"))
    with pytest.raises(SendException) as refused:
        sender.send(Message(body="2"))
    assert refused.value.state == Disposition.REJECTED


def test_draining_ends_with_what_there_is(connection: BlockingConnection, queue: str) -> None:
    sender = connection.create_sender(f"/queues/{queue}")
    for number in range(3):
        sender.send(Message(body=number))
    receiver = connection.create_receiver(f"/queues/{queue}", credit=0)
    receiver.link.drain(10)
    connection.wait(lambda: receiver.link.drained() == 7, timeout=PATIENCE_SECONDS)
    assert [receive(receiver).body for _ in range(3)] == [0, 1, 2]
    sender.send(Message(body="late"))
    fetcher = receiver.fetcher
    assert fetcher is not None
    with pytest.raises(Timeout):
        connection.wait(lambda: fetcher.has_message > 0, timeout=QUIET_SECONDS)


def test_settled_and_browsing_links(connection: BlockingConnection, queue: str) -> None:
    sender = connection.create_sender(f"/queues/{queue}", options=AtMostOnce())
    sender.send(Message(body="x"))
    browser = connection.create_receiver(
        f"/queues/{queue}", credit=1, name="browser", options=Copy()
    )
    assert receive(browser).body == "x"
    browser.link.close()
    taker = connection.create_receiver(f"/queues/{queue}", credit=1, options=AtMostOnce())
    assert receive(taker).body == "x"
    taker.link.close()
    again = connection.create_receiver(f"/queues/{queue}", credit=1, options=AtLeastOnce())
    assert has_nothing(again)


def test_a_selector_chooses(connection: BlockingConnection, queue: str) -> None:
    sender = connection.create_sender(f"/queues/{queue}")
    for color in ("red", "blue"):
        sender.send(Message(body=color, properties={"color": color}))
    receiver = connection.create_receiver(
        f"/queues/{queue}", credit=2, options=Selector("color = 'blue'")
    )
    assert receive(receiver).body == "blue"
    assert has_nothing(receiver)


def test_a_request_is_answered_over_a_dynamic_node(
    connection: BlockingConnection, queue: str
) -> None:
    replies = connection.create_receiver(None, dynamic=True)
    reply_to = replies.remote_source.address
    connection.create_sender(f"/queues/{queue}").send(Message(body="?", reply_to=reply_to))
    requests = connection.create_receiver(f"/queues/{queue}", credit=1)
    request = receive(requests)
    requests.accept()
    connection.create_sender(None).send(Message(body="!", address=request.reply_to))
    assert receive(replies).body == "!"


def test_large_messages_cross_in_many_frames(connection: BlockingConnection, queue: str) -> None:
    large = b"x" * 3_000_000
    connection.create_sender(f"/queues/{queue}").send(Message(body=large))
    receiver = connection.create_receiver(f"/queues/{queue}", credit=1)
    assert receive(receiver).body == large
    receiver.accept()


def test_pika_reads_what_proton_sent(
    connection: BlockingConnection, queue: str, channel: BlockingChannel
) -> None:
    message = Message(
        body=b"octets",
        inferred=True,
        content_type=symbol("text/plain"),
        correlation_id="c",
        properties={"a": "b"},
        durable=True,
    )
    connection.create_sender(f"/queues/{queue}").send(message)
    method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert method is not None
    assert body == b"octets"
    assert properties.content_type == "text/plain"
    assert properties.correlation_id == "c"
    assert properties.headers["a"] == "b"
    assert properties.delivery_mode == 2


def test_proton_reads_what_pika_published(
    connection: BlockingConnection, queue: str, channel: BlockingChannel
) -> None:
    properties = pika.BasicProperties(
        content_type="text/plain", correlation_id="c", headers={"a": "b"}, delivery_mode=2
    )
    channel.basic_publish("", queue, b"octets", properties)
    receiver = connection.create_receiver(f"/queues/{queue}", credit=1)
    message = receive(receiver)
    receiver.accept()
    assert octets(message) == b"octets"
    assert message.content_type == "text/plain"
    assert message.correlation_id == "c"
    assert message.durable is True
    # The binding's own annotations say that there are none.
    headers: object = message.properties
    assert headers == {"a": "b"}


class ExpiresLate(ReceiverOption):
    """A source that outlives its connection."""

    def apply(self, link: Link) -> None:
        link.source.expiry_policy = Terminus.EXPIRE_WITH_CONNECTION
        link.source.timeout = 60


def test_a_receiver_that_lost_its_connection_gets_the_same_deliveries(
    broker: Broker, address: str, queue: str, channel: BlockingChannel, unique: Callable[[str], str]
) -> None:
    container = unique("container")
    channel.basic_publish("", queue, b"1")
    channel.basic_publish("", queue, b"2")
    first = _open(address, container)
    receiver = first.create_receiver(
        f"/queues/{queue}", credit=10, name="link", options=ExpiresLate()
    )
    assert octets(receive(receiver)) == b"1"
    assert octets(receive(receiver)) == b"2"
    # Cut without a word, while both are unsettled: nobody else may have them meanwhile.
    _cut(first)
    other = _open(address, unique("container"))
    assert has_nothing(other.create_receiver(f"/queues/{queue}", credit=10, name="other"))
    again = _open(address, container)
    receiver = again.create_receiver(
        f"/queues/{queue}", credit=10, name="link", options=ExpiresLate()
    )
    # Proton says nothing about what it has, so both come again, to this link alone.
    assert octets(receive(receiver)) == b"1"
    receiver.accept()
    assert octets(receive(receiver)) == b"2"
    receiver.accept()
    again.close()
    other.close()
    assert channel.queue_declare(queue, passive=True).method.message_count == 0


def _open(address: str, container: str) -> BlockingConnection:
    reactor = Container()
    reactor.container_id = container
    return BlockingConnection(
        address, timeout=PATIENCE_SECONDS, container=reactor, allowed_mechs="PLAIN"
    )


def _cut(connection: BlockingConnection) -> None:
    """End the socket as a failing network would."""
    assert connection.conn is not None
    assert connection.conn.transport is not None
    descriptor = connection.conn.transport._selectable.fileno()
    socket.socket(fileno=descriptor).close()
