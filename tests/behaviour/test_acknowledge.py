"""basic.get and settling what was delivered: ack, reject, nack, recover, order and redelivery."""

from __future__ import annotations

import pytest
from pika import spec
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.expectations import (
    channel_refused,
    connection_refused,
    consume,
    eventually,
    expect_channel_close,
    fetch,
    fetch_bodies,
    is_empty,
    message_count,
)
from tests.behaviour.target import BrokerUnderTest


@pytest.fixture
def channel(broker: BrokerUnderTest) -> BlockingChannel:
    channel = broker.channel()
    channel.confirm_delivery()
    return channel


@pytest.fixture
def queue(broker: BrokerUnderTest, channel: BlockingChannel) -> str:
    """A queue with the messages 0 to 4."""
    name = broker.queue(channel)
    for number in range(5):
        channel.basic_publish("", name, str(number).encode())
    return name


def test_get_says_how_many_messages_stay(channel: BlockingChannel, queue: str) -> None:
    for left in (4, 3, 2, 1, 0):
        method, _, _ = channel.basic_get(queue)
        assert method.message_count == left
    assert channel.basic_get(queue) == (None, None, None)


def test_delivery_tags_count_on_the_channel(channel: BlockingChannel, queue: str) -> None:
    assert [fetch(channel, queue, auto_ack=False).tag for _ in range(3)] == [1, 2, 3]
    other = channel.connection.channel()
    assert fetch(other, queue, auto_ack=False).tag == 1


@pytest.mark.parametrize("tag", [7, 1])
def test_an_unknown_tag_closes_the_channel(broker: BrokerUnderTest, tag: int) -> None:
    for ids, method in (
        ((60, 80), spec.Basic.Ack(tag)),
        ((60, 90), spec.Basic.Reject(tag)),
        ((60, 120), spec.Basic.Nack(tag)),
        ((60, 80), spec.Basic.Ack(tag, multiple=True)),
    ):
        connection = broker.raw_open()
        connection.send_method(1, method)
        close = expect_channel_close(
            connection, 406, f"PRECONDITION_FAILED - unknown delivery tag {tag}"
        )
        assert (close.class_id, close.method_id) == ids


