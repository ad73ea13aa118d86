"""The blocking skin against a real broker over real sockets."""

import socket
import threading
from collections.abc import Iterator

import pytest

from penstock import Broker
from penstock.client import blocking
from penstock.client.blocking import BlockingConnection
from penstock.client.blocking_channel import BlockingChannel
from penstock.client.calls import (
    bind_exchange,
    bind_queue,
    cancel,
    commit,
    consume,
    declare_exchange,
    declare_queue,
    delete_exchange,
    delete_queue,
    limit_prefetch,
    purge_queue,
    recover,
    rollback,
    select_transactions,
    unbind_exchange,
    unbind_queue,
)
from penstock.client.errors import (
    ChannelClosedError,
    ClientError,
    ConnectFailed,
    ConnectionClosedError,
    ConsumerCancelledError,
    LoginRefused,
    PublishInDoubt,
    PublishRefused,
    PublishReturned,
    TimedOut,
    TransactionAborted,
    TransactionUnknown,
)
from penstock.wire.amqp091.content import BasicProperties


@pytest.fixture
def connection(broker: Broker) -> Iterator[BlockingConnection]:
    with blocking.connect(broker.url) as connected:
        yield connected


@pytest.fixture
def channel(connection: BlockingConnection) -> BlockingChannel:
    return connection.channel()


@pytest.fixture
def queue(channel: BlockingChannel) -> str:
    return channel.call(declare_queue(exclusive=True)).queue


def test_a_message_goes_in_and_comes_out(channel: BlockingChannel, queue: str) -> None:
    channel.publish("", queue, b"hello", BasicProperties(message_id="one"))
    message = channel.get(queue)
    assert message is not None
    assert (message.body, message.routing_key) == (b"hello", queue)
    assert message.properties.message_id == "one"
    channel.ack(message)
    assert channel.get(queue) is None


def test_every_verb_of_topology_is_answered(channel: BlockingChannel) -> None:
    channel.call(declare_exchange("source", "topic"))
    channel.call(declare_exchange("target", "fanout"))
    channel.call(bind_exchange("target", "source", "a.*"))
    channel.call(declare_queue("sink"))
    channel.call(bind_queue("sink", "target"))
    channel.publish("source", "a.b", b"through two exchanges")
    assert channel.call(purge_queue("sink")).message_count == 1
    channel.call(unbind_exchange("target", "source", "a.*"))
    channel.publish("source", "a.b", b"nowhere")
    channel.call(unbind_queue("sink", "target"))
    assert channel.call(delete_queue("sink")).message_count == 0
    channel.call(delete_exchange("target"))
    channel.call(delete_exchange("source"))


def test_transactions_hold_publishes_back_until_the_commit(
    channel: BlockingChannel, queue: str
) -> None:
    channel.call(select_transactions())
    channel.publish("", queue, b"undone")
    channel.call(rollback())
    channel.publish("", queue, b"done")
    channel.call(commit())
    message = channel.get(queue, no_ack=True)
    assert message is not None
    assert message.body == b"done"


def turn_for_ever(connection: BlockingConnection) -> None:
    while True:
        connection.turn(1)


