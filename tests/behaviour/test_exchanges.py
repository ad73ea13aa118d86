"""Declaring, deleting and binding exchanges: names, equivalence, refusals."""

from __future__ import annotations

import pytest
from pika import spec

from tests.behaviour.expectations import (
    channel_refused,
    connection_refused,
    eventually,
    expect_channel_close,
    fetch,
    is_empty,
)
from tests.behaviour.target import BrokerUnderTest

DEFAULT_EXCHANGE = "ACCESS_REFUSED - operation not permitted on the default exchange"


def exists(broker: BrokerUnderTest, exchange: str) -> bool:
    connection = broker.raw_open()
    connection.send_method(1, spec.Exchange.Declare(exchange=exchange, passive=True))
    return isinstance(connection.read_frame().method, spec.Exchange.DeclareOk)


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_every_standard_type_can_be_declared_again_the_same(
    broker: BrokerUnderTest, kind: str
) -> None:
    channel, name = broker.channel(), broker.name()
    for _ in range(2):
        channel.exchange_declare(name, kind, durable=True, auto_delete=False)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ],
)
def test_the_predeclared_exchanges_are_there(broker: BrokerUnderTest, name: str, kind: str) -> None:
    channel = broker.channel()
    channel.exchange_declare(name, passive=True)
    channel.exchange_declare(name, kind, durable=True)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"exchange_type": "fanout"}, "'type' for {}: received 'fanout' but current is 'direct'"),
        ({"durable": False}, "'durable' for {}: received 'false' but current is 'true'"),
        ({"auto_delete": True}, "'auto_delete' for {}: received 'true' but current is 'false'"),
        ({"internal": True}, "'internal' for {}: received 'true' but current is 'false'"),
        (
            {"arguments": {"alternate-exchange": "other"}},
            (
                "'alternate-exchange' for {}: "
                "received the value 'other' of type 'longstr' but current is none"
            ),
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_declaring_differently_is_a_precondition_failed(
    broker: BrokerUnderTest, changed: dict[str, object], text: str
) -> None:
    channel, name = broker.channel(), broker.name()
    first: dict[str, object] = {"exchange_type": "direct", "durable": True}
    channel.exchange_declare(name, **first)
    where = f"exchange '{name}' in vhost '{broker.vhost}'"
    with channel_refused(406, f"PRECONDITION_FAILED - inequivalent arg {text.format(where)}"):
        channel.exchange_declare(name, **{**first, **changed})


def test_unknown_arguments_do_not_count_for_equivalence(broker: BrokerUnderTest) -> None:
    channel, name = broker.channel(), broker.name()
    channel.exchange_declare(name, "direct")
    channel.exchange_declare(name, "direct", arguments={"x-whatever": 1})


def test_a_passive_declare_asks_only_for_the_name(broker: BrokerUnderTest) -> None:
    channel, name = broker.channel(), broker.name()
    channel.exchange_declare(name, "direct", durable=True)
    channel.exchange_declare(name, "no-such-type", passive=True)


def test_a_passive_declare_of_an_unknown_exchange_is_not_found(broker: BrokerUnderTest) -> None:
    channel, name = broker.channel(), broker.name()
    with channel_refused(404, f"NOT_FOUND - no exchange '{name}' in vhost '{broker.vhost}'"):
        channel.exchange_declare(name, passive=True)


@pytest.mark.differs(
    "later ones, 3.13.7 among them, close the channel alone",
    twin="test_an_unknown_type_ends_the_channel",
)
def test_an_unknown_type_ends_the_connection(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    with connection_refused(503, "COMMAND_INVALID - unknown exchange type 'bogus'"):
        channel.exchange_declare(broker.name(), "bogus")


@pytest.mark.differs(
    "later ones, 3.13.7 among them, close the channel alone",
    twin="test_an_unknown_type_ends_the_channel",
)
def test_an_empty_type_ends_the_connection(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    with connection_refused(503, "COMMAND_INVALID - invalid exchange type ''"):
        channel.exchange_declare(broker.name(), "")


@pytest.mark.penstock_only("RabbitMQ 3.10 closes the connection; later ones do as this says")
@pytest.mark.parametrize(
    ("kind", "text"),
    [("bogus", "unknown exchange type 'bogus'"), ("", "invalid exchange type ''")],
)
def test_an_unknown_type_ends_the_channel(broker: BrokerUnderTest, kind: str, text: str) -> None:
    connection = broker.connect()
    with channel_refused(406, f"PRECONDITION_FAILED - {text}"):
        connection.channel().exchange_declare(broker.name(), kind)
    connection.channel().exchange_declare(broker.name(), "direct")


def test_a_passive_declaration_does_not_look_at_the_type(broker: BrokerUnderTest) -> None:
    broker.channel().exchange_declare("amq.direct", "bogus", passive=True)


def test_new_names_with_amq_are_reserved(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    with channel_refused(
        403, "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'"
    ):
        channel.exchange_declare("amq.mine", "direct")


def test_a_predeclared_exchange_is_compared_before_its_prefix_is_refused(
    broker: BrokerUnderTest,
) -> None:
    channel = broker.channel()
    with channel_refused(406, "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq."):
        channel.exchange_declare("amq.direct", "fanout", durable=True)


@pytest.mark.parametrize("name", ["amq.direct", "amq.unknown"])
def test_a_system_exchange_cannot_be_deleted(broker: BrokerUnderTest, name: str) -> None:
    channel = broker.channel()
    with channel_refused(
        403,
        f"ACCESS_REFUSED - deletion of system exchange '{name}' in vhost '{broker.vhost}' "
        "not allowed",
    ):
        channel.exchange_delete(name)


@pytest.mark.parametrize(
    "method",
    [
        spec.Exchange.Declare(exchange="", type="direct", durable=True),
        spec.Exchange.Declare(exchange="", type="direct", passive=True),
        spec.Exchange.Delete(exchange=""),
        spec.Queue.Bind(queue="q", exchange="", routing_key="k"),
        spec.Queue.Unbind(queue="q", exchange="", routing_key="k"),
        spec.Exchange.Bind(destination="amq.direct", source="", routing_key="k"),
        spec.Exchange.Bind(destination="", source="amq.direct", routing_key="k"),
    ],
    ids=["declare", "passive", "delete", "bind", "unbind", "source", "destination"],
)
def test_the_default_exchange_is_left_alone(broker: BrokerUnderTest, method: object) -> None:
    connection = broker.raw_open()
    connection.call(
        1, spec.Queue.Declare(queue=broker.name(), exclusive=True), spec.Queue.DeclareOk
    )
    if isinstance(method, spec.Queue.Bind | spec.Queue.Unbind):
        method.queue = ""  # the one just declared
    connection.send_method(1, method)
    expect_channel_close(connection, 403, DEFAULT_EXCHANGE)


def test_the_default_exchange_reaches_every_queue_by_name(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    queue = broker.queue(channel)
    channel.basic_publish("", queue, b"direct")
    message = fetch(channel, queue)
    assert (message.method.exchange, message.method.routing_key) == ("", queue)


def test_deleting_an_unknown_exchange_is_fine(broker: BrokerUnderTest) -> None:
    broker.channel().exchange_delete(broker.name())


def test_if_unused_protects_an_exchange_with_bindings(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    exchange, queue = broker.exchange(channel), broker.queue(channel)
    channel.queue_bind(queue, exchange, "key")
    with channel_refused(
        406, f"PRECONDITION_FAILED - exchange '{exchange}' in vhost '{broker.vhost}' in use"
    ):
        channel.exchange_delete(exchange, if_unused=True)
    assert exists(broker, exchange)


def test_if_unused_deletes_an_exchange_without_bindings(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    exchange, queue = broker.exchange(channel), broker.queue(channel)
    channel.queue_bind(queue, exchange, "key")
    channel.queue_unbind(queue, exchange, "key")
    channel.exchange_delete(exchange, if_unused=True)
    assert not exists(broker, exchange)


def test_an_internal_exchange_takes_no_publish(broker: BrokerUnderTest) -> None:
    connection, name = broker.raw_open(), broker.name()
    declare = spec.Exchange.Declare(exchange=name, type="direct", internal=True)
    connection.call(1, declare, spec.Exchange.DeclareOk)
    connection.publish(1, name, "key", b"body")
    expect_channel_close(
        connection,
        403,
        f"ACCESS_REFUSED - cannot publish to internal exchange '{name}' in vhost '{broker.vhost}'",
    )


def test_an_auto_delete_exchange_goes_with_its_last_binding(broker: BrokerUnderTest) -> None:
    channel, name = broker.channel(), broker.name()
    first, second = broker.queue(channel), broker.queue(channel)
    channel.exchange_declare(name, "direct", auto_delete=True)
    assert exists(broker, name)  # not before it was used
    channel.queue_bind(first, name, "key")
    channel.queue_bind(second, name, "key")
    channel.queue_unbind(first, name, "key")
    assert exists(broker, name)
    channel.queue_delete(second)
    eventually(lambda: not exists(broker, name))


def test_an_alternate_exchange_must_be_a_string(broker: BrokerUnderTest) -> None:
    channel, name = broker.channel(), broker.name()
    with channel_refused(
        406,
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' "
        f"in exchange '{name}' in vhost '{broker.vhost}'",
    ):
        channel.exchange_declare(name, "direct", arguments={"alternate-exchange": 5})


def test_binding_to_an_unknown_exchange_is_not_found(broker: BrokerUnderTest) -> None:
    channel, missing = broker.channel(), broker.name("missing")
    queue = broker.queue(channel)
    with channel_refused(404, f"NOT_FOUND - no exchange '{missing}' in vhost '{broker.vhost}'"):
        channel.queue_bind(queue, missing, "key")


def test_binding_an_unknown_queue_is_not_found(broker: BrokerUnderTest) -> None:
    channel, missing = broker.channel(), broker.name("missing")
    with channel_refused(404, f"NOT_FOUND - no queue '{missing}' in vhost '{broker.vhost}'"):
        channel.queue_bind(missing, "amq.direct", "key")


@pytest.mark.parametrize("end", ["source", "destination"])
def test_binding_exchanges_needs_both(broker: BrokerUnderTest, end: str) -> None:
    channel, missing = broker.channel(), broker.name("missing")
    ends = {"source": "amq.direct", "destination": "amq.fanout", end: missing}
    with channel_refused(404, f"NOT_FOUND - no exchange '{missing}' in vhost '{broker.vhost}'"):
        channel.exchange_bind(**ends, routing_key="key")


def test_unbinding_what_is_not_bound_is_fine(broker: BrokerUnderTest) -> None:
    channel, missing = broker.channel(), broker.name("missing")
    queue = broker.queue(channel)
    channel.queue_unbind(queue, "amq.direct", "not bound")
    channel.queue_unbind(missing, "amq.direct", "key")
    channel.queue_unbind(queue, missing, "key")
    channel.exchange_unbind(destination="amq.direct", source="amq.fanout", routing_key="none")
    channel.exchange_unbind(destination=missing, source="amq.fanout", routing_key="none")


def test_a_binding_made_twice_is_one_binding(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    exchange, queue = broker.exchange(channel), broker.queue(channel)
    channel.queue_bind(queue, exchange, "key")
    channel.queue_bind(queue, exchange, "key")
    channel.basic_publish(exchange, "key", b"once")
    assert fetch(channel, queue).body == b"once"
    channel.queue_unbind(queue, exchange, "key")
    channel.confirm_delivery()
    channel.basic_publish(exchange, "key", b"lost")
    assert is_empty(channel, queue)


def test_unbinding_needs_the_same_arguments(broker: BrokerUnderTest) -> None:
    channel = broker.channel()
    exchange, queue = broker.exchange(channel), broker.queue(channel)
    channel.queue_bind(queue, exchange, "key", arguments={"colour": "red"})
    channel.queue_unbind(queue, exchange, "key")
    channel.basic_publish(exchange, "key", b"still bound")
    assert fetch(channel, queue).body == b"still bound"
