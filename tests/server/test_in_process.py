"""`from penstock import Broker`, with a real client."""

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from penstock import Broker
from penstock.broker.errors import NotFound
from penstock.broker.topology import (
    CloseConnection,
    DeclareQueue,
    SetGlobalParameter,
    SetOperatorPolicy,
    SetParameter,
    SetTopicPermissions,
    SetUserLimits,
)
from tests.server.opened import pika_connection
from tests.server.raw_client import wait_for

DELAY_SECONDS = 0.2


def connect(broker: Broker) -> pika.BlockingConnection:
    return pika_connection(broker.url)


def hear(connection: pika.BlockingConnection, condition: Callable[[], object]) -> None:
    """Let a client read until something has happened, or until it is told that all is over."""
    wait_for(lambda: connection.process_data_events(0.05) or condition())


def never() -> bool:
    return False


def test_it_takes_a_free_port_and_a_client_can_use_it() -> None:
    with Broker() as one, Broker() as other:
        assert one.port != other.port
        channel = connect(one).channel()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"hello")
        wait_for(lambda: one.queue_depths() == {"q": 1})
        assert other.queue_depths() == {}


def test_stopping_closes_connections_and_a_second_stop_does_nothing() -> None:
    broker = Broker().start()
    connection = connect(broker)
    broker.stop()
    broker.stop()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="shutdown"):
        hear(connection, never)


def test_it_can_be_started_again_after_a_stop() -> None:
    broker = Broker()
    for _ in range(2):
        with broker:
            connect(broker).close()


def test_many_brokers_start_and_stop_without_leaving_threads() -> None:
    before = threading.active_count()
    for _ in range(5):
        with Broker() as broker:
            connect(broker).close()
    wait_for(lambda: threading.active_count() <= before)


def test_what_runs_on_the_broker_is_refused_when_it_does_not() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        Broker().queue_depths()


def test_dropped_connections_see_no_close_frame(penstock_broker: Broker) -> None:
    connection = connect(penstock_broker)
    assert penstock_broker.drop_connections() == 1
    with pytest.raises(pika.exceptions.StreamLostError):
        hear(connection, never)


def test_closed_connections_hear_the_reason(penstock_broker: Broker) -> None:
    connection = connect(penstock_broker)
    penstock_broker.close_connections("maintenance")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="maintenance") as error:
        hear(connection, never)
    assert error.value.reply_code == 320


def test_confirms_can_be_delayed(penstock_broker: Broker) -> None:
    channel = connect(penstock_broker).channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    penstock_broker.delay_confirms(DELAY_SECONDS)
    assert seconds_to_confirm(channel) >= DELAY_SECONDS
    penstock_broker.delay_confirms(0)
    # With the delay none would be quicker, however long one waits.
    wait_for(lambda: seconds_to_confirm(channel) < DELAY_SECONDS)


def seconds_to_confirm(channel: BlockingChannel) -> float:
    begun = time.monotonic()
    channel.basic_publish("", "q", b"")
    return time.monotonic() - begun


def test_publishes_can_be_refused(penstock_broker: Broker) -> None:
    channel = connect(penstock_broker).channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    penstock_broker.refuse_publishes(2)
    for _ in range(2):
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", "q", b"no")
    channel.basic_publish("", "q", b"yes")
    assert penstock_broker.queue_depths() == {"q": 1}


def test_publishes_can_be_refused_late(penstock_broker: Broker) -> None:
    channel = connect(penstock_broker).channel()
    channel.confirm_delivery()
    channel.queue_declare("q")
    penstock_broker.delay_confirms(DELAY_SECONDS)
    penstock_broker.refuse_publishes(1)
    begun = time.monotonic()
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", "q", b"no")
    assert time.monotonic() - begun >= DELAY_SECONDS
    channel.basic_publish("", "q", b"yes")
    assert penstock_broker.queue_depths() == {"q": 1}