def test_tag_0_needs_multiple(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.send_method(1, spec.Basic.Ack(0, multiple=True))
    connection.send_method(1, spec.Basic.Nack(0, multiple=True))
    connection.call(1, spec.Basic.Qos(), spec.Basic.QosOk)
    connection.send_method(1, spec.Basic.Ack(0))
    expect_channel_close(connection, 406, "PRECONDITION_FAILED - unknown delivery tag 0")


def test_acknowledging_twice_closes_the_channel(channel: BlockingChannel, queue: str) -> None:
    tag = fetch(channel, queue, auto_ack=False).tag
    channel.basic_ack(tag)
    channel.basic_ack(tag)
    with channel_refused(406, f"PRECONDITION_FAILED - unknown delivery tag {tag}"):
        channel.basic_qos()


def test_what_was_got_without_ack_has_nothing_to_acknowledge(
    channel: BlockingChannel, queue: str
) -> None:
    channel.basic_ack(fetch(channel, queue, auto_ack=True).tag)
    with channel_refused(406, "PRECONDITION_FAILED - unknown delivery tag 1"):
        channel.basic_qos()


def test_a_tag_of_another_channel_is_unknown(channel: BlockingChannel, queue: str) -> None:
    other = channel.connection.channel()
    other.basic_ack(fetch(channel, queue, auto_ack=False).tag)
    with channel_refused(406, "PRECONDITION_FAILED - unknown delivery tag 1"):
        other.basic_qos()


def unsettled(channel: BlockingChannel, queue: str) -> list[bytes]:
    """What is still in the queue once this channel gives everything back."""
    connection = channel.connection
    channel.close()
    other = connection.channel()
    bodies = []
    while (got := other.basic_get(queue, auto_ack=True))[0] is not None:
        bodies.append(got[2])
    return bodies


def test_multiple_acknowledges_up_to_the_tag(channel: BlockingChannel, queue: str) -> None:
    tags = [fetch(channel, queue, auto_ack=False).tag for _ in range(4)]
    channel.basic_ack(tags[2], multiple=True)
    assert unsettled(channel, queue) == [b"3", b"4"]


def test_multiple_with_0_acknowledges_everything(channel: BlockingChannel, queue: str) -> None:
    for _ in range(4):
        fetch(channel, queue, auto_ack=False)
    channel.basic_ack(0, multiple=True)
    assert unsettled(channel, queue) == [b"4"]


def test_multiple_passes_over_what_was_settled_before(channel: BlockingChannel, queue: str) -> None:
    tags = [fetch(channel, queue, auto_ack=False).tag for _ in range(4)]
    channel.basic_ack(tags[1])
    channel.basic_ack(tags[2], multiple=True)
    channel.basic_ack(tags[3])
    assert unsettled(channel, queue) == [b"4"]


def test_reject_without_requeue_drops(channel: BlockingChannel, queue: str) -> None:
    channel.basic_reject(fetch(channel, queue, auto_ack=False).tag, requeue=False)
    assert fetch_bodies(channel, queue, 4) == [b"1", b"2", b"3", b"4"]


def test_reject_with_requeue_puts_back_at_the_old_place(
    channel: BlockingChannel, queue: str
) -> None:
    channel.basic_reject(fetch(channel, queue, auto_ack=False).tag, requeue=True)
    messages = [fetch(channel, queue) for _ in range(5)]
    assert [message.body for message in messages] == [b"0", b"1", b"2", b"3", b"4"]
    redelivered = [message.method.redelivered for message in messages]
    assert redelivered == [True, False, False, False, False]


def test_requeueing_in_any_order_keeps_the_queues_order(
    channel: BlockingChannel, queue: str
) -> None:
    tags = [fetch(channel, queue, auto_ack=False).tag for _ in range(4)]
    for tag in (tags[2], tags[0], tags[3], tags[1]):
        channel.basic_nack(tag, requeue=True)
    assert fetch_bodies(channel, queue, 5) == [b"0", b"1", b"2", b"3", b"4"]


def test_nack_multiple_with_requeue(channel: BlockingChannel, queue: str) -> None:
    tags = [fetch(channel, queue, auto_ack=False).tag for _ in range(3)]
    channel.basic_nack(tags[1], multiple=True, requeue=True)
    assert fetch_bodies(channel, queue, 4) == [b"0", b"1", b"3", b"4"]
    channel.basic_ack(tags[2])
    assert is_empty(channel, queue)


def test_nack_multiple_without_requeue(channel: BlockingChannel, queue: str) -> None:
    for _ in range(3):
        fetch(channel, queue, auto_ack=False)
    channel.basic_nack(0, multiple=True, requeue=False)
    assert unsettled(channel, queue) == [b"3", b"4"]


def test_recover_requeues_everything_of_the_channel(channel: BlockingChannel, queue: str) -> None:
    for _ in range(3):
        fetch(channel, queue, auto_ack=False)
    channel.basic_recover(requeue=True)
    messages = [fetch(channel, queue) for _ in range(5)]
    assert [message.body for message in messages] == [b"0", b"1", b"2", b"3", b"4"]
    assert [message.method.redelivered for message in messages] == [True] * 3 + [False] * 2


def test_recover_without_requeue_is_not_implemented(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    with connection_refused(540, "NOT_IMPLEMENTED - requeue=false"):
        channel.basic_recover(requeue=False)


def test_recover_async_has_no_answer(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.send_method(1, spec.Basic.RecoverAsync(requeue=True))
    connection.call(1, spec.Basic.Qos(), spec.Basic.QosOk)


def test_a_lost_connection_requeues_in_order_as_redelivered(broker: BrokerUnderTest) -> None:
    keeper = broker.channel()
    keeper.confirm_delivery()
    queue = broker.queue(keeper, exclusive=False)
    for number in range(4):
        keeper.basic_publish("", queue, str(number).encode())
    reader = broker.raw_open()
    reader.call(1, spec.Basic.Consume(queue=queue), spec.Basic.ConsumeOk)
    reader.expect(spec.Basic.Deliver, 1)
    eventually(lambda: is_empty(keeper, queue))
    reader.socket.close()
    eventually(lambda: message_count(keeper, queue) == 4)
    messages = [fetch(keeper, queue) for _ in range(4)]
    assert [message.body for message in messages] == [b"0", b"1", b"2", b"3"]
    # RabbitMQ marks what it had sent or queued for the connection, read there or not.
    assert all(message.method.redelivered for message in messages)


def test_a_rejected_message_comes_back_to_the_only_consumer(
    channel: BlockingChannel, queue: str
) -> None:
    channel.basic_qos(prefetch_count=1)
    deliveries = consume(channel, queue)
    first = deliveries.wait_for(1)[0]
    channel.basic_reject(first.tag, requeue=True)
    again = deliveries.wait_for(2)[1]
    assert (again.body, again.method.redelivered, again.tag) == (b"0", True, 2)


def test_without_ack_a_delivery_is_settled_when_sent(channel: BlockingChannel, queue: str) -> None:
    consume(channel, queue, auto_ack=True).wait_for(5)
    assert unsettled(channel, queue) == []
