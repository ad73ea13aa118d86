"""What RabbitMQ's AMQP 1.0 client does with a broker: one scenario per call.

    python scenarios.py SCENARIO URL NAME     ends with 0 when everything was as it should be

NAME is free for a queue or an exchange. The client is for RabbitMQ 4 and refuses servers that call
themselves otherwise, as ours does. `Unasked` leaves that question out; all else is as installed.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from rabbitmq_amqp_python_client import (
    AbcConsumerOptions,
    AddressHelper,
    AmqpMessageRejectedException,
    AMQPMessagingHandler,
    ClassicQueueSpecification,
    Connection,
    ConsumerOptions,
    ConsumerSettleStrategy,
    Converter,
    Environment,
    Event,
    ExchangeSpecification,
    ExchangeToExchangeBindingSpecification,
    ExchangeToQueueBindingSpecification,
    ExchangeType,
    Message,
    OffsetSpecification,
    OutcomeState,
    QueueType,
    QuorumQueueSpecification,
    StreamConsumerOptions,
    StreamFilterOptions,
    StreamSpecification,
    ValidationCodeException,
)
from rabbitmq_amqp_python_client.qpid.proton.utils import SendException


class Unasked(Connection):
    """Does not ask who the server is, and takes it to have what RabbitMQ 4 has."""

    def _validate_server_properties(self) -> None:
        pass

    def _is_server_version_gte(self, target_version: str) -> bool:
        return True


class Done(Exception):
    """Ends `Consumer.run`, as the client's own examples do."""


