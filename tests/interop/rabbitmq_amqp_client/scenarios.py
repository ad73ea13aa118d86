"""What RabbitMQ's AMQP 1.0 client does with a broker: one scenario per call.

    python scenarios.py SCENARIO URL NAME     ends with 0 when everything was as it should be

NAME is free for a queue or an exchange. The client is for RabbitMQ 4 and refuses servers that call
themselves otherwise, as ours does; but for that question, which `Unasked` leaves out, it is as installed.
"""

import sys

from rabbitmq_amqp_python_client import (
    AddressHelper,
    AMQPMessagingHandler,
    AmqpMessageRejectedException,
    ClassicQueueSpecification,
    Connection,
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

    def _validate_server_properties(self):
        pass

    def _is_server_version_gte(self, target_version):
        return True


class Taking(AMQPMessagingHandler):
    """Takes so many messages, does with each what it is told, and closes."""

    def __init__(self, count, *doings):
        super().__init__()
        self.count = count
        self.doings = list(doings)
        self.messages = []

    def on_amqp_message(self, event: Event):
        self.messages.append(event.message)
        doing = self.doings.pop(0) if self.doings else self.delivery_context.accept
        doing(event)
        if len(self.messages) == self.count:
            event.connection.close()


def connected(url):
    connection = Unasked(uri=url)
    connection.dial()
    return connection


def take(url, address, handler, **options):
    """On a connection of its own, which the handler closes."""
    connection = connected(url)
    connection.consumer(address, message_handler=handler, **options).run()
    return [Converter.bytes_to_string(message.body) for message in handler.messages]


def publish(connection, address, *texts, **properties):
    publisher = connection.publisher(address)
    for text in texts:
        message = Message(body=Converter.string_to_bytes(text), **properties)
        assert publisher.publish(message).remote_state == OutcomeState.ACCEPTED
    publisher.close()


def refuses_a_server_that_is_not_rabbitmq(url, name):
    try:
        Environment(uri=url).connection().dial()
    except ValidationCodeException as refusal:
        assert "Penstock" in str(refusal), refusal
    else:
        raise AssertionError("not refused")


def declares_binds_and_deletes(url, name):
    connection = connected(url)
    management = connection.management()
    other = f"{name}.other"
    management.declare_exchange(ExchangeSpecification(name=name, exchange_type=ExchangeType.topic))
    management.declare_exchange(ExchangeSpecification(name=other, exchange_type=ExchangeType.fanout))
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
    try:
        publisher.publish(Message(body=b"x"))
    except SendException as refused:
        assert refused.state == OutcomeState.RELEASED
    else:
        raise AssertionError("not released")
    management.delete_queue(name)
    management.delete_exchange(other)
    management.delete_exchange(name)
    try:
        management.queue_info(name)
    except ValidationCodeException as missing:
        assert "404" in str(missing)
    else:
        raise AssertionError("still there")
    connection.close()


def another_declaration_of_a_queue_conflicts(url, name):
    connection = connected(url)
    management = connection.management()
    management.declare_queue(ClassicQueueSpecification(name=name))
    management.declare_queue(ClassicQueueSpecification(name=name))
    try:
        management.declare_queue(ClassicQueueSpecification(name=name, max_len=1))
    except ValidationCodeException as conflict:
        assert "PreconditionFailed" in str(conflict)
    else:
        raise AssertionError("no conflict")
    management.delete_queue(name)
    connection.close()


def publishes_to_addresses_of_its_messages(url, name):
    connection = connected(url)
    management = connection.management()
    management.declare_queue(ClassicQueueSpecification(name=name))
    publisher = connection.publisher()
    message = Message(body=b"x", address=AddressHelper.queue_address(name))
    assert publisher.publish(message).remote_state == OutcomeState.ACCEPTED
    assert management.queue_info(name).message_count == 1
    management.delete_queue(name)
    connection.close()


def hears_that_a_full_queue_rejects(url, name):
    connection = connected(url)
    management = connection.management()
    management.declare_queue(
        ClassicQueueSpecification(name=name, max_len=1, overflow_behaviour="reject-publish")
    )
    publish(connection, AddressHelper.queue_address(name), "1")
    try:
        publish(connection, AddressHelper.queue_address(name), "2")
    except AmqpMessageRejectedException as rejected:
        assert str(rejected)
    else:
        raise AssertionError("not rejected")
    management.delete_queue(name)
    connection.close()


def consumes_from_a_quorum_queue_with_every_outcome(url, name):
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
    handler = Taking(4)
    context = handler.delivery_context
    handler.doings = [
        context.requeue,
        lambda event: context.requeue_with_annotations(event, {"x-opt-why": "busy"}),
        context.discard,
    ]
    # It takes four: the last is another message.
    publish(connection, address, "2")
    got = take(url, address, handler, credit=1)
    assert got == ["1", "1", "1", "2"], got
    assert handler.messages[2].annotations["x-opt-why"] == "busy"
    assert take(url, AddressHelper.queue_address(dead), Taking(1)) == ["1"]
    assert management.queue_info(name).message_count == 0
    management.delete_queue(name)
    management.delete_queue(dead)
    connection.close()


def consumes_settled(url, name):
    connection = connected(url)
    management = connection.management()
    management.declare_queue(ClassicQueueSpecification(name=name))
    address = AddressHelper.queue_address(name)
    publish(connection, address, *map(str, range(30)))
    consumer = connection.consumer(address, credit=30)
    got = [bytes(consumer._receiver.receive(timeout=10).body) for _ in range(30)]
    assert got == [b"%d" % number for number in range(30)]
    management.delete_queue(name)
    connection.close()


def reads_a_stream_from_an_offset(url, name):
    connection = connected(url)
    management = connection.management()
    management.declare_queue(StreamSpecification(name=name, max_len_bytes=10_000_000))
    assert management.queue_info(name).queue_type == QueueType.stream
    address = AddressHelper.queue_address(name)
    texts = [str(number) for number in range(50)]
    publish(connection, address, *texts)
    for offset, wanted in ((OffsetSpecification.first, texts), (40, texts[40:])):
        handler = Taking(len(wanted))
        assert take(url, address, handler, consumer_options=StreamConsumerOptions(offset)) == wanted
        offsets = [message.annotations["x-stream-offset"] for message in handler.messages]
        assert offsets == [int(text) for text in wanted]
    management.delete_queue(name)
    connection.close()


def filters_a_stream(url, name):
    connection = connected(url)
    management = connection.management()
    management.declare_queue(StreamSpecification(name=name))
    address = AddressHelper.queue_address(name)
    for color in ("red", "blue"):
        annotations = {"x-stream-filter-value": color}
        publish(connection, address, color, annotations=annotations, application_properties={"color": color})
    first = OffsetSpecification.first
    for filters in (
        StreamFilterOptions(values=["blue"]),
        StreamFilterOptions(sql="color = 'blue'"),
        StreamFilterOptions(application_properties={"color": "blue"}),
    ):
        options = StreamConsumerOptions(first, filters)
        assert take(url, address, Taking(1), consumer_options=options) == ["blue"], filters
    management.delete_queue(name)
    connection.close()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
