"""kombu over py-amqp: what Celery stands on, used directly."""

# mypy: disable-error-code="no-untyped-call"
# kombu says it is typed, and most of it is not.

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from amqp.exceptions import (  # type: ignore[import-untyped]
    AccessRefused,
    ConsumerCancelled,
    MessageNacked,
    NotAllowed,
    NotFound,
    PreconditionFailed,
)
from kombu.connection import Connection
from kombu.entity import Exchange, Queue
from kombu.message import Message
from kombu.messaging import Consumer, Producer

# Long enough for a loaded core; every wait ends as soon as what it waits for is there.
PATIENCE_SECONDS = 10.0

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
def connection(broker_url: str) -> Iterator[Connection]:
    with Connection(f"{broker_url}//", transport_options={"confirm_publish": True}) as opened:
        yield opened


def server_named_queue(connection: Connection, **arguments: object) -> Queue:
    queue = Queue("", exclusive=True, queue_arguments=arguments)(connection.default_channel)
    queue.queue_declare()
    return queue


def test_kombu_produces_and_consumes_with_acks_and_prefetch(
    connection: Connection, unique: Callable[[str], str]
) -> None:
    exchange = Exchange(unique("topic"), "topic", durable=False, auto_delete=True)
    queue = Queue(unique("jobs"), exchange, routing_key="job.*", exclusive=True)
    received: list[object] = []

    def take(body: object, message: Message) -> None:
        received.append(body)
        message.ack()

    producer = Producer(connection, exchange, serializer="json")
    with Consumer(connection, queue, callbacks=[take], prefetch_count=1):
        for number in range(3):
            producer.publish({"number": number}, routing_key="job.new", declare=[queue])
        while len(received) < 3:
            connection.drain_events(timeout=PATIENCE_SECONDS)
    assert received == [{"number": 0}, {"number": 1}, {"number": 2}]


def test_kombu_requeues_rejects_and_finds_the_dead_letter(connection: Connection) -> None:
    graveyard = server_named_queue(connection)
    queue = server_named_queue(
        connection,
        **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": graveyard.name},
    )
    Producer(connection).publish("unwanted", routing_key=queue.name)
    first = queue.get()
    assert not first.delivery_info["redelivered"]
    first.requeue()
    second = queue.get()
    assert second.delivery_info["redelivered"]
    second.reject()
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while (dead := graveyard.get(no_ack=True)) is None:
        assert time.monotonic() < give_up_at
    (death,) = dead.headers["x-death"]
    assert (death["reason"], death["queue"], death["count"]) == ("rejected", queue.name, 1)
    assert (queue.get(), queue.purge()) == (None, 0)


def test_kombu_hears_of_nacks_and_of_returned_messages(connection: Connection) -> None:
    full = server_named_queue(connection, **{"x-max-length": 1, "x-overflow": "reject-publish"})
    returned: list[tuple[int, str]] = []
    producer = Producer(
        connection,
        on_return=lambda error, _exchange, key, _message: returned.append((error.reply_code, key)),
    )
    producer.publish("fits", routing_key=full.name)
    with pytest.raises(MessageNacked):
        producer.publish("does not", routing_key=full.name)
    # The return comes before the confirm, so the publish that waits for one has seen the other.
    producer.publish("lost", routing_key="no-such-queue", mandatory=True)
    assert returned == [(312, "no-such-queue")]


def test_py_amqp_commits_and_rolls_back(broker_url: str) -> None:
    with Connection(f"{broker_url}//") as connection:
        queue = server_named_queue(connection)
        channel = connection.default_channel
        channel.tx_select()
        Producer(channel).publish("regretted", routing_key=queue.name)
        channel.tx_rollback()
        Producer(channel).publish("meant", routing_key=queue.name)
        channel.tx_commit()
        assert queue.get(no_ack=True).payload == "meant"
        assert queue.get() is None


