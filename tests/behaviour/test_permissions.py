"""Who may do what: configure, write and read patterns, method by method."""

from __future__ import annotations

from collections.abc import Iterator

import pika.exceptions
import pytest
from pika import spec

from tests.behaviour.expectations import expect_channel_close
from tests.behaviour.raw import RawConnection
from tests.behaviour.target import BrokerUnderTest

pytestmark = pytest.mark.administered

NOTHING = "^$"


class User:
    """A user with a password of its own and whatever permissions the test gives."""

    def __init__(self, broker: BrokerUnderTest) -> None:
        self.broker = broker
        self.name = broker.name("user")
        broker.administration.add_user(self.name, "secret")

    def may(self, configure: str = NOTHING, write: str = NOTHING, read: str = NOTHING) -> None:
        administration = self.broker.administration
        administration.set_permissions(self.name, self.broker.vhost, configure, write, read)

    def connect(self) -> RawConnection:
        connection = self.broker.raw().open(self.name, "secret", self.broker.vhost)
        connection.open_channel(1)
        return connection


@pytest.fixture
def user(broker: BrokerUnderTest) -> Iterator[User]:
    user = User(broker)
    yield user
    broker.administration.delete_user(user.name)


@pytest.fixture
def queue(broker: BrokerUnderTest) -> str:
    return broker.queue(broker.channel(), exclusive=False)


@pytest.fixture
def exchange(broker: BrokerUnderTest) -> str:
    return broker.exchange(broker.channel())


def refused(user: User, kind: str, name: str, method: object) -> None:
    connection = user.connect()
    connection.send_method(1, method)
    expect_refusal(connection, user, kind, name)


def expect_refusal(connection: RawConnection, user: User, kind: str, name: str) -> None:
    # Later RabbitMQs say which: "configure access to queue ...".
    close = connection.expect(spec.Channel.Close, 1)
    assert isinstance(close, spec.Channel.Close)
    what = (
        f"access to {kind} '{name}' in vhost '{user.broker.vhost}' refused for user '{user.name}'"
    )
    assert close.reply_code == 403
    assert close.reply_text.startswith("ACCESS_REFUSED - ")
    assert close.reply_text.endswith(what)


def test_without_permissions_a_vhost_stays_shut(broker: BrokerUnderTest, user: User) -> None:
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as refusal:
        broker.connect(user=user.name, password="secret")
    assert f"NOT_ALLOWED - access to vhost '{broker.vhost}' refused for user '{user.name}'" in str(
        refusal.value
    )


def test_declaring_a_queue_needs_configure(user: User) -> None:
    user.may(write=".*", read=".*")
    refused(user, "queue", "mine", spec.Queue.Declare(queue="mine", exclusive=True))


def test_deleting_a_queue_needs_configure(user: User, queue: str) -> None:
    user.may(write=".*", read=".*")
    refused(user, "queue", queue, spec.Queue.Delete(queue=queue))


def test_declaring_an_exchange_needs_configure(user: User) -> None:
    user.may(write=".*", read=".*")
    refused(user, "exchange", "mine", spec.Exchange.Declare(exchange="mine", type="direct"))


def test_deleting_an_exchange_needs_configure(user: User, exchange: str) -> None:
    user.may(write=".*", read=".*")
    refused(user, "exchange", exchange, spec.Exchange.Delete(exchange=exchange))


def test_asking_passively_needs_nothing(user: User, queue: str, exchange: str) -> None:
    user.may()
    connection = user.connect()
    ask = spec.Queue.Declare(queue=queue, passive=True)
    connection.call(1, ask, spec.Queue.DeclareOk)
    ask = spec.Exchange.Declare(exchange=exchange, passive=True)
    connection.call(1, ask, spec.Exchange.DeclareOk)


def test_binding_needs_to_write_the_queue_and_read_the_exchange(
    user: User, queue: str, exchange: str
) -> None:
    bind = spec.Queue.Bind(queue=queue, exchange=exchange, routing_key="key")
    unbind = spec.Queue.Unbind(queue=queue, exchange=exchange, routing_key="key")
    user.may(configure=".*", read=".*")
    refused(user, "queue", queue, bind)
    refused(user, "queue", queue, unbind)
    user.may(configure=".*", write=".*")
    refused(user, "exchange", exchange, bind)
    refused(user, "exchange", exchange, unbind)
    user.may(write=f"^{queue}$", read=f"^{exchange}$")
    connection = user.connect()
    connection.call(1, bind, spec.Queue.BindOk)
    connection.call(1, unbind, spec.Queue.UnbindOk)


def test_binding_exchanges_needs_to_write_one_and_read_the_other(user: User, exchange: str) -> None:
    bind = spec.Exchange.Bind(destination=exchange, source="amq.fanout", routing_key="key")
    user.may(read=".*")
    refused(user, "exchange", exchange, bind)
    user.may(write=".*")
    refused(user, "exchange", "amq.fanout", bind)
    user.may(write=f"^{exchange}$", read="^amq.fanout$")
    user.connect().call(1, bind, spec.Exchange.BindOk)


