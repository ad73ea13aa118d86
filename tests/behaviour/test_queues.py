"""Declaring, binding, purging and deleting queues; exclusive, auto-delete and expiring ones."""

from __future__ import annotations

import time

import pytest
from pika import spec
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import UnroutableError

from tests.behaviour.expectations import (
    channel_refused,
    consume,
    consumer_count,
    eventually,
    expect_channel_close,
    fetch,
    message_count,
)
from tests.behaviour.target import BrokerUnderTest

LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{}' in vhost '{}'. "
    "It could be originally declared on another connection or the exclusive property value "
    "does not match that of the original declaration."
)
NONE_DECLARED = "NOT_FOUND - no previously declared queue"


def exists(broker: BrokerUnderTest, queue: str) -> bool:
    connection = broker.raw_open()
    connection.send_method(1, spec.Queue.Declare(queue=queue, passive=True))
    answer = connection.read_frame().method
    # Another connection's exclusive queue is there too.
    return isinstance(answer, spec.Queue.DeclareOk) or answer.reply_code == 405


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"durable": False}, "'durable' for {}: received 'false' but current is 'true'"),
        ({"auto_delete": True}, "'auto_delete' for {}: received 'true' but current is 'false'"),
        (
            {"durable": False, "arguments": {"x-message-ttl": 5}},
            "'durable' for {}: received 'false' but current is 'true'",
        ),
    ],
    ids=["durable", "auto-delete", "properties before arguments"],
)
def test_declaring_differently_is_a_precondition_failed(
    broker: BrokerUnderTest, changed: dict[str, object], text: str
) -> None:
    channel = broker.channel()
    queue = broker.queue(channel, exclusive=False, durable=True)
    where = f"queue '{queue}' in vhost '{broker.vhost}'"
    with channel_refused(406, f"PRECONDITION_FAILED - inequivalent arg {text.format(where)}"):
        channel.queue_declare(queue, **{"durable": True, **changed})


def test_a_refused_declare_without_answer_still_closes_the_channel(
    broker: BrokerUnderTest,
) -> None:
    connection = broker.raw_open()
    queue = broker.queue(broker.channel(), exclusive=False, durable=True)
    connection.send_method(1, spec.Queue.Declare(queue=queue, nowait=True))
    expect_channel_close(connection, 406, "PRECONDITION_FAILED - inequivalent arg 'durable'")


