"""Opening, closing and reusing channels; which errors end a channel and which a connection."""

from __future__ import annotations

import pytest
from pika import spec

from tests.behaviour.expectations import (
    channel_refused,
    connection_refused,
    expect_channel_close,
    expect_connection_close,
    expect_violation,
)
from tests.behaviour.raw import frame, method_payload
from tests.behaviour.target import BrokerUnderTest


def missing_queue(broker: BrokerUnderTest) -> spec.Queue.Declare:
    return spec.Queue.Declare(queue=broker.name(), passive=True)


def test_a_channel_error_leaves_the_other_channels_alone(broker: BrokerUnderTest) -> None:
    connection = broker.connect()
    bystander, offender = connection.channel(), connection.channel()
    with channel_refused(404, "NOT_FOUND - no queue "):
        offender.queue_declare(broker.name(), passive=True)
    assert offender.is_closed
    assert bystander.queue_declare("", exclusive=True).method.queue


def test_a_connection_error_ends_every_channel(broker: BrokerUnderTest) -> None:
    connection = broker.connect()
    bystander, offender = connection.channel(), connection.channel()
    with connection_refused(540, "NOT_IMPLEMENTED - prefetch_size!=0 (10)"):
        offender.basic_qos(prefetch_size=10)
    assert bystander.is_closed


def test_a_channel_number_is_reused_after_close(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    for _ in range(3):
        connection.call(1, spec.Channel.Close(200, "bye", 0, 0), spec.Channel.CloseOk)
        connection.open_channel(1)


def test_a_channel_number_is_reused_after_an_error(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.send_method(1, missing_queue(broker))
    expect_channel_close(connection, 404, "NOT_FOUND")
    connection.send_method(1, spec.Channel.CloseOk())
    connection.open_channel(1)


def test_until_close_ok_frames_on_the_closed_channel_are_ignored(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.send_method(1, missing_queue(broker))
    connection.send_method(1, spec.Basic.Qos())
    connection.publish(1, "no such exchange", "key", b"body")
    expect_channel_close(connection, 404, "NOT_FOUND")
    connection.send_method(1, spec.Basic.Ack(99))
    connection.send_method(1, spec.Channel.CloseOk())
    connection.open_channel(1)


def test_closes_may_cross(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.send_method(1, missing_queue(broker))
    expect_channel_close(connection, 404, "NOT_FOUND")
    connection.call(1, spec.Channel.Close(200, "bye", 0, 0), spec.Channel.CloseOk)


def test_opening_a_channel_twice_ends_the_connection(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.send_method(1, spec.Channel.Open())
    close = expect_violation(broker, connection, 504)
    assert (close.class_id, close.method_id) == (20, 10)


@pytest.mark.differs(
    "the spec lets all but close and close-ok be discarded on a closing channel",
    twin="test_opening_a_channel_the_broker_closed_before_close_ok_is_discarded",
)
def test_opening_a_channel_the_broker_closed_before_close_ok_ends_the_connection(
    broker: BrokerUnderTest,
) -> None:
    connection = broker.raw_open()
    connection.send_method(1, missing_queue(broker))
    expect_channel_close(connection, 404, "NOT_FOUND")
    connection.send_method(1, spec.Channel.Open())
    expect_violation(broker, connection, 504)


@pytest.mark.penstock_only("RabbitMQ ends the connection with 504")
def test_opening_a_channel_the_broker_closed_before_close_ok_is_discarded(
    broker: BrokerUnderTest,
) -> None:
    connection = broker.raw_open()
    connection.send_method(1, missing_queue(broker))
    expect_channel_close(connection, 404, "NOT_FOUND")
    connection.send_method(1, spec.Channel.Open())
    # Neither an answer nor an effect: after close-ok the channel is to be opened, once.
    connection.send_method(1, spec.Channel.CloseOk())
    connection.open_channel(1)
    connection.call(1, spec.Basic.Qos(), spec.Basic.QosOk)


@pytest.mark.parametrize(
    ("payload", "ids"),
    [
        (method_payload(60, 10, bytes(7)), (60, 10)),
        (method_payload(20, 40, b"\x00\xc8\x00" + bytes(4)), (20, 40)),
        (method_payload(20, 41), (20, 41)),
    ],
    ids=["basic.qos", "channel.close", "channel.close-ok"],
)
def test_a_method_on_a_channel_not_open_ends_the_connection(
    broker: BrokerUnderTest, payload: bytes, ids: tuple[int, int]
) -> None:
    connection = broker.raw_open()
    connection.send(frame(1, 7, payload))
    close = expect_violation(broker, connection, 504)
    assert (close.class_id, close.method_id) == ids


def test_more_channels_than_channel_max_end_the_connection(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open(channel_max=2)
    connection.open_channel(2)
    connection.send_method(3, spec.Channel.Open())
    expect_connection_close(
        connection,
        530,
        "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)",
    )


def test_a_channel_number_above_channel_max_is_accepted(broker: BrokerUnderTest) -> None:
    broker.raw_open(channel_max=5).open_channel(65535)


def test_a_channel_that_was_closed_makes_room_for_one_of_any_number(
    broker: BrokerUnderTest,
) -> None:
    connection = broker.raw_open(channel_max=2)
    connection.open_channel(9)
    connection.call(9, spec.Channel.Close(200, "", 0, 0), spec.Channel.CloseOk)
    connection.open_channel(7)
    connection.send_method(8, spec.Channel.Open())
    expect_connection_close(connection, 530, "NOT_ALLOWED - number of channels opened (2)")


def test_flow_cannot_be_stopped_by_the_client(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.call(1, spec.Channel.Flow(active=True), spec.Channel.FlowOk)
    connection.send_method(1, spec.Channel.Flow(active=False))
    expect_connection_close(connection, 540, "NOT_IMPLEMENTED - active=false")


def test_a_channel_error_names_the_offending_method(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.send_method(1, missing_queue(broker))
    close = expect_channel_close(connection, 404, "NOT_FOUND")
    assert (close.class_id, close.method_id) == (50, 10)


def test_closing_a_channel_requeues_what_it_had_not_acknowledged(broker: BrokerUnderTest) -> None:
    connection = broker.connect()
    keeper, reader = connection.channel(), connection.channel()
    queue = broker.queue(keeper)
    keeper.confirm_delivery()
    keeper.basic_publish("", queue, b"kept")
    assert reader.basic_get(queue)[0] is not None
    assert keeper.basic_get(queue)[0] is None
    reader.close()
    method, _, body = keeper.basic_get(queue)
    assert (method.redelivered, body) == (True, b"kept")
