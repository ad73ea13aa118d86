"""Direct reply-to: answers without a reply queue."""

from __future__ import annotations

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import UnroutableError

from tests.behaviour.expectations import Deliveries, channel_refused, consume, fetch
from tests.behaviour.target import BrokerUnderTest

REPLY_TO = "amq.rabbitmq.reply-to"


def ask(broker: BrokerUnderTest, channel: BlockingChannel) -> tuple[Deliveries, str]:
    """Send a request; return where the answer comes and the address the server made."""
    queue = broker.queue(channel)
    answers = consume(channel, REPLY_TO, auto_ack=True)
    channel.basic_publish("", queue, b"question", BasicProperties(reply_to=REPLY_TO))
    address = fetch(channel, queue).properties.reply_to
    return answers, address


def test_an_answer_finds_its_way_to_the_asking_channel(broker: BrokerUnderTest) -> None:
    answers, address = ask(broker, broker.channel())
    assert address.startswith(REPLY_TO + ".")
    properties = BasicProperties(correlation_id="7")
    broker.channel().basic_publish("", address, b"answer", properties)
    message = answers.wait_for(1)[0]
    assert (message.body, message.properties.correlation_id) == (b"answer", "7")
    assert (message.method.exchange, message.method.routing_key) == ("", address)


@pytest.mark.rabbitmq_310("until 4.2 a reply address counts as no queue, though it delivers")
def test_a_mandatory_answer_is_returned_though_it_arrives(broker: BrokerUnderTest) -> None:
    answers, address = ask(broker, broker.channel())
    server = broker.channel()
    server.confirm_delivery()
    with pytest.raises(UnroutableError):
        server.basic_publish("", address, b"answer", mandatory=True)
    assert answers.wait_for(1)[0].body == b"answer"


@pytest.mark.penstock_only("RabbitMQ does so since 4.2")
def test_a_mandatory_answer_counts_as_routed(broker: BrokerUnderTest) -> None:
    answers, address = ask(broker, broker.channel())
    server = broker.channel()
    server.confirm_delivery()
    server.basic_publish("", address, b"answer", mandatory=True)
    assert answers.wait_for(1)[0].body == b"answer"


def test_an_answer_that_comes_too_late_is_unroutable(broker: BrokerUnderTest) -> None:
    channel, server = broker.channel(), broker.channel()
    server.confirm_delivery()
    _, address = ask(broker, channel)
    channel.close()
    with pytest.raises(UnroutableError):
        server.basic_publish("", address, b"too late", mandatory=True)
    assert server.is_open


def test_an_address_nobody_made_is_unroutable(broker: BrokerUnderTest) -> None:
    server = broker.channel()
    server.confirm_delivery()
    with pytest.raises(UnroutableError):
        server.basic_publish("", REPLY_TO + ".bogus", b"", mandatory=True)


def test_reply_consumers_do_not_acknowledge(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    with channel_refused(406, "PRECONDITION_FAILED - reply consumer cannot acknowledge"):
        consume(channel, REPLY_TO, auto_ack=False)


def test_a_channel_has_one_reply_consumer(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    consume(channel, REPLY_TO, auto_ack=True)
    with channel_refused(406, "PRECONDITION_FAILED - reply consumer already set"):
        consume(channel, REPLY_TO, auto_ack=True)


def test_a_cancelled_reply_consumer_makes_room(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    consume(channel, REPLY_TO, auto_ack=True, consumer_tag="mine")
    channel.basic_cancel("mine")
    answers, address = ask(broker, channel)
    channel.basic_publish("", address, b"answer")
    answers.wait_for(1)


def test_asking_needs_a_reply_consumer_first(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    queue = broker.queue(channel)
    channel.basic_publish("", queue, b"", BasicProperties(reply_to=REPLY_TO))
    with channel_refused(406, "PRECONDITION_FAILED - fast reply consumer does not exist"):
        channel.basic_qos()


@pytest.mark.parametrize("passive", [False, True])
def test_declaring_the_pseudo_queue_pretends(broker: BrokerUnderTest, passive: bool) -> None:
    answer = broker.channel().queue_declare(REPLY_TO, passive=passive).method
    assert (answer.queue, answer.message_count, answer.consumer_count) == (REPLY_TO, 0, 1)


def test_declaring_an_address_tells_whether_the_asker_is_there(broker: BrokerUnderTest) -> None:
    _, address = ask(broker, broker.channel())
    server = broker.channel()
    assert server.queue_declare(address, passive=True).method.consumer_count == 1
    with channel_refused(404, f"NOT_FOUND - no queue '{REPLY_TO}.bogus' in vhost "):
        server.queue_declare(REPLY_TO + ".bogus", passive=True)


def test_the_pseudo_queue_is_no_queue(broker: BrokerUnderTest) -> None:
    text = f"NOT_FOUND - no queue '{REPLY_TO}' in vhost '{broker.vhost}'"
    channel = broker.channel()
    with channel_refused(404, text):
        channel.basic_get(REPLY_TO)
    channel = broker.channel()
    with channel_refused(404, text):
        channel.queue_bind(REPLY_TO, "amq.direct", "key")
