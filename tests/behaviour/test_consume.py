"""Consumers: tags, exclusiveness, prefetch, turns, priorities, single active, cancelling."""

from __future__ import annotations

import pytest
from pika import spec
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.expectations import (
    Deliveries,
    channel_refused,
    connection_refused,
    consume,
    consumer_count,
    eventually,
    expect_channel_close,
)
from tests.behaviour.target import BrokerUnderTest


def fill(channel: BlockingChannel, queue: str, count: int) -> None:
    for number in range(count):
        channel.basic_publish("", queue, str(number).encode())


@pytest.fixture
def channel(broker: BrokerUnderTest) -> BlockingChannel:
    channel = broker.channel()
    channel.confirm_delivery()
    return channel


def test_the_server_makes_a_tag_up(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    declare = spec.Queue.Declare(queue=broker.name(), exclusive=True)
    connection.call(1, declare, spec.Queue.DeclareOk)
    answer = connection.call(1, spec.Basic.Consume(queue=""), spec.Basic.ConsumeOk)
    assert isinstance(answer, spec.Basic.ConsumeOk)
    assert answer.consumer_tag.startswith("amq.ctag-")


def test_a_tag_used_twice_on_a_channel_ends_the_connection(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    declare = spec.Queue.Declare(queue=broker.name(), exclusive=True)
    connection.call(1, declare, spec.Queue.DeclareOk)
    take = spec.Basic.Consume(queue="", consumer_tag="mine")
    connection.call(1, take, spec.Basic.ConsumeOk)
    connection.send_method(1, take)
    close = connection.expect(spec.Connection.Close, 0)
    assert isinstance(close, spec.Connection.Close)
    assert close.reply_code == 530
    assert close.reply_text == "NOT_ALLOWED - attempt to reuse consumer tag 'mine'"


def test_a_tag_belongs_to_its_channel(broker: BrokerUnderTest) -> None:
    connection = broker.connect()
    first, second = connection.channel(), connection.channel()
    queue = broker.queue(first)
    consume(first, queue, consumer_tag="same")
    consume(second, queue, consumer_tag="same")
    assert consumer_count(first, queue) == 2


def test_a_cancelled_tag_can_be_used_again(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    queue = broker.queue(channel)
    for _ in range(2):
        consume(channel, queue, consumer_tag="mine")
        channel.basic_cancel("mine")


def test_consuming_from_an_unknown_queue_is_not_found(broker: BrokerUnderTest) -> None:
    channel, queue = broker.channel(), broker.name("missing")
    with channel_refused(404, f"NOT_FOUND - no queue '{queue}' in vhost '{broker.vhost}'"):
        consume(channel, queue)


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True), (True, True)])
def test_an_exclusive_consumer_is_alone(broker: BrokerUnderTest, first: bool, second: bool) -> None:
    channel = broker.channel()
    queue = broker.queue(channel, exclusive=False)
    consume(channel, queue, exclusive=first)
    other = broker.channel()
    with channel_refused(
        403, f"ACCESS_REFUSED - queue '{queue}' in vhost '{broker.vhost}' in exclusive use"
    ):
        consume(other, queue, exclusive=second)


