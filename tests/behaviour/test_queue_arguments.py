"""Every x-argument of queue.declare: what is accepted, what is refused and with which text."""

from __future__ import annotations

import pytest
from pika import spec

from tests.behaviour.expectations import channel_refused, connection_refused
from tests.behaviour.target import BrokerUnderTest

NOT_AN_INTEGER = '"expected integer, got longstr"'


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-message-ttl", 0),
        ("x-message-ttl", 2**32),
        ("x-expires", 1000),
        ("x-expires", 2**32),
        ("x-max-length", 0),
        ("x-max-length-bytes", 0),
        ("x-max-priority", 0),
        ("x-max-priority", 10),
        ("x-overflow", "drop-head"),
        ("x-overflow", "reject-publish"),
        ("x-overflow", "reject-publish-dlx"),
        ("x-dead-letter-exchange", ""),
        ("x-dead-letter-exchange", "not there yet"),
        ("x-queue-type", "classic"),
        ("x-queue-mode", "lazy"),
        ("x-queue-mode", "default"),
        ("x-queue-version", 1),
        ("x-single-active-consumer", True),
        ("x-queue-master-locator", "min-masters"),
        ("x-something-unknown", 1),
        ("alternate-exchange", "x"),
    ],
)
def test_an_argument_is_accepted(broker: BrokerUnderTest, name: str, value: object) -> None:
    broker.queue(broker.channel(), {name: value})


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-message-ttl", "10", NOT_AN_INTEGER),
        ("x-message-ttl", True, '"expected integer, got bool"'),
        ("x-expires", -1, "{value_negative,-1}"),
        ("x-expires", 0, "{value_zero,0}"),
        ("x-expires", "1", NOT_AN_INTEGER),
        ("x-max-length", -1, "{value_negative,-1}"),
        ("x-max-length", "1", NOT_AN_INTEGER),
        ("x-max-length-bytes", -1, "{value_negative,-1}"),
        ("x-max-length-bytes", "1", NOT_AN_INTEGER),
        ("x-max-priority", -1, "{value_negative,-1}"),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-max-priority", "1", NOT_AN_INTEGER),
        ("x-overflow", "bogus", "invalid_overflow"),
        ("x-overflow", 1, "{unacceptable_type,signedint}"),
        ("x-dead-letter-routing-key", "key", "routing_key_but_no_dlx_defined"),
        ("x-dead-letter-routing-key", 1, "{unacceptable_type,signedint}"),
        ("x-queue-type", "bogus", "\"unsupported queue type 'bogus'\""),
        ("x-queue-type", 1, "{unacceptable_type,signedint}"),
        ("x-queue-mode", "bogus", "\"unsupported queue mode 'bogus'\""),
        ("x-queue-mode", 1, "{unacceptable_type,signedint}"),
        ("x-queue-version", 3, "\"unsupported queue version '3'\""),
        ("x-queue-version", "a", NOT_AN_INTEGER),
        ("x-single-active-consumer", 1, "{unacceptable_type,signedint}"),
        ("x-single-active-consumer", "true", "{unacceptable_type,longstr}"),
    ],
)
def test_an_argument_is_invalid(
    broker: BrokerUnderTest, name: str, value: object, reason: str
) -> None:
    channel, queue = broker.channel(), broker.name()
    with channel_refused(
        406,
        f"PRECONDITION_FAILED - invalid arg '{name}' for queue '{queue}' "
        f"in vhost '{broker.vhost}': {reason}",
    ):
        channel.queue_declare(queue, exclusive=True, arguments={name: value})


def test_a_dead_letter_exchange_must_be_a_string(broker: BrokerUnderTest) -> None:
    channel, queue = broker.channel(), broker.name()
    with channel_refused(
        406,
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' "
        f"in queue '{queue}' in vhost '{broker.vhost}'",
    ):
        channel.queue_declare(queue, exclusive=True, arguments={"x-dead-letter-exchange": 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-delivery-limit", 3),
        ("x-max-age", "1D"),
        ("x-quorum-initial-group-size", 1),
        ("x-dead-letter-strategy", "at-least-once"),
        ("x-stream-max-segment-size-bytes", 1),
    ],
)
def test_a_classic_queue_refuses_arguments_of_other_types(
    broker: BrokerUnderTest, name: str, value: object
) -> None:
    channel, queue = broker.channel(), broker.name()
    with channel_refused(
        406,
        f"PRECONDITION_FAILED - invalid arg '{name}' for queue '{queue}' "
        f"in vhost '{broker.vhost}' of queue type rabbit_classic_queue",
    ):
        channel.queue_declare(queue, exclusive=True, arguments={name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("x-max-priority", 5), ("x-queue-mode", "lazy"), ("x-max-age", "1D")],
)
def test_a_quorum_queue_refuses_arguments_of_other_types(
    broker: BrokerUnderTest, name: str, value: object
) -> None:
    # RabbitMQ 4.0 gives quorum queues two priorities of their own, without this argument.
    channel, queue = broker.channel(), broker.name()
    with channel_refused(
        406,
        f"PRECONDITION_FAILED - invalid arg '{name}' for queue '{queue}' "
        f"in vhost '{broker.vhost}' of queue type rabbit_quorum_queue",
    ):
        arguments = {"x-queue-type": "quorum", name: value}
        channel.queue_declare(queue, durable=True, arguments=arguments)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-delivery-limit", 3),
        ("x-message-ttl", 1000),
        ("x-expires", 10000),
        ("x-overflow", "reject-publish"),
        ("x-max-length", 10),
        ("x-single-active-consumer", True),
        ("x-dead-letter-strategy", "at-least-once"),
        ("x-quorum-initial-group-size", 1),
    ],
)
def test_a_quorum_queue_accepts(broker: BrokerUnderTest, name: str, value: object) -> None:
    channel = broker.channel()
    arguments = {"x-queue-type": "quorum", name: value}
    queue = broker.queue(channel, arguments, exclusive=False, durable=True)
    channel.queue_delete(queue)


