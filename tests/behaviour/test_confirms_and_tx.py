"""Publisher confirms and transactions."""

from __future__ import annotations

import pika
import pytest
from pika import BasicProperties, spec
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError

from tests.behaviour.expectations import (
    channel_refused,
    eventually,
    expect_channel_close,
    fetch,
    is_empty,
    message_count,
)
from tests.behaviour.raw import RawConnection
from tests.behaviour.target import BrokerUnderTest


def confirmed(connection: RawConnection, count: int) -> set[int]:
    """The tags acknowledged until `count` of them are; multiple stands for all before."""
    tags: set[int] = set()
    while len(tags) < count:
        ack = connection.expect(spec.Basic.Ack, 1)
        assert isinstance(ack, spec.Basic.Ack)
        tags |= set(range(1, ack.delivery_tag + 1)) if ack.multiple else {ack.delivery_tag}
    return tags


def test_every_publish_is_confirmed_counting_from_one(broker: BrokerUnderTest) -> None:
    connection, queue = broker.raw_open(), broker.name()
    declare = spec.Queue.Declare(queue=queue, exclusive=True)
    connection.call(1, declare, spec.Queue.DeclareOk)
    connection.publish(1, "", queue, b"before select")
    connection.call(1, spec.Confirm.Select(), spec.Confirm.SelectOk)
    for _ in range(50):
        connection.publish(1, "", queue, b"")
    assert confirmed(connection, 50) == set(range(1, 51))


def test_confirm_select_may_be_repeated_and_does_not_restart_the_count(
    broker: BrokerUnderTest,
) -> None:
    connection = broker.raw_open()
    for expected in (1, 2):
        connection.call(1, spec.Confirm.Select(), spec.Confirm.SelectOk)
        connection.publish(1, "amq.direct", "nowhere", b"")
        ack = connection.expect(spec.Basic.Ack, 1)
        assert isinstance(ack, spec.Basic.Ack)
        assert ack.delivery_tag == expected


