"""Delivery tags count up per channel, whoever of its consumers gets the message."""

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.expectations import Deliveries, consume, eventually
from tests.behaviour.target import BrokerUnderTest


@pytest.fixture
def channel(broker: BrokerUnderTest) -> BlockingChannel:
    return broker.channel()


def settled_count(channel: BlockingChannel, groups: list[Deliveries]) -> int:
    channel.connection.process_data_events(0)
    return sum(len(group.messages) for group in groups)


@pytest.mark.parametrize("automatic", [False, True])
def test_tags_of_several_consumers_of_one_channel_count_up_together(
    broker: BrokerUnderTest, channel: BlockingChannel, automatic: bool
) -> None:
    """Beyond 256 and 512, so that more than the last octet of a tag changes between two turns of
    one consumer.
    """
    count = 700
    queue = broker.queue(channel)
    groups = [consume(channel, queue, auto_ack=automatic) for _ in range(3)]
    for number in range(count):
        channel.basic_publish("", queue, b"%d" % number)
    eventually(lambda: settled_count(channel, groups) == count)
    tags = sorted(message.tag for group in groups for message in group.messages)
    assert tags == list(range(1, count + 1))


def test_a_multiple_ack_settles_the_deliveries_of_all_consumers_up_to_its_tag(
    broker: BrokerUnderTest, channel: BlockingChannel
) -> None:
    queues = [broker.queue(channel) for _ in range(2)]
    groups = [consume(channel, queue, auto_ack=False) for queue in queues]
    for _ in range(300):
        for queue in queues:
            channel.basic_publish("", queue, b"")
    for group in groups:
        group.wait_for(300)
    channel.basic_ack(599, multiple=True)
    channel.basic_ack(600)
    channel.basic_recover(requeue=True)
    assert all(
        channel.queue_declare(queue, passive=True).method.message_count == 0 for queue in queues
    )
