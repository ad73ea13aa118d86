"""What an operator sets beside permissions and policies: topics, limits of users, operator policies,
and what open connections notice of a change.
"""

from __future__ import annotations

from collections.abc import Iterator

import pika.exceptions
import pytest
from pika import spec

from tests.behaviour.expectations import (
    check_refusal,
    connection_refused,
    eventually,
    expect_channel_close,
    message_count,
)
from tests.behaviour.raw import RawConnection
from tests.behaviour.target import BrokerUnderTest, PolicyRefusedError

pytestmark = pytest.mark.administered


@pytest.fixture
def user(broker: BrokerUnderTest) -> Iterator[str]:
    """Who may do everything until the test restricts it."""
    name = broker.name("user")
    administration = broker.administration
    administration.add_user(name, "secret")
    administration.set_permissions(name, broker.vhost, ".*", ".*", ".*")
    yield name
    administration.delete_user(name)


def connect(broker: BrokerUnderTest, user: str) -> RawConnection:
    connection = broker.raw().open(user, "secret", broker.vhost)
    connection.open_channel(1)
    return connection


def topic_refusal(broker: BrokerUnderTest, user: str, key: str) -> str:
    return (
        f"access to topic '{key}' in exchange 'amq.topic' in vhost '{broker.vhost}' "
        f"refused for user '{user}'"
    )


def expect_topic_refusal(
    connection: RawConnection, broker: BrokerUnderTest, user: str, key: str
) -> None:
    # Later RabbitMQs say which: "write access to topic ...".
    close = expect_channel_close(connection, 403, "ACCESS_REFUSED - ")
    assert close.reply_text.endswith(topic_refusal(broker, user, key))


def published(connection: RawConnection, exchange: str, key: str) -> None:
    """The broker takes it: the channel is still there afterwards."""
    connection.publish(1, exchange, key, b"")
    connection.call(1, spec.Basic.Qos(), spec.Basic.QosOk)


def test_a_topic_permission_is_asked_for_the_routing_key_of_a_publish(
    broker: BrokerUnderTest, user: str
) -> None:
    administration = broker.administration
    administration.set_topic_permissions(user, broker.vhost, "amq.topic", "^a\\.", "")
    connection = connect(broker, user)
    published(connection, "amq.topic", "a.b")
    connection.publish(1, "amq.topic", "b.a", b"")
    expect_topic_refusal(connection, broker, user, "b.a")


@pytest.mark.penstock_only(
    "RabbitMQ 3 asks only about the routing key; later releases of 4.0 do as this says"
)
@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_a_topic_permission_is_asked_for_the_keys_of_copies(
    broker: BrokerUnderTest, user: str, header: str
) -> None:
    administration = broker.administration
    administration.set_topic_permissions(user, broker.vhost, "amq.topic", "^a", "")
    connection = connect(broker, user)
    allowed = spec.BasicProperties(headers={header: ["a.1", "a.2"]})
    connection.publish(1, "amq.topic", "a", b"", allowed)
    refused = spec.BasicProperties(headers={header: ["a.1", "b.a"]})
    connection.publish(1, "amq.direct", "a", b"", refused)
    connection.call(1, spec.Basic.Qos(), spec.Basic.QosOk)
    connection.publish(1, "amq.topic", "a", b"", refused)
    expect_topic_refusal(connection, broker, user, "b.a")


def test_a_topic_permission_says_nothing_about_other_exchanges(
    broker: BrokerUnderTest, user: str
) -> None:
    other = broker.exchange(broker.channel(), "topic")
    administration = broker.administration
    administration.set_topic_permissions(user, broker.vhost, "amq.topic", "^$", "^$")
    administration.set_topic_permissions(user, broker.vhost, "amq.direct", "^$", "^$")
    connection = connect(broker, user)
    for exchange in (other, "amq.direct", "amq.fanout"):
        published(connection, exchange, "any.key")


def test_variables_of_a_topic_permission_stand_for_the_user_and_the_vhost(
    broker: BrokerUnderTest, user: str
) -> None:
    pattern = "^{username}\\.{vhost}$"
    broker.administration.set_topic_permissions(user, broker.vhost, "amq.topic", pattern, "")
    connection = connect(broker, user)
    published(connection, "amq.topic", f"{user}.{broker.vhost}")
    connection.publish(1, "amq.topic", f"other.{broker.vhost}", b"")
    expect_topic_refusal(connection, broker, user, f"other.{broker.vhost}")