def test_a_passive_declare_asks_only_for_the_name(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    queue = broker.queue(channel, {"x-message-ttl": 5}, exclusive=False, durable=True)
    assert channel.queue_declare(queue, passive=True).method.queue == queue


@pytest.mark.parametrize("queue", ["no-such-queue", "amq.no-such-queue", ""])
def test_a_passive_declare_of_an_unknown_queue_is_not_found(
    broker: BrokerUnderTest, queue: str
) -> None:
    channel = broker.channel()
    with channel_refused(404, f"NOT_FOUND - no queue '{queue}' in vhost '{broker.vhost}'"):
        channel.queue_declare(queue, passive=True)


def test_names_with_amq_are_reserved(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    with channel_refused(
        403, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"
    ):
        channel.queue_declare("amq.mine")


def test_the_server_makes_a_name_up(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    names = {channel.queue_declare("", exclusive=True).method.queue for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("amq.gen-") for name in names)


def test_a_server_made_name_cannot_be_declared_again_even_by_its_owner(
    broker: BrokerUnderTest,
) -> None:
    channel = broker.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    assert channel.queue_declare(queue, passive=True).method.queue == queue
    with channel_refused(403, f"ACCESS_REFUSED - queue name '{queue}' contains reserved prefix"):
        channel.queue_declare(queue, exclusive=True)


def test_a_name_may_have_255_octets(broker: BrokerUnderTest) -> None:
    queue = broker.name().ljust(255, "n")
    assert broker.channel().queue_declare(queue, exclusive=True).method.queue == queue


def test_the_empty_name_means_the_queue_the_channel_declared_last(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    broker.queue(channel)
    last = broker.queue(channel)
    channel.queue_bind("", "amq.fanout", "")
    channel.queue_unbind("", "amq.fanout", "")
    channel.confirm_delivery()
    channel.basic_publish("", last, b"one")
    assert channel.basic_get("")[2] == b"one"
    assert channel.queue_purge("").method.message_count == 0
    assert consume(channel, "", auto_ack=True).settle() == []
    assert consumer_count(channel, last) == 1
    channel.queue_delete("")
    assert not exists(broker, last)


@pytest.mark.parametrize(
    "method",
    [
        spec.Queue.Bind(queue="", exchange="amq.direct", routing_key="k"),
        spec.Queue.Unbind(queue="", exchange="amq.direct", routing_key="k"),
        spec.Queue.Purge(queue=""),
        spec.Queue.Delete(queue=""),
        spec.Basic.Get(queue=""),
        spec.Basic.Consume(queue=""),
    ],
    ids=["bind", "unbind", "purge", "delete", "get", "consume"],
)
def test_the_empty_name_means_nothing_on_a_fresh_channel(
    broker: BrokerUnderTest, method: object
) -> None:
    connection = broker.raw_open()
    connection.send_method(1, method)
    expect_channel_close(connection, 404, NONE_DECLARED)


@pytest.mark.parametrize(
    "method",
    [
        spec.Queue.Declare(exclusive=True),
        spec.Queue.Declare(),
        spec.Queue.Declare(passive=True),
        spec.Queue.Bind(exchange="amq.direct", routing_key="k"),
        spec.Queue.Purge(),
        spec.Queue.Delete(),
        spec.Basic.Get(),
        spec.Basic.Consume(),
    ],
    ids=["exclusive", "declare", "passive", "bind", "purge", "delete", "get", "consume"],
)
def test_an_exclusive_queue_is_locked_for_other_connections(
    broker: BrokerUnderTest, method: object
) -> None:
    queue = broker.queue(broker.channel())
    stranger = broker.raw_open()
    method.queue = queue  # type: ignore[attr-defined]  # every method above has one
    stranger.send_method(1, method)
    expect_channel_close(stranger, 405, LOCKED.format(queue, broker.vhost))


def test_an_exclusive_queue_is_open_to_other_channels_of_its_connection(
    broker: BrokerUnderTest,
) -> None:
    connection = broker.connect()
    queue = broker.queue(connection.channel())
    assert connection.channel().queue_declare(queue, exclusive=True).method.queue == queue


def test_exclusiveness_cannot_be_changed(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    exclusive, shared = broker.queue(channel), broker.queue(channel, exclusive=False)
    with channel_refused(405, LOCKED.format(exclusive, broker.vhost)):
        channel.queue_declare(exclusive)
    channel = broker.channel()
    with channel_refused(405, LOCKED.format(shared, broker.vhost)):
        channel.queue_declare(shared, exclusive=True)


def test_anybody_may_publish_to_an_exclusive_queue(broker: BrokerUnderTest) -> None:
    owner = broker.channel()
    queue = broker.queue(owner)
    broker.channel().basic_publish("", queue, b"from outside")
    assert fetch(owner, queue).body == b"from outside"


@pytest.mark.parametrize("durable", [False, True])
def test_an_exclusive_queue_goes_with_its_connection(
    broker: BrokerUnderTest, durable: bool
) -> None:
    channel = broker.channel()
    queue = broker.queue(channel, durable=durable)
    channel.close()
    assert exists(broker, queue)
    channel.connection.close()
    eventually(lambda: not exists(broker, queue))


def test_declare_ok_counts_ready_messages_and_consumers(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    queue = broker.queue(channel)
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", queue, b"")
    channel.basic_get(queue)
    answer = channel.queue_declare(queue, exclusive=True).method
    assert (answer.message_count, answer.consumer_count) == (2, 0)
    consume(channel, queue)
    answer = channel.queue_declare(queue, exclusive=True).method
    assert (answer.message_count, answer.consumer_count) == (0, 1)


def test_a_purge_drops_ready_messages_only_and_counts_them(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    queue = broker.queue(channel)
    channel.confirm_delivery()
    for body in (b"held", b"two", b"three"):
        channel.basic_publish("", queue, body)
    held = fetch(channel, queue, auto_ack=False)
    assert channel.queue_purge(queue).method.message_count == 2
    channel.basic_nack(held.tag, requeue=True)
    assert fetch(channel, queue).body == b"held"


@pytest.mark.parametrize("method", ["queue_purge", "basic_get"])
def test_an_unknown_queue_is_not_found(broker: BrokerUnderTest, method: str) -> None:
    channel, queue = broker.channel(), broker.name("missing")
    with channel_refused(404, f"NOT_FOUND - no queue '{queue}' in vhost '{broker.vhost}'"):
        getattr(channel, method)(queue)


def test_deleting_an_unknown_queue_is_fine(broker: BrokerUnderTest) -> None:
    assert broker.channel().queue_delete(broker.name()).method.message_count == 0


def test_a_delete_counts_the_messages_it_dropped(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    queue = broker.queue(channel)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"")
    channel.basic_publish("", queue, b"")
    assert channel.queue_delete(queue).method.message_count == 2


def test_if_unused_protects_a_queue_with_consumers(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    queue = broker.queue(channel, exclusive=False)
    consume(channel, queue)
    other = broker.channel()
    with channel_refused(
        406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '{broker.vhost}' in use"
    ):
        other.queue_delete(queue, if_unused=True)
    assert exists(broker, queue)


def test_if_empty_protects_a_queue_with_messages(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    queue = broker.queue(channel)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"")
    with channel_refused(
        406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '{broker.vhost}' not empty"
    ):
        channel.queue_delete(queue, if_empty=True)


def test_if_unused_and_if_empty_let_an_idle_queue_go(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    queue = broker.queue(channel)
    channel.queue_delete(queue, if_unused=True, if_empty=True)
    assert not exists(broker, queue)


def test_an_auto_delete_queue_goes_with_its_last_consumer(broker: BrokerUnderTest) -> None:
    channel, queue = broker.channel(), broker.name()
    channel.queue_declare(queue, auto_delete=True)
    assert exists(broker, queue)  # not before it was used
    channel.basic_consume(queue, lambda *_: None, consumer_tag="first")
    channel.basic_consume(queue, lambda *_: None, consumer_tag="second")
    channel.basic_cancel("first")
    assert exists(broker, queue)
    channel.basic_cancel("second")
    eventually(lambda: not exists(broker, queue))


def test_an_auto_delete_queue_goes_with_its_consumers_connection(broker: BrokerUnderTest) -> None:
    channel, queue = broker.channel(), broker.name()
    channel.queue_declare(queue, auto_delete=True)
    consume(channel, queue)
    channel.connection.close()
    eventually(lambda: not exists(broker, queue))


def is_routable(channel: BlockingChannel, queue: str) -> bool:
    """Whether the queue is there, asked by a publish, which does not count as use of a queue."""
    try:
        channel.basic_publish("", queue, b"", mandatory=True)
    except UnroutableError:
        return False
    return True


def test_an_unused_queue_expires_with_its_messages(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    channel.confirm_delivery()
    queue = broker.queue(channel, {"x-expires": 250}, exclusive=False)
    assert is_routable(channel, queue)
    eventually(lambda: not is_routable(channel, queue))


@pytest.mark.parametrize("use", ["declare", "get"])
def test_declaring_or_getting_puts_the_expiry_off(broker: BrokerUnderTest, use: str) -> None:
    channel = broker.channel()
    queue = broker.queue(channel, {"x-expires": 500}, exclusive=False)
    until = time.monotonic() + 0.8
    while time.monotonic() < until:
        if use == "declare":
            channel.queue_declare(queue, passive=True)
        else:
            channel.basic_get(queue)
        time.sleep(0.02)
    channel.queue_declare(queue, passive=True)


def test_a_queue_with_a_consumer_does_not_expire(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    queue = broker.queue(channel, {"x-expires": 200}, exclusive=False)
    consume(channel, queue, auto_ack=True)
    channel.connection.sleep(0.3)
    assert message_count(channel, queue) == 0


def test_an_exclusive_queue_is_never_durable(broker: BrokerUnderTest) -> None:
    """Whichever way it was declared, declaring it again with the other flag means the same."""
    channel = broker.channel()
    name = broker.name()
    channel.queue_declare(name, durable=True, exclusive=True)
    channel.queue_declare(name, durable=False, exclusive=True)