def test_py_amqp_raises_cancelled_when_its_queue_is_deleted(
    connection: Connection, unique: Callable[[str], str]
) -> None:
    queue = Queue(unique("doomed"), durable=False)(connection.default_channel)
    queue.declare()
    consumer = Consumer(connection.channel(), queue, callbacks=[print])
    consumer.consume()

    def delete_and_drain() -> None:
        # The cancel may come before delete-ok, and is then raised by the delete.
        queue.delete()
        connection.drain_events(timeout=PATIENCE_SECONDS)

    with pytest.raises(ConsumerCancelled):
        delete_and_drain()


def test_a_channel_error_leaves_kombu_its_connection(
    connection: Connection, unique: Callable[[str], str]
) -> None:
    with pytest.raises(NotFound):
        Queue(unique("missing"))(connection.channel()).queue_declare(passive=True)
    name = unique("classic")
    Queue(name, exclusive=True)(connection.channel()).queue_declare()
    with pytest.raises(PreconditionFailed):
        Queue(name, exclusive=True, max_length=1)(connection.channel()).queue_declare()
    assert server_named_queue(connection).name


def test_every_field_type_of_py_amqp_comes_back_as_it_went(connection: Connection) -> None:
    queue = server_named_queue(connection)
    headers = {
        "text": "grün",
        "truth": True,
        "lie": False,
        "small": -7,
        "large": 2**40,
        "double": 0.1,
        "money": Decimal("12.345"),
        "moment": datetime(2024, 2, 29, 12, 30, 1, tzinfo=UTC).replace(tzinfo=None),
        "nothing": None,
        "table": {"inner": {"deep": [1, "two", {"three": 3.5}]}},
        "list": [False, None, [Decimal("0.5")], {}],
    }
    body = b"\x00\xff" * 600_000
    Producer(connection).publish(
        body, routing_key=queue.name, headers=headers, priority=4, correlation_id="c", expiration=60
    )
    message = queue.get(no_ack=True)
    assert message.headers == headers
    assert message.body == body
    assert message.properties["priority"] == 4
    assert message.properties["expiration"] == "60000"


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_py_amqp_logs_in_by_either_mechanism(broker_url: str, mechanism: str) -> None:
    with Connection(f"{broker_url}//", login_method=mechanism) as connection:
        assert connection.connect().connected
    wrong = broker_url.replace("guest:guest", "guest:wrong")
    refused = Connection(f"{wrong}//", login_method=mechanism)
    with refused, pytest.raises(AccessRefused, match=rf"\b{mechanism}\b"):
        refused.connect()


def test_kombu_takes_the_vhost_from_its_url(broker_url: str) -> None:
    connection = Connection(f"{broker_url}/no-such-vhost")
    with connection, pytest.raises(NotAllowed, match="no-such-vhost"):
        connection.connect()


def test_kombus_heartbeat_checks_pass_on_an_idle_connection(broker_url: str) -> None:
    with Connection(f"{broker_url}//", heartbeat=1) as connection:
        connection.connect()
        idle_until = time.monotonic() + 3.2  # idle over three intervals: the point of this test
        while time.monotonic() < idle_until:
            connection.heartbeat_check(rate=2)
            # py-amqp's wait begins anew with each heartbeat of the server, which come twice an
            # interval; a wait as long as that would never end, and the client fall silent.
            with pytest.raises(TimeoutError):
                connection.drain_events(timeout=0.2)
        assert server_named_queue(connection).name


def test_kombu_publishes_again_after_a_drop(
    connection: Connection,
    unique: Callable[[str], str],
    drop_connections: Callable[[], object],
) -> None:
    queue = Queue(unique("survivor"), durable=True, expires=60)
    producer = Producer(connection)
    producer.publish("before", routing_key=queue.name, declare=[queue])
    drop_connections()
    producer.publish(
        "after",
        routing_key=queue.name,
        retry=True,
        retry_policy={"max_retries": 50, "interval_start": 0.05, "interval_step": 0},
    )
    bound = queue(connection.default_channel)
    assert [bound.get(no_ack=True).payload for _ in range(2)] == ["before", "after"]
    bound.delete()
