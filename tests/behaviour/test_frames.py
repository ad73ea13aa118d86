"""Frames that should not have been sent: malformed, too large, out of place, unknown."""

from __future__ import annotations

import struct

import pika.frame
import pytest
from pika import spec

from tests.behaviour.expectations import expect_channel_close, expect_violation
from tests.behaviour.raw import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    BrokerSilentError,
    frame,
    header_payload,
    method_payload,
)
from tests.behaviour.target import BrokerUnderTest

PUBLISH = pika.frame.Method(1, spec.Basic.Publish(exchange="", routing_key="nowhere")).marshal()
QOS = method_payload(60, 10, bytes(7))


def test_a_frame_beyond_frame_max_is_a_frame_error(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open(frame_max=4096)
    connection.send(frame(BODY, 1, b"x" * 5000))
    expect_violation(broker, connection, 501)


def test_a_frame_of_exactly_frame_max_is_welcome(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open(frame_max=4096)
    body = b"x" * (4096 - 8)
    connection.send(PUBLISH, frame(HEADER, 1, header_payload(len(body))), frame(BODY, 1, body))
    connection.call(1, spec.Basic.Qos(), spec.Basic.QosOk)


@pytest.mark.parametrize(
    ("octets", "penstock"),
    [
        (frame(METHOD, 1, QOS, end=0), 501),
        (frame(5, 1, b"abc"), 501),
        (frame(0, 1, b"abc"), 501),
        (frame(METHOD, 1, b"\x00"), 502),
        (frame(METHOD, 1, method_payload(50, 10, bytes(2))), 502),
        (frame(METHOD, 1, QOS + b"abc"), 502),
        (frame(HEARTBEAT, 0, b"abc"), 501),
        (PUBLISH + frame(HEADER, 1, b"\x00\x3c\x00"), 502),
    ],
    ids=[
        "no end octet",
        "unknown type",
        "type 0",
        "method of one octet",
        "arguments cut short",
        "octets after the arguments",
        "heartbeat with payload",
        "header cut short",
    ],
)
def test_a_malformed_frame_is_a_frame_error(
    broker: BrokerUnderTest, octets: bytes, penstock: int
) -> None:
    connection = broker.raw_open()
    connection.send(octets)
    expect_violation(broker, connection, 501, penstock)


def declare_with_table(table: bytes) -> bytes:
    arguments = b"\x00\x00\x01q\x00" + table
    return frame(METHOD, 1, method_payload(50, 10, arguments))


def test_a_table_cut_short_is_a_frame_error(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.send(declare_with_table(struct.pack(">I", 40) + b"\x01aS"))
    expect_violation(broker, connection, 501, 502)


@pytest.mark.rabbitmq_310("a crash of its reader, no promise")
def test_a_table_value_of_unknown_type_is_a_hang_up(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.send(declare_with_table(struct.pack(">I", 4) + b"\x01aZ1"))
    with pytest.raises(BrokerSilentError, match="hung up"):
        connection.read_frame()


@pytest.mark.penstock_only("RabbitMQ's reader crashes and hangs up without a word")
def test_a_table_value_of_unknown_type_is_named_as_the_reason(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.send(declare_with_table(struct.pack(">I", 4) + b"\x01aZ1"))
    expect_violation(broker, connection, 502)


@pytest.mark.penstock_only("RabbitMQ's reader crashes and hangs up without a word")
@pytest.mark.parametrize(("class_id", "method_id"), [(99, 10), (60, 99)])
def test_an_unknown_method_is_refused(
    broker: BrokerUnderTest, class_id: int, method_id: int
) -> None:
    connection = broker.raw_open()
    connection.send(frame(METHOD, 1, method_payload(class_id, method_id)))
    expect_violation(broker, connection, 540)


@pytest.mark.rabbitmq_310("a crash of its reader, no promise")
@pytest.mark.parametrize(("class_id", "method_id"), [(99, 10), (60, 99)])
def test_an_unknown_method_is_a_hang_up(
    broker: BrokerUnderTest, class_id: int, method_id: int
) -> None:
    connection = broker.raw_open()
    connection.send(frame(METHOD, 1, method_payload(class_id, method_id)))
    with pytest.raises(BrokerSilentError, match="hung up"):
        connection.read_frame()


def test_access_request_of_old_clients_is_answered(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.send(frame(METHOD, 1, method_payload(30, 10, b"\x05/data\x1f")))
    assert connection.expect(spec.Access.RequestOk, 1)


def test_a_name_that_is_not_utf_8_is_a_frame_error(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    arguments = b"\x00\x00\x02\xff\xfe\x04" + bytes(4)
    connection.send(frame(METHOD, 1, method_payload(50, 10, arguments)))
    expect_violation(broker, connection, 501, 502)


@pytest.mark.parametrize(
    ("octets", "ids"),
    [
        (frame(METHOD, 1, method_payload(50, 11, b"\x01q" + bytes(8))), (50, 11)),
        (frame(METHOD, 1, method_payload(10, 50, b"\x00\xc8\x00" + bytes(4))), (10, 50)),
        (frame(METHOD, 1, method_payload(20, 41)), (20, 41)),
    ],
    ids=["queue.declare-ok", "connection.close on channel 1", "channel.close-ok unasked"],
)
def test_a_method_no_client_sends_there_is_invalid(
    broker: BrokerUnderTest, octets: bytes, ids: tuple[int, int]
) -> None:
    connection = broker.raw_open()
    connection.send(octets)
    close = expect_violation(broker, connection, 503)
    assert (close.class_id, close.method_id) == ids


@pytest.mark.parametrize(
    ("octets", "penstock"),
    [
        (frame(HEADER, 1, header_payload(3)), 505),
        (frame(BODY, 1, b"abc"), 505),
        (frame(HEADER, 7, header_payload(3)), 504),
        (PUBLISH + frame(METHOD, 1, QOS), 505),
        (PUBLISH + frame(BODY, 1, b"abc"), 505),
        (PUBLISH + frame(HEADER, 1, header_payload(3)) + frame(METHOD, 1, QOS), 505),
        (
            PUBLISH + frame(HEADER, 1, header_payload(0, class_id=50)),
            505,
        ),
        (frame(HEARTBEAT, 1, b""), 501),
    ],
    ids=[
        "header without a method",
        "body without a method",
        "header on a channel not open",
        "method where a header belongs",
        "body where a header belongs",
        "method where a body belongs",
        "header of another class",
        "heartbeat on a channel",
    ],
)
def test_a_frame_out_of_place_is_unexpected(
    broker: BrokerUnderTest, octets: bytes, penstock: int
) -> None:
    connection = broker.raw_open()
    connection.send(octets)
    expect_violation(broker, connection, 505, penstock)


def test_a_body_longer_than_announced_is_refused_with_the_next_frame_at_the_latest(
    broker: BrokerUnderTest,
) -> None:
    # RabbitMQ notices only when a method follows.
    connection = broker.raw_open()
    connection.send(PUBLISH, frame(HEADER, 1, header_payload(3)), frame(BODY, 1, b"12345"))
    connection.send_method(1, spec.Basic.Qos())
    expect_violation(broker, connection, 505, 501)


def test_header_properties_that_are_not_there_end_the_connection(broker: BrokerUnderTest) -> None:
    # The flags promise a content type.
    connection = broker.raw_open()
    connection.send(PUBLISH, frame(HEADER, 1, header_payload(0, flags=0x8000)))
    expect_violation(broker, connection, 541, 502)


def test_frames_of_several_channels_may_interleave(broker: BrokerUnderTest) -> None:
    connection = broker.raw_open()
    connection.open_channel(2)
    connection.call(2, spec.Queue.Declare(queue="", exclusive=True), spec.Queue.DeclareOk)
    connection.send(PUBLISH, frame(HEADER, 1, header_payload(4)), frame(BODY, 1, b"ab"))
    connection.call(2, spec.Basic.Qos(), spec.Basic.QosOk)
    connection.send(frame(BODY, 1, b"cd"))
    connection.call(1, spec.Basic.Qos(), spec.Basic.QosOk)


def test_a_message_beyond_the_size_limit_is_refused_on_the_channel(
    broker: BrokerUnderTest,
) -> None:
    # RabbitMQ 3.10 allows 128 MiB, RabbitMQ 4 only 16 MiB. It looks when the body is complete;
    # refusing at the header is as good, so what is sent stops at the first answer.
    size = 128 * 1024 * 1024 + 1
    connection = broker.raw_open()
    connection.send(PUBLISH, frame(HEADER, 1, header_payload(size)))
    chunk = frame(BODY, 1, bytes(131072 - 8))
    whole, rest = divmod(size, 131072 - 8)
    for _ in range(whole):
        connection.send(chunk)
    connection.send(frame(BODY, 1, bytes(rest)))
    expect_channel_close(connection, 406, f"PRECONDITION_FAILED - message size {size} is larger ")