def test_a_blocked_publisher_is_told_and_not_read_and_goes_on_later(
    penstock_broker: Broker,
) -> None:
    heard: list[str] = []
    connection = connect(penstock_broker)
    connection.add_on_connection_blocked_callback(
        lambda _, frame: heard.append(frame.method.reason)
    )
    connection.add_on_connection_unblocked_callback(lambda *_: heard.append("unblocked"))
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"1")
    wait_for(lambda: penstock_broker.queue_depths() == {"q": 1})
    penstock_broker.block_publishers()
    channel.basic_publish("", "q", b"2")
    hear(connection, lambda: heard)
    assert heard == ["low on memory"]
    assert penstock_broker.queue_depths() == {"q": 1}
    penstock_broker.unblock_publishers()
    wait_for(lambda: penstock_broker.queue_depths() == {"q": 2})
    hear(connection, lambda: len(heard) == 2)
    assert heard == ["low on memory", "unblocked"]


def test_consumers_go_on_while_publishers_are_blocked(penstock_broker: Broker) -> None:
    publisher = connect(penstock_broker).channel()
    publisher.queue_declare("q")
    publisher.basic_publish("", "q", b"1")
    wait_for(lambda: penstock_broker.queue_depths() == {"q": 1})
    penstock_broker.block_publishers()
    consumer = connect(penstock_broker).channel()
    method, _, body = consumer.basic_get("q", auto_ack=True)
    assert method is not None
    assert body == b"1"


def test_users_and_permissions_can_be_set(penstock_broker: Broker) -> None:
    penstock_broker.add_vhost("tests")
    penstock_broker.add_user("alice", "secret")
    penstock_broker.set_permissions("alice", "tests", configure="^alice-", write=".*", read=".*")
    url = penstock_broker.url_for("alice", "secret", "tests")
    channel = pika_connection(url).channel()
    channel.queue_declare("alice-q")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
        channel.queue_declare("bob-q")


def test_the_port_can_be_chosen_and_a_taken_one_is_an_error(penstock_broker: Broker) -> None:
    with pytest.raises(OSError, match="in use"):
        Broker(port=penstock_broker.port).start()


def test_a_start_that_fails_gives_the_data_directory_back(
    penstock_broker: Broker, tmp_path: Path
) -> None:
    with pytest.raises(OSError, match="in use"):
        Broker(port=penstock_broker.port, data=tmp_path / "data").start()
    with Broker(data=tmp_path / "data") as broker:
        connect(broker).close()


def test_a_change_is_durable_when_it_returns(tmp_path: Path) -> None:
    """Copied at once, the data directory of a running broker has it."""
    with Broker(data=tmp_path / "data") as broker:
        broker.add_vhost("v", "of orders", ("a",), "quorum")
        broker.add_user("ann", "secret", ("management",))
        broker.apply(SetUserLimits("ann", 3, 4))
        broker.set_permissions("ann", "v")
        broker.apply(SetTopicPermissions("ann", "v", "amq.topic", "^a", "b"))
        broker.apply(SetGlobalParameter("colour", ["red"]))
        broker.apply(SetOperatorPolicy("o", "^q", {"max-length": 3}), "v")
        broker.apply(SetParameter("federation-upstream", "far", {"uri": "amqp://"}), "v")
        assert broker._call(lambda node, _: node.is_all_durable())
        expected = broker.export_definitions()
        shutil.copytree(tmp_path / "data", tmp_path / "copy")
    with Broker(data=tmp_path / "copy") as copy:
        assert copy.export_definitions() == expected


def test_a_connection_is_closed_by_its_number(penstock_broker: Broker) -> None:
    connection = connect(penstock_broker)
    with pytest.raises(NotFound, match="no connection 99"):
        penstock_broker.apply(CloseConnection(99, "unknown"))
    penstock_broker.apply(CloseConnection(1, "maintenance"))
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="maintenance"):
        hear(connection, never)


def test_a_change_of_a_virtual_host_is_made_in_the_default_one_unless_it_is_named(
    penstock_broker: Broker,
) -> None:
    penstock_broker.apply(DeclareQueue("here"))
    penstock_broker.add_vhost("v")
    penstock_broker.apply(DeclareQueue("there"), "v")
    assert set(penstock_broker.queue_depths()) == {"here"}
    with pytest.raises(NotFound, match="no vhost 'nowhere'"):
        penstock_broker.apply(DeclareQueue("q"), "nowhere")