@pytest.mark.parametrize("method", ["bind", "unbind", "exchange bind"])
def test_a_topic_permission_is_asked_for_the_key_of_a_binding(
    broker: BrokerUnderTest, user: str, method: str
) -> None:
    broker.administration.set_topic_permissions(user, broker.vhost, "amq.topic", "", "^a\\.")
    queue = broker.queue(broker.channel(), exclusive=False)
    connection = connect(broker, user)
    bind = spec.Queue.Bind(queue=queue, exchange="amq.topic", routing_key="a.b")
    connection.call(1, bind, spec.Queue.BindOk)
    refused = {
        "bind": spec.Queue.Bind(queue=queue, exchange="amq.topic", routing_key="b.a"),
        "unbind": spec.Queue.Unbind(queue=queue, exchange="amq.topic", routing_key="b.a"),
        "exchange bind": spec.Exchange.Bind(
            destination="amq.fanout", source="amq.topic", routing_key="b.a"
        ),
    }
    connection.send_method(1, refused[method])
    expect_topic_refusal(connection, broker, user, "b.a")


def test_a_changed_topic_permission_holds_for_what_was_published_before(
    broker: BrokerUnderTest, user: str
) -> None:
    administration = broker.administration
    published(connect(broker, user), "amq.topic", "a")
    administration.set_topic_permissions(user, broker.vhost, "amq.topic", "^b", "")
    # On another channel: RabbitMQ's remember for a while what they may do.
    connection = connect(broker, user)
    connection.publish(1, "amq.topic", "a", b"")
    expect_topic_refusal(connection, broker, user, "a")
    administration.clear_topic_permissions(user, broker.vhost)
    published(connect(broker, user), "amq.topic", "a")


def test_connections_of_a_user_can_be_limited(broker: BrokerUnderTest, user: str) -> None:
    broker.administration.limit_user(user, max_connections=1)
    first = broker.connect(user=user, password="secret")
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as refusal:
        broker.connect(user=user, password="secret")
    expected = f"NOT_ALLOWED - connection refused for user '{user}': user connection limit (1) is"
    assert expected in str(refusal.value)
    first.close()

    def can_connect() -> bool:
        try:
            broker.connect(user=user, password="secret")
        except pika.exceptions.AMQPConnectionError:
            return False
        return True

    eventually(can_connect)


def test_channels_of_a_user_can_be_limited(broker: BrokerUnderTest, user: str) -> None:
    broker.administration.limit_user(user, max_channels=2)
    connection = broker.connect(user=user, password="secret")
    connection.channel().close()
    connection.channel()
    connection.channel()
    text = (
        f"NOT_ALLOWED - number of channels opened for user '{user}' has reached the maximum "
        "allowed user limit of (2)"
    )
    with connection_refused(530, text):
        connection.channel()


def test_of_a_policy_and_an_operator_policy_the_smaller_number_counts(
    broker: BrokerUnderTest,
) -> None:
    administration = broker.administration
    channel = broker.channel()
    channel.confirm_delivery()
    queue = broker.queue(channel, {"x-max-length": 8})
    administration.set_policy(broker.vhost, queue, f"^{queue}$", {"max-length": 4})

    def kept() -> int:
        channel.queue_purge(queue)
        for _ in range(10):
            channel.basic_publish("", queue, b"m")
        return message_count(channel, queue)

    eventually(lambda: kept() == 4)
    administration.set_operator_policy(broker.vhost, queue, f"^{queue}$", {"max-length": 6})
    eventually(lambda: kept() == 4)
    administration.set_operator_policy(broker.vhost, queue, f"^{queue}$", {"max-length": 2})
    eventually(lambda: kept() == 2)
    administration.clear_policy(broker.vhost, queue)
    eventually(lambda: kept() == 2)
    administration.clear_operator_policy(broker.vhost, queue)
    eventually(lambda: kept() == 8)


@pytest.mark.parametrize(
    "definition", [{"overflow": "reject-publish"}, {"dead-letter-exchange": "x"}]
)
def test_an_operator_policy_sets_limits_and_nothing_else(
    broker: BrokerUnderTest, definition: dict[str, object]
) -> None:
    with pytest.raises(PolicyRefusedError, match="are not recognised policy settings"):
        broker.administration.set_operator_policy(broker.vhost, "p", "^none$", definition)


def test_a_deleted_user_loses_its_connections(broker: BrokerUnderTest) -> None:
    name = broker.name("user")
    administration = broker.administration
    administration.add_user(name, "secret")
    administration.set_permissions(name, broker.vhost, ".*", ".*", ".*")
    connection = connect(broker, name)
    other = broker.raw_open()
    administration.delete_user(name)
    close = connection.expect(spec.Connection.Close, 0)
    assert isinstance(close, spec.Connection.Close)
    check_refusal(close, 320, f"CONNECTION_FORCED - user '{name}' is deleted")
    other.call(1, spec.Basic.Qos(), spec.Basic.QosOk)


def test_a_changed_password_leaves_connections_as_they_are(
    broker: BrokerUnderTest, user: str
) -> None:
    connection = connect(broker, user)
    broker.administration.add_user(user, "another")
    declare = spec.Queue.Declare(queue="", exclusive=True)
    connection.call(1, declare, spec.Queue.DeclareOk)