@pytest.mark.parametrize("method", ["consume", "get", "purge"])
def test_taking_messages_needs_read(user: User, queue: str, method: str) -> None:
    user.may(configure=".*", write=".*")
    methods = {
        "consume": spec.Basic.Consume(queue=queue),
        "get": spec.Basic.Get(queue=queue),
        "purge": spec.Queue.Purge(queue=queue),
    }
    refused(user, "queue", queue, methods[method])


def test_publishing_needs_to_write_the_exchange(user: User, exchange: str) -> None:
    user.may(configure=".*", read=".*")
    connection = user.connect()
    connection.publish(1, exchange, "key", b"")
    expect_refusal(connection, user, "exchange", exchange)
    user.may(write=f"^{exchange}$")
    connection = user.connect()
    connection.publish(1, exchange, "key", b"")
    connection.call(1, spec.Basic.Qos(), spec.Basic.QosOk)


def test_the_default_exchange_goes_by_the_name_amq_default(user: User, queue: str) -> None:
    user.may(write="^nothing$")
    connection = user.connect()
    connection.publish(1, "", queue, b"")
    expect_refusal(connection, user, "exchange", "amq.default")
    user.may(write=r"^amq\.default$")
    connection = user.connect()
    connection.publish(1, "", queue, b"")
    connection.call(1, spec.Basic.Qos(), spec.Basic.QosOk)


def test_a_dead_letter_exchange_needs_write_and_the_queue_read(user: User) -> None:
    arguments = {"x-dead-letter-exchange": "graves"}
    declare = spec.Queue.Declare(queue="mine", exclusive=True, arguments=arguments)
    user.may(configure=".*", read=".*")
    refused(user, "exchange", "graves", declare)
    user.may(configure=".*", write=".*")
    refused(user, "queue", "mine", declare)


def test_an_alternate_exchange_needs_write_and_the_exchange_read(user: User) -> None:
    arguments = {"alternate-exchange": "other"}
    declare = spec.Exchange.Declare(exchange="mine", type="direct", arguments=arguments)
    user.may(configure=".*", read=".*")
    refused(user, "exchange", "other", declare)
    user.may(configure=".*", write=".*")
    refused(user, "exchange", "mine", declare)


def test_a_pattern_may_match_anywhere_in_the_name(user: User) -> None:
    user.may(configure="ine")
    connection = user.connect()
    declare = spec.Queue.Declare(queue="mine", exclusive=True)
    connection.call(1, declare, spec.Queue.DeclareOk)


def test_an_empty_pattern_permits_nothing(user: User) -> None:
    user.may(configure="")
    refused(user, "queue", "mine", spec.Queue.Declare(queue="mine", exclusive=True))


def test_a_server_made_name_is_checked_too(user: User) -> None:
    user.may(configure="^mine$")
    connection = user.connect()
    connection.send_method(1, spec.Queue.Declare(queue="", exclusive=True))
    expect_channel_close(connection, 403, "ACCESS_REFUSED - ")
    user.may(configure=r"^amq\.gen-")
    connection = user.connect()
    declare = spec.Queue.Declare(queue="", exclusive=True)
    connection.call(1, declare, spec.Queue.DeclareOk)


def test_permission_is_asked_before_existence(user: User) -> None:
    user.may()
    refused(user, "queue", "no-such-queue", spec.Basic.Get(queue="no-such-queue"))
    connection = user.connect()
    connection.publish(1, "no-such-exchange", "key", b"")
    expect_refusal(connection, user, "exchange", "no-such-exchange")


def test_permissions_of_another_vhost_do_not_count(broker: BrokerUnderTest, user: User) -> None:
    vhost = broker.name("vhost")
    broker.administration.add_vhost(vhost)
    broker.administration.set_permissions(user.name, vhost, ".*", ".*", ".*")
    user.may()
    refused(user, "queue", "mine", spec.Queue.Declare(queue="mine", exclusive=True))
    elsewhere = broker.raw().open(user.name, "secret", vhost)
    elsewhere.open_channel(1)
    declare = spec.Queue.Declare(queue="mine", exclusive=True)
    elsewhere.call(1, declare, spec.Queue.DeclareOk)
    elsewhere.socket.close()
    broker.administration.delete_vhost(vhost)


def test_names_of_different_vhosts_do_not_meet(broker: BrokerUnderTest) -> None:
    vhost, queue = broker.name("vhost"), broker.name()
    administration = broker.administration
    administration.add_vhost(vhost)
    administration.set_permissions(broker.user, vhost, ".*", ".*", ".*")
    here, there = broker.channel(), broker.connect(vhost=vhost).channel()
    for channel in (here, there):
        channel.queue_declare(queue, exclusive=True)
        channel.confirm_delivery()
    here.basic_publish("", queue, b"here")
    assert there.basic_get(queue)[0] is None
    there.connection.close()
    administration.delete_vhost(vhost)


def test_deleting_a_vhost_ends_its_connections(broker: BrokerUnderTest) -> None:
    vhost = broker.name("vhost")
    administration = broker.administration
    administration.add_vhost(vhost)
    administration.set_permissions(broker.user, vhost, ".*", ".*", ".*")
    connection = broker.raw_open(vhost=vhost)
    administration.delete_vhost(vhost)
    close = connection.expect(spec.Connection.Close, 0)
    assert isinstance(close, spec.Connection.Close)
    assert close.reply_code == 320