@pytest.mark.parametrize(
    ("changed", "property_name"),
    [
        ({"durable": False}, "non-durable"),
        ({"exclusive": True}, "exclusive-owner"),
        ({"auto_delete": True}, "auto-delete"),
    ],
    ids=["non-durable", "exclusive", "auto-delete"],
)
def test_a_quorum_queue_is_durable_and_nobodys(
    broker: BrokerUnderTest, changed: dict[str, object], property_name: str
) -> None:
    channel, queue = broker.channel(), broker.name()
    properties = {"durable": True, "arguments": {"x-queue-type": "quorum"}, **changed}
    with channel_refused(
        406,
        f"PRECONDITION_FAILED - invalid property '{property_name}' "
        f"for queue '{queue}' in vhost '{broker.vhost}'",
    ):
        channel.queue_declare(queue, **properties)


def test_a_quorum_queue_does_not_support_global_prefetch(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    arguments: dict[str, object] = {"x-queue-type": "quorum"}
    queue = broker.queue(channel, arguments, exclusive=False, durable=True)
    channel.basic_qos(prefetch_count=5, global_qos=True)
    with connection_refused(
        540,
        f"NOT_IMPLEMENTED - queue '{queue}' in vhost '{broker.vhost}' does not support global qos",
    ):
        channel.basic_consume(queue, lambda *_: None)


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        (
            {},
            {"x-message-ttl": 5},
            "'x-message-ttl' for {}: received the value '5' of type 'signedint' but current is none",
        ),
        (
            {"x-message-ttl": 1000},
            {},
            (
                "'x-message-ttl' for {}: "
                "received none but current is the value '1000' of type 'signedint'"
            ),
        ),
        (
            {"x-message-ttl": 1000},
            {"x-message-ttl": 5},
            "'x-message-ttl' for {}: received '5' but current is '1000'",
        ),
        (
            {"x-dead-letter-exchange": "one"},
            {"x-dead-letter-exchange": "two"},
            "'x-dead-letter-exchange' for {}: received 'two' but current is 'one'",
        ),
        (
            {},
            {"x-max-priority": 5},
            (
                "'x-max-priority' for {}: "
                "received the value '5' of type 'signedint' but current is none"
            ),
        ),
        (
            {},
            {"x-queue-type": "quorum"},
            (
                "'x-queue-type' for {}: "
                "received the value 'quorum' of type 'longstr' but current is none"
            ),
        ),
    ],
    ids=["ttl added", "ttl left out", "ttl changed", "dlx changed", "priority added", "type added"],
)
def test_arguments_must_be_the_same_when_declared_again(
    broker: BrokerUnderTest, first: dict[str, object], second: dict[str, object], text: str
) -> None:
    channel = broker.channel()
    queue = broker.queue(channel, first, exclusive=False, durable=True)
    where = f"queue '{queue}' in vhost '{broker.vhost}'"
    with channel_refused(406, f"PRECONDITION_FAILED - inequivalent arg {text.format(where)}"):
        channel.queue_declare(queue, durable=True, arguments=second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"x-queue-type": "classic"}),
        ({}, {"x-something-unknown": 1}),
        ({"x-message-ttl": 1000, "x-max-length": 5}, {"x-max-length": 5, "x-message-ttl": 1000}),
    ],
    ids=["classic is the default", "unknown does not count", "order does not count"],
)
def test_arguments_that_mean_the_same_are_equivalent(
    broker: BrokerUnderTest, first: dict[str, object], second: dict[str, object]
) -> None:
    channel = broker.channel()
    queue = broker.queue(channel, first)
    channel.queue_declare(queue, exclusive=True, arguments=second)


def test_integers_of_another_width_are_equivalent(broker: BrokerUnderTest) -> None:
    # pika writes small integers as 'I' and large ones as 'l'; some clients write octets.
    connection, queue = broker.raw_open(), broker.name()
    declare = spec.Queue.Declare(queue=queue, exclusive=True, arguments={"x-max-length": 5})
    connection.call(1, declare, spec.Queue.DeclareOk)
    octets = b"".join(spec.Queue.Declare(queue=queue, exclusive=True).encode()[:-1])
    table = b"\x0cx-max-length" + b"l" + (5).to_bytes(8, "big")
    payload = b"\x00\x32\x00\x0a" + octets + len(table).to_bytes(4, "big") + table
    connection.send(b"\x01\x00\x01" + len(payload).to_bytes(4, "big") + payload + b"\xce")
    assert connection.expect(spec.Queue.DeclareOk, 1)