class Taking(AMQPMessagingHandler):
    """Takes so many messages and does with each what it is told, or accepts it."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.doings: list[Callable[[Event], None]] = []
        self.messages: list[Message] = []

    def on_amqp_message(self, event: Event) -> None:
        self.messages.append(event.message)
        doing = self.doings.pop(0) if self.doings else self.delivery_context.accept
        doing(event)
        if len(self.messages) == self.count:
            raise Done


def connected(url: str) -> Connection:
    connection = Unasked(uri=url)
    connection.dial()
    return connection


@contextlib.contextmanager
def refused(kind: type[Exception], text: str = "") -> Iterator[None]:
    try:
        yield
    except kind as error:
        if text not in str(error):
            raise
    else:
        raise AssertionError(f"no {kind.__name__}")


def take(
    url: str, address: str, handler: Taking, options: AbcConsumerOptions | None = None
) -> list[str]:
    """On a connection of its own."""
    connection = connected(url)
    consumer = connection.consumer(address, handler, options)
    with contextlib.suppress(Done):
        consumer.run()
    connection.close()
    return [Converter.bytes_to_string(message.body) for message in handler.messages]


def publish(connection: Connection, address: str, *texts: str, **properties: object) -> None:
    publisher = connection.publisher(address)
    for text in texts:
        message = Message(body=Converter.string_to_bytes(text), **properties)
        assert publisher.publish(message).remote_state == OutcomeState.ACCEPTED
    publisher.close()


def refuses_a_server_that_is_not_rabbitmq(url: str, name: str) -> None:
    with refused(ValidationCodeException, "Penstock"):
        Environment(uri=url).connection().dial()


def declares_binds_and_deletes(url: str, name: str) -> None:
    connection = connected(url)
    management = connection.management()
    other = f"{name}.other"
    management.declare_exchange(ExchangeSpecification(name=name, exchange_type=ExchangeType.topic))
    management.declare_exchange(
        ExchangeSpecification(name=other, exchange_type=ExchangeType.fanout)
    )
    management.declare_queue(ClassicQueueSpecification(name=name, max_len=10))
    info = management.queue_info(name)
    assert (info.name, info.queue_type, info.is_durable) == (name, QueueType.classic, True)
    assert info.arguments["x-max-length"] == 10
    between = management.bind(
        ExchangeToExchangeBindingSpecification(
            source_exchange=name, destination_exchange=other, binding_key="a.#"
        )
    )
    to_queue = management.bind(
        ExchangeToQueueBindingSpecification(
            source_exchange=other, destination_queue=name, binding_key=""
        )
    )
    publish(connection, AddressHelper.exchange_address(name, "a.b c/d"), "1", "2")
    assert management.queue_info(name).message_count == 2
    assert management.purge_queue(name) == 2
    management.unbind(to_queue)
    management.unbind(between)
    publisher = connection.publisher(AddressHelper.exchange_address(name, "a"))
    with refused(SendException):
        # Raised for what is released.
        publisher.publish(Message(body=b"x"))
    management.delete_queue(name)
    management.delete_exchange(other)
    management.delete_exchange(name)
    with refused(ValidationCodeException, "404"):
        management.queue_info(name)
    connection.close()


def another_declaration_of_a_queue_conflicts(url: str, name: str) -> None:
    connection = connected(url)
    management = connection.management()
    management.declare_queue(ClassicQueueSpecification(name=name))
    management.declare_queue(ClassicQueueSpecification(name=name))
    with refused(ValidationCodeException, "PreconditionFailed"):
        management.declare_queue(ClassicQueueSpecification(name=name, max_len=1))
    management.delete_queue(name)
    connection.close()


def publishes_to_addresses_of_its_messages(url: str, name: str) -> None:
    connection = connected(url)
    management = connection.management()
    management.declare_queue(ClassicQueueSpecification(name=name))
    publisher = connection.publisher()
    message = Message(body=b"x", address=AddressHelper.queue_address(name))
    assert publisher.publish(message).remote_state == OutcomeState.ACCEPTED
    assert management.queue_info(name).message_count == 1
    management.delete_queue(name)
    connection.close()


def hears_that_a_full_queue_rejects(url: str, name: str) -> None:
    connection = connected(url)
    management = connection.management()
    management.declare_queue(
        ClassicQueueSpecification(name=name, max_len=1, overflow_behaviour="reject-publish")
    )
    publish(connection, AddressHelper.queue_address(name), "1")
    with refused(AmqpMessageRejectedException):
        publish(connection, AddressHelper.queue_address(name), "2")
    management.delete_queue(name)
    connection.close()


def consumes_from_a_quorum_queue_with_every_outcome(url: str, name: str) -> None:
    connection = connected(url)
    management = connection.management()
    dead = f"{name}.dead"
    management.declare_queue(QuorumQueueSpecification(name=dead))
    management.declare_queue(
        QuorumQueueSpecification(
            name=name, dead_letter_exchange="", dead_letter_routing_key=dead, deliver_limit=5
        )
    )
    assert management.queue_info(name).queue_type == QueueType.quorum
    address = AddressHelper.queue_address(name)
    publish(connection, address, "1")
    handler = Taking(3)
    context = handler.delivery_context
    handler.doings = [
        context.requeue,
        lambda event: context.requeue_with_annotations(event, {"x-opt-why": "busy"}),
        context.discard,
    ]
    assert take(url, address, handler) == ["1", "1", "1"]
    assert handler.messages[2].annotations["x-opt-why"] == "busy"
    assert take(url, AddressHelper.queue_address(dead), Taking(1)) == ["1"]
    assert management.queue_info(name).message_count == 0
    management.delete_queue(name)
    management.delete_queue(dead)
    connection.close()


def consumes_settled(url: str, name: str) -> None:
    connection = connected(url)
    management = connection.management()
    management.declare_queue(ClassicQueueSpecification(name=name))
    address = AddressHelper.queue_address(name)
    texts = [str(number) for number in range(30)]
    publish(connection, address, *texts)
    options = ConsumerOptions(ConsumerSettleStrategy.PreSettled)
    handler = Taking(30)
    # Settled by the broker: there is nothing to accept.
    handler.doings = [lambda event: None] * 30
    assert take(url, address, handler, options) == texts
    assert management.queue_info(name).message_count == 0
    management.delete_queue(name)
    connection.close()


def reads_a_stream_from_an_offset(url: str, name: str) -> None:
    connection = connected(url)
    management = connection.management()
    management.declare_queue(StreamSpecification(name=name, max_len_bytes=10_000_000))
    assert management.queue_info(name).queue_type == QueueType.stream
    address = AddressHelper.queue_address(name)
    texts = [str(number) for number in range(50)]
    publish(connection, address, *texts)
    for offset, wanted in ((OffsetSpecification.first, texts), (40, texts[40:])):
        handler = Taking(len(wanted))
        assert take(url, address, handler, StreamConsumerOptions(offset)) == wanted
        offsets = [message.annotations["x-stream-offset"] for message in handler.messages]
        assert offsets == [int(text) for text in wanted]
    management.delete_queue(name)
    connection.close()


def filters_a_stream(url: str, name: str) -> None:
    connection = connected(url)
    management = connection.management()
    management.declare_queue(StreamSpecification(name=name))
    address = AddressHelper.queue_address(name)
    for color in ("red", "blue"):
        annotations = {"x-stream-filter-value": color}
        publish(
            connection,
            address,
            color,
            annotations=annotations,
            application_properties={"color": color},
        )
    first = OffsetSpecification.first
    for filters in (
        StreamFilterOptions(values=["blue"]),
        StreamFilterOptions(sql="color = 'blue'"),
    ):
        options = StreamConsumerOptions(first, filters)
        assert take(url, address, Taking(1), options) == ["blue"], filters
    management.delete_queue(name)
    connection.close()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