def test_a_persistent_message_in_a_durable_queue_is_confirmed(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    queue = broker.queue(channel, exclusive=False, durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"", BasicProperties(delivery_mode=2))
    assert message_count(channel, queue) == 1
    channel.queue_delete(queue)


def test_a_refused_publish_is_not_confirmed(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.call(1, spec.Confirm.Select(), spec.Confirm.SelectOk)
    connection.publish(1, broker.name("missing"), "key", b"")
    expect_channel_close(connection, 404, "NOT_FOUND - no exchange ")


def test_a_full_queue_that_rejects_gives_a_nack(broker: BrokerUnderTest) -> None:
    connection, queue = broker.raw_open(), broker.name()
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    declare = spec.Queue.Declare(queue=queue, exclusive=True, arguments=arguments)
    connection.call(1, declare, spec.Queue.DeclareOk)
    connection.call(1, spec.Confirm.Select(), spec.Confirm.SelectOk)
    connection.publish(1, "", queue, b"fits")
    assert confirmed(connection, 1) == {1}
    connection.publish(1, "", queue, b"does not fit")
    nack = connection.expect(spec.Basic.Nack, 1)
    assert isinstance(nack, spec.Basic.Nack)
    assert nack.delivery_tag == 2


def test_one_rejecting_queue_of_several_makes_it_a_nack(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    full = broker.queue(channel, {"x-max-length": 0, "x-overflow": "reject-publish"})
    spacious, exchange = broker.queue(channel), broker.exchange(channel, "fanout")
    channel.queue_bind(full, exchange, "")
    channel.queue_bind(spacious, exchange, "")
    channel.confirm_delivery()
    with pytest.raises(NackError):
        channel.basic_publish(exchange, "", b"half")
    assert fetch(channel, spacious).body == b"half"


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (spec.Confirm.Select(), spec.Tx.Select(), "cannot switch from confirm to tx mode"),
        (spec.Tx.Select(), spec.Confirm.Select(), "cannot switch from tx to confirm mode"),
    ],
    ids=["confirm then tx", "tx then confirm"],
)
def test_a_channel_is_in_one_mode(
    broker: BrokerUnderTest, first: object, second: object, text: str
) -> None:
    connection = broker.raw_open()
    connection.send_method(1, first)
    connection.read_frame()
    connection.send_method(1, second)
    expect_channel_close(connection, 406, f"PRECONDITION_FAILED - {text}")


@pytest.mark.parametrize("method", ["tx_commit", "tx_rollback"])
def test_without_select_there_is_no_transaction(broker: BrokerUnderTest, method: str) -> None:
    channel = broker.channel()
    with channel_refused(406, "PRECONDITION_FAILED - channel is not transactional"):
        getattr(channel, method)()


@pytest.fixture
def transacted(broker: BrokerUnderTest) -> BlockingChannel:
    channel = broker.channel()
    channel.tx_select()
    channel.tx_select()  # once more is fine
    return channel


def test_publishes_appear_with_the_commit(
    broker: BrokerUnderTest, transacted: BlockingChannel
) -> None:
    other = transacted.connection.channel()
    first, second = broker.queue(other), broker.queue(other)
    transacted.basic_publish("", first, b"1")
    transacted.basic_publish("", second, b"2")
    transacted.basic_qos()  # the publishes have been read by now
    assert is_empty(other, first)
    transacted.tx_commit()
    assert [fetch(other, first).body, fetch(other, second).body] == [b"1", b"2"]


def test_publishes_vanish_with_the_rollback(
    broker: BrokerUnderTest, transacted: BlockingChannel
) -> None:
    queue = broker.queue(transacted)
    transacted.basic_publish("", queue, b"never")
    transacted.tx_rollback()
    transacted.basic_publish("", queue, b"after")
    transacted.tx_commit()
    assert [message_count(transacted, queue), fetch(transacted, queue).body] == [1, b"after"]


def test_publishes_vanish_with_the_channel(
    broker: BrokerUnderTest, transacted: BlockingChannel
) -> None:
    other = transacted.connection.channel()
    queue = broker.queue(other)
    transacted.basic_publish("", queue, b"never")
    transacted.close()
    assert is_empty(other, queue)


def test_acknowledgements_wait_for_the_commit(
    broker: BrokerUnderTest, transacted: BlockingChannel
) -> None:
    connection = transacted.connection
    keeper = connection.channel()
    queue = broker.queue(keeper)
    keeper.basic_publish("", queue, b"kept")
    transacted.basic_ack(fetch(transacted, queue, auto_ack=False).tag)
    transacted.close()
    again = fetch(keeper, queue, auto_ack=False)
    assert (again.body, again.method.redelivered) == (b"kept", True)
    keeper.basic_nack(again.tag, requeue=True)
    last = connection.channel()
    last.tx_select()
    last.basic_ack(fetch(last, queue, auto_ack=False).tag)
    last.tx_commit()
    last.close()
    assert is_empty(keeper, queue)


def test_a_rolled_back_acknowledgement_can_be_given_again(
    broker: BrokerUnderTest, transacted: BlockingChannel
) -> None:
    keeper = transacted.connection.channel()
    queue = broker.queue(keeper)
    keeper.basic_publish("", queue, b"")
    tag = fetch(transacted, queue, auto_ack=False).tag
    transacted.basic_ack(tag)
    transacted.tx_rollback()
    assert is_empty(keeper, queue)  # rollback does not requeue
    transacted.basic_ack(tag)
    transacted.tx_commit()
    transacted.close()
    assert is_empty(keeper, queue)


def test_a_reject_waits_for_the_commit(
    broker: BrokerUnderTest, transacted: BlockingChannel
) -> None:
    keeper = transacted.connection.channel()
    queue = broker.queue(keeper)
    keeper.basic_publish("", queue, b"")
    transacted.basic_reject(fetch(transacted, queue, auto_ack=False).tag, requeue=True)
    transacted.basic_qos()
    assert is_empty(keeper, queue)
    transacted.tx_commit()
    eventually(lambda: message_count(keeper, queue) == 1)


def test_a_return_comes_before_commit_ok(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.call(1, spec.Tx.Select(), spec.Tx.SelectOk)
    connection.publish(1, "", broker.name("missing"), b"", mandatory=True)
    connection.call(1, spec.Basic.Qos(), spec.Basic.QosOk)  # not before the commit
    connection.send_method(1, spec.Tx.Commit())
    connection.expect(spec.Basic.Return, 1)
    connection.read_frame()
    connection.expect(spec.Tx.CommitOk, 1)


def test_an_unknown_exchange_is_noticed_before_the_commit(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.call(1, spec.Tx.Select(), spec.Tx.SelectOk)
    connection.publish(1, broker.name("missing"), "key", b"")
    expect_channel_close(connection, 404, "NOT_FOUND - no exchange ")


def test_an_unknown_tag_is_noticed_before_the_commit(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.call(1, spec.Tx.Select(), spec.Tx.SelectOk)
    connection.send_method(1, spec.Basic.Ack(4))
    expect_channel_close(connection, 406, "PRECONDITION_FAILED - unknown delivery tag 4")


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (spec.Basic.Ack(1), spec.Basic.Ack(1)),
        (spec.Basic.Ack(1), spec.Basic.Reject(1, requeue=True)),
        (spec.Basic.Nack(2), spec.Basic.Ack(2, multiple=True)),
        (spec.Basic.Ack(2, multiple=True), spec.Basic.Ack(1)),
        (spec.Basic.Ack(0, multiple=True), spec.Basic.Nack(2)),
    ],
)
def test_a_tag_that_waits_for_the_commit_is_not_settled_again(
    broker: BrokerUnderTest, first: pika.amqp_object.Method, again: pika.amqp_object.Method
) -> None:
    """It is noticed at once, and nothing of the transaction is done."""
    keeper = broker.channel()
    queue = broker.queue(keeper, exclusive=False)
    for _ in range(3):
        keeper.basic_publish("", queue, b"x")
    eventually(lambda: message_count(keeper, queue) == 3)
    connection = broker.raw_open()
    connection.call(1, spec.Tx.Select(), spec.Tx.SelectOk)
    for _ in range(2):
        connection.send_method(1, spec.Basic.Get(queue=queue))
        connection.expect(spec.Basic.GetOk, 1)
        connection.read_frame()
        connection.read_frame()
    connection.publish(1, "", queue, b"never")
    connection.send_method(1, first)
    connection.send_method(1, again)
    expect_channel_close(connection, 406, "PRECONDITION_FAILED - unknown delivery tag ")
    connection.send_method(1, spec.Channel.CloseOk())
    eventually(lambda: message_count(keeper, queue) == 3)


def test_recover_leaves_what_waits_for_the_commit(
    broker: BrokerUnderTest, transacted: BlockingChannel
) -> None:
    keeper = transacted.connection.channel()
    queue = broker.queue(keeper)
    for body in (b"1", b"2", b"3"):
        keeper.basic_publish("", queue, body)
    eventually(lambda: message_count(keeper, queue) == 3)
    tags = [fetch(transacted, queue, auto_ack=False).tag for _ in range(3)]
    transacted.basic_ack(tags[1])
    transacted.basic_recover(requeue=True)
    eventually(lambda: message_count(keeper, queue) == 2)
    transacted.tx_commit()
    transacted.close()
    assert [fetch(keeper, queue).body for _ in range(2)] == [b"1", b"3"]
    assert is_empty(keeper, queue)