def test_a_transaction_that_is_lost_with_its_connection_is_aborted(
    broker: Broker, connection: BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    channel.call(select_transactions())
    channel.publish("", queue, b"undone")
    broker.drop_connections()
    with pytest.raises(ConnectionClosedError):
        turn_for_ever(connection)
    with pytest.raises(TransactionAborted):
        channel.call(commit())
    with pytest.raises(ConnectionClosedError):
        channel.call(commit())


def test_a_commit_without_an_answer_is_unknown(
    broker: Broker, channel: BlockingChannel, queue: str
) -> None:
    channel.call(select_transactions())
    channel.publish("", queue, b"perhaps")
    broker.drop_connections()
    with pytest.raises(TransactionUnknown):
        channel.call(commit())
    with pytest.raises(ConnectionClosedError):
        channel.call(commit())


def test_a_batch_is_confirmed_and_consumed_in_order(channel: BlockingChannel, queue: str) -> None:
    bodies = [b"%d" % index for index in range(3000)]
    channel.select_confirms(window=100)
    channel.publish_batch("", [(queue, body) for body in bodies])
    channel.wait_for_confirms()
    assert channel.outstanding == 0
    channel.call(limit_prefetch(500))
    channel.call(consume(queue))
    received = []
    for message in channel.messages(idle=10):
        received.append(message.body)
        channel.ack(message)
        if len(received) == len(bodies):
            break
    assert received == bodies
    assert channel.receive_batch(0) == []


def test_messages_end_when_none_come(channel: BlockingChannel, queue: str) -> None:
    channel.publish("", queue, b"only")
    channel.call(consume(queue, no_ack=True))
    assert [message.body for message in channel.messages(idle=0.2)] == [b"only"]


def test_a_body_of_many_frames_survives_both_ways(channel: BlockingChannel, queue: str) -> None:
    body = bytes(range(256)) * 8000
    channel.publish("", queue, body)
    message = channel.get(queue, no_ack=True)
    assert message is not None
    assert message.body == body


def test_what_is_rejected_or_recovered_comes_again_flagged(
    channel: BlockingChannel, queue: str
) -> None:
    channel.publish("", queue, b"again")
    for settle in (channel.reject, channel.nack):
        message = channel.get(queue)
        assert message is not None
        settle(message)
    message = channel.get(queue)
    assert message is not None
    assert message.redelivered
    channel.call(recover())
    message = channel.get(queue)
    assert message is not None
    channel.reject(message, requeue=False)
    assert channel.get(queue) is None


def test_a_cancelled_consumer_gets_no_more(channel: BlockingChannel, queue: str) -> None:
    tag = channel.call(consume(queue, no_ack=True)).consumer_tag
    channel.call(cancel(tag))
    channel.publish("", queue, b"stays")
    assert channel.receive_batch(0.1) == []
    assert channel.get(queue, no_ack=True) is not None


def test_the_broker_cancels_a_consumer_whose_queue_is_deleted(
    connection: BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    channel.call(consume(queue))
    connection.channel().call(delete_queue(queue))
    with pytest.raises(ConsumerCancelledError):
        channel.receive_batch(10)


def test_a_closed_channel_says_why_and_the_connection_goes_on(
    connection: BlockingConnection, channel: BlockingChannel
) -> None:
    with pytest.raises(ChannelClosedError) as caught:
        channel.call(declare_queue("nobody made this", passive=True))
    assert caught.value.code == 404
    assert "nobody made this" in caught.value.text
    with pytest.raises(ChannelClosedError):
        channel.publish("", "anything", b"")
    channel.close()
    assert connection.channel().call(declare_queue(exclusive=True)).queue


def test_a_mandatory_message_without_a_queue_comes_back(
    connection: BlockingConnection, channel: BlockingChannel
) -> None:
    channel.select_confirms()
    channel.publish("", "no such queue", b"body", mandatory=True)
    with pytest.raises(PublishReturned) as caught:
        channel.wait_for_confirms()
    assert caught.value.code == 312
    channel.publish("", "no such queue", b"body", mandatory=True)
    while not (returned := channel.take_returned()):
        connection.turn(1)
    assert returned[0].body == b"body"
    channel.wait_for_confirms()


def test_refused_publishes_are_counted(
    broker: Broker, channel: BlockingChannel, queue: str
) -> None:
    channel.select_confirms()
    broker.refuse_publishes(2)
    for _ in range(3):
        channel.publish("", queue, b"")
    with pytest.raises(PublishRefused) as caught:
        channel.wait_for_confirms()
    assert caught.value.count == 2
    channel.wait_for_confirms()


def test_kept_answers_give_back_their_notes(channel: BlockingChannel, queue: str) -> None:
    channel.select_confirms(keep_answers=True)
    channel.publish("", queue, b"")
    assert channel.unanswered_tags() in ([1], [])
    channel.wait_for_confirms()
    assert [list(part.tags) for answer in channel.take_confirmed() for part in answer.settled] == [
        [1]
    ]


def test_a_lost_connection_leaves_publishes_in_doubt(
    broker: Broker, channel: BlockingChannel, queue: str
) -> None:
    channel.select_confirms()
    broker.delay_confirms(60)
    channel.publish("", queue, b"perhaps")
    # The broker has read it once a later call is answered; only then is the line cut.
    channel.call(limit_prefetch(1))
    broker.drop_connections()
    with pytest.raises(PublishInDoubt):
        channel.wait_for_confirms()
    assert channel.unanswered_tags() == [1]
    with pytest.raises(ConnectionClosedError):
        channel.wait_for_confirms()


def test_a_verb_gives_up_when_its_time_is_over(broker: Broker) -> None:
    with blocking.connect(broker.url, timeout=0.1) as connection:
        channel = connection.channel()
        queue = channel.call(declare_queue(exclusive=True), timeout=10).queue
        channel.select_confirms()
        broker.delay_confirms(60)
        channel.publish("", queue, b"")
        with pytest.raises(TimedOut):
            channel.wait_for_confirms()
        broker.delay_confirms(0)
        broker.drop_connections()


def test_a_blocked_connection_shows_the_reason(
    broker: Broker, connection: BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    broker.block_publishers("low on memory")
    channel.publish("", queue, b"")
    while connection.blocked is None:
        connection.turn(1)
    assert connection.blocked == "low on memory"
    broker.unblock_publishers()
    while connection.blocked is not None:
        connection.turn(1)


def test_a_broker_that_closes_the_connection_says_why(
    broker: Broker, connection: BlockingConnection, channel: BlockingChannel
) -> None:
    broker.close_connections("maintenance")
    with pytest.raises(ConnectionClosedError) as caught:
        channel.receive_batch(10)
    assert caught.value.code == 320
    assert "maintenance" in caught.value.text
    with pytest.raises(ConnectionClosedError):
        connection.channel()
    with pytest.raises(ConnectionClosedError):
        connection.turn()


def test_the_first_address_that_answers_is_taken(broker: Broker, unused_port: int) -> None:
    dead = f"amqp://127.0.0.1:{unused_port}"
    with blocking.connect([dead, broker.url]) as connection:
        assert connection.address.port == broker.port
        assert connection.server_properties
        assert connection.frame_max > 0


def test_no_address_that_answers_names_all_that_were_tried(unused_port: int) -> None:
    with pytest.raises(ConnectFailed) as caught:
        blocking.connect([f"amqp://127.0.0.1:{unused_port}", f"amqp://localhost:{unused_port}"])
    assert len(caught.value.attempts) == 2
    assert str(unused_port) in str(caught.value)


def test_no_address_at_all_is_refused() -> None:
    with pytest.raises(ClientError, match="no address"):
        blocking.connect([])


@pytest.mark.parametrize(
    ("user", "password", "vhost"), [("guest", "wrong", "/"), ("guest", "guest", "unknown")]
)
def test_a_refused_login_is_told_apart(
    broker: Broker, user: str, password: str, vhost: str
) -> None:
    with pytest.raises(LoginRefused):
        blocking.connect(broker.url_for(user, password, vhost))


def test_a_server_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(TimedOut):
            blocking.connect(f"amqp://127.0.0.1:{port}?connection_timeout=100")


def test_a_large_batch_does_not_wait_for_a_broker_that_wants_to_be_read(
    broker: Broker, channel: BlockingChannel, queue: str
) -> None:
    """Deliveries flow back on the line that the batch is written to: both must move."""
    channel.call(consume(queue, no_ack=True))
    body = bytes(100_000)
    channel.publish_batch("", [(queue, body)] * 400)
    received = 0
    while received < 400:
        received += len(channel.receive_batch(20))
    assert received == 400


def test_two_threads_with_a_connection_each_do_not_meet(broker: Broker) -> None:
    found: list[bytes] = []

    def one(body: bytes) -> None:
        with blocking.connect(broker.url) as connection, connection.channel() as channel:
            queue = channel.call(declare_queue(exclusive=True)).queue
            channel.publish("", queue, body)
            message = channel.get(queue, no_ack=True)
            assert message is not None
            found.append(message.body)

    threads = [threading.Thread(target=one, args=(b"%d" % index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [b"0", b"1"]