def test_exclusive_use_ends_with_the_consumer(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    queue = broker.queue(channel)
    consume(channel, queue, exclusive=True, consumer_tag="mine")
    channel.basic_cancel("mine")
    consume(channel, queue)
    assert consumer_count(channel, queue) == 1


def test_basic_get_is_not_kept_out_by_an_exclusive_consumer(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    queue = broker.queue(channel)
    consume(channel, queue, exclusive=True)
    assert channel.basic_get(queue)[0] is None


def test_a_priority_must_be_an_integer(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    queue = broker.queue(channel)
    with channel_refused(
        406,
        f"PRECONDITION_FAILED - invalid arg 'x-priority' for queue '{queue}' "
        f"in vhost '{broker.vhost}': \"expected integer, got longstr\"",
    ):
        consume(channel, queue, arguments={"x-priority": "high"})


def test_prefetch_counts_for_each_consumer(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel)
    fill(channel, queue, 10)
    channel.basic_qos(prefetch_count=3)
    first, second = consume(channel, queue), consume(channel, queue)
    first.settle()
    assert [len(first.messages), len(second.messages)] == [3, 3]
    channel.basic_ack(first.messages[0].tag)
    first.wait_for(4)


def test_prefetch_of_a_running_consumer_does_not_change(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel)
    fill(channel, queue, 10)
    channel.basic_qos(prefetch_count=2)
    first = consume(channel, queue)
    channel.basic_qos(prefetch_count=5)
    second = consume(channel, queue)
    second.settle()
    assert [len(first.messages), len(second.messages)] == [2, 5]


def test_global_prefetch_counts_for_the_channel(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    # RabbitMQ 4.3 takes global prefetch away.
    queue = broker.queue(channel)
    fill(channel, queue, 10)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    first, second = consume(channel, queue), consume(channel, queue)
    first.settle()
    assert len(first.messages) + len(second.messages) == 3


def test_global_prefetch_can_be_raised_while_consuming(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel)
    fill(channel, queue, 10)
    channel.basic_qos(prefetch_count=2, global_qos=True)
    deliveries = consume(channel, queue)
    assert len(deliveries.settle()) == 2
    channel.basic_qos(prefetch_count=5, global_qos=True)
    deliveries.wait_for(5)
    assert len(deliveries.settle()) == 5


def test_both_prefetches_hold(broker: BrokerUnderTest, channel: BlockingChannel) -> None:
    queue = broker.queue(channel)
    fill(channel, queue, 10)
    channel.basic_qos(prefetch_count=2)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    first, second = consume(channel, queue), consume(channel, queue)
    first.settle()
    assert len(first.messages) <= 2
    assert len(first.messages) + len(second.messages) == 3


def test_prefetch_does_not_hold_back_unacknowledged_modes(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel)
    fill(channel, queue, 10)
    channel.basic_qos(prefetch_count=1)
    consume(channel, queue, auto_ack=True).wait_for(10)


def test_a_prefetch_size_is_not_implemented(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    with connection_refused(540, "NOT_IMPLEMENTED - prefetch_size!=0 (1)"):
        channel.basic_qos(prefetch_size=1)


def test_consumers_take_turns(broker: BrokerUnderTest, channel: BlockingChannel) -> None:
    queue = broker.queue(channel)
    consumers = [consume(channel, queue, auto_ack=True) for _ in range(3)]
    for number in range(9):
        channel.basic_publish("", queue, str(number).encode())
        total = number + 1
        eventually(lambda total=total: delivered(channel, consumers) == total)  # type: ignore[misc]
    assert [len(one.messages) for one in consumers] == [3, 3, 3]


def delivered(channel: BlockingChannel, consumers: list[Deliveries]) -> int:
    channel.connection.process_data_events(time_limit=0.01)
    return sum(len(one.messages) for one in consumers)


def test_a_higher_priority_goes_first_until_it_is_full(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel)
    channel.basic_qos(prefetch_count=3)
    low = consume(channel, queue)
    high = consume(channel, queue, arguments={"x-priority": 10})
    fill(channel, queue, 5)
    high.settle()
    assert (high.bodies, low.bodies) == ([b"0", b"1", b"2"], [b"3", b"4"])


def test_without_priority_a_consumer_has_priority_zero(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel)
    channel.basic_qos(prefetch_count=2)
    lowest = consume(channel, queue, arguments={"x-priority": -1})
    plain = consume(channel, queue)
    fill(channel, queue, 3)
    plain.settle()
    assert (plain.bodies, lowest.bodies) == ([b"0", b"1"], [b"2"])


def test_a_single_active_consumer_takes_all_until_it_goes(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel, {"x-single-active-consumer": True})
    first = consume(channel, queue, auto_ack=True, consumer_tag="first")
    second = consume(channel, queue, auto_ack=True, consumer_tag="second")
    fill(channel, queue, 4)
    first.wait_for(4)
    assert second.settle() == []
    channel.basic_cancel("first")
    fill(channel, queue, 2)
    second.wait_for(2)


def test_what_the_active_consumer_leaves_unacknowledged_goes_to_the_next(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel, {"x-single-active-consumer": True}, exclusive=False)
    other = broker.channel()
    consume(other, queue)
    next_one = consume(channel, queue)
    fill(channel, queue, 3)
    assert next_one.settle() == []
    other.connection.close()
    messages = next_one.wait_for(3)
    assert [message.body for message in messages] == [b"0", b"1", b"2"]
    assert all(message.method.redelivered for message in messages)


def test_a_single_active_consumer_is_not_exclusive(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    queue = broker.queue(channel, {"x-single-active-consumer": True})
    with channel_refused(
        403, f"ACCESS_REFUSED - queue '{queue}' in vhost '{broker.vhost}' in exclusive use"
    ):
        consume(channel, queue, exclusive=True)


def test_cancelling_keeps_unacknowledged_messages_with_the_channel(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queue = broker.queue(channel)
    fill(channel, queue, 1)
    deliveries = consume(channel, queue, consumer_tag="mine")
    deliveries.wait_for(1)
    channel.basic_cancel("mine")
    assert channel.queue_declare(queue, exclusive=True).method.message_count == 0
    channel.basic_ack(deliveries.messages[0].tag)
    assert channel.queue_purge(queue).method.message_count == 0


def test_cancelling_an_unknown_tag_is_answered(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    answer = connection.call(1, spec.Basic.Cancel(consumer_tag="never"), spec.Basic.CancelOk)
    assert isinstance(answer, spec.Basic.CancelOk)
    assert answer.consumer_tag == "never"


def test_deleting_a_queue_tells_its_consumers(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    queue = broker.queue(broker.channel(), exclusive=False)
    consume_it = spec.Basic.Consume(queue=queue, consumer_tag="told")
    connection.call(1, consume_it, spec.Basic.ConsumeOk)
    broker.channel().queue_delete(queue)
    cancel = connection.expect(spec.Basic.Cancel, 1)
    assert isinstance(cancel, spec.Basic.Cancel)
    assert (cancel.consumer_tag, cancel.nowait) == ("told", True)


def test_a_client_without_the_capability_is_not_told(broker: BrokerUnderTest) -> None:
    connection = broker.raw().open(broker.user, broker.password, broker.vhost, client_properties={})
    connection.open_channel(1)
    queue = broker.queue(broker.channel(), exclusive=False)
    connection.call(1, spec.Basic.Consume(queue=queue), spec.Basic.ConsumeOk)
    broker.channel().queue_delete(queue)
    connection.call(1, spec.Basic.Qos(), spec.Basic.QosOk)


@pytest.mark.differs(
    "Penstock keeps the spec's promise of no-local",
    twin="test_no_local_keeps_a_connections_own_messages_from_it",
)
def test_no_local_is_ignored(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    queue = broker.name()
    declare = spec.Queue.Declare(queue=queue, exclusive=True)
    connection.call(1, declare, spec.Queue.DeclareOk)
    take = spec.Basic.Consume(queue=queue, no_local=True, no_ack=True)
    connection.call(1, take, spec.Basic.ConsumeOk)
    connection.publish(1, "", queue, b"own")
    assert connection.expect(spec.Basic.Deliver, 1)


@pytest.mark.penstock_only("RabbitMQ ignores no-local")
def test_no_local_keeps_a_connections_own_messages_from_it(broker: BrokerUnderTest) -> None:
    connection, queue = broker.raw_open(), broker.name()
    declare = spec.Queue.Declare(queue=queue, exclusive=True)
    connection.call(1, declare, spec.Queue.DeclareOk)
    take = spec.Basic.Consume(queue=queue, no_local=True, no_ack=True)
    connection.call(1, take, spec.Basic.ConsumeOk)
    connection.publish(1, "", queue, b"own")
    connection.call(1, spec.Basic.Qos(), spec.Basic.QosOk)
    broker.channel().basic_publish("", queue, b"foreign")
    connection.expect(spec.Basic.Deliver, 1)
    connection.read_frame()
    assert connection.read_frame().fragment == b"foreign"


def test_consuming_without_answer_delivers(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    queue = broker.name()
    declare = spec.Queue.Declare(queue=queue, exclusive=True)
    connection.call(1, declare, spec.Queue.DeclareOk)
    connection.send_method(1, spec.Basic.Consume(queue=queue, consumer_tag="mine", nowait=True))
    connection.publish(1, "", queue, b"")
    delivery = connection.expect(spec.Basic.Deliver, 1)
    assert isinstance(delivery, spec.Basic.Deliver)
    assert delivery.consumer_tag == "mine"


def test_a_stream_offset_is_no_argument_of_a_classic_queue(broker: BrokerUnderTest) -> None:
    connection, queue = broker.raw_open(), broker.name()
    declare = spec.Queue.Declare(queue=queue, exclusive=True)
    connection.call(1, declare, spec.Queue.DeclareOk)
    arguments = {"x-stream-offset": "first"}
    connection.send_method(1, spec.Basic.Consume(queue=queue, arguments=arguments))
    expect_channel_close(
        connection,
        406,
        f"PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue '{queue}' "
        f"in vhost '{broker.vhost}' of queue type rabbit_classic_queue",
    )
