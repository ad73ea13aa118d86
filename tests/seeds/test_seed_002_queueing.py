"""Seed 002, "The AMQP Server Stack" and "Message Broker Queueing Architecture", by sentences.

Each test quotes a sentence and its line. Sessions, links and windows (lines 23 to 63) are AMQP 1.0's:
test_seed_002_sessions.py and
test_seed_002_windows.py. Where we do otherwise, the test's name and docstring say what, and
docs/design/queueing.md says why.
"""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from penstock import Broker
from penstock.client.events import Opened
from penstock.formats.amqp091_frames import METHOD_FRAME, encode_frame
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.states import RECEIVED, ConnectionState
from penstock.wire.outgoing import DELIVERY_BYTES_MAX
from tests.broker.queues.doubles import (
    RecordingConsumer,
    dispatch,
    make_queue,
    put,
    ready_bodies,
)
from tests.dialects.protocols import amqp091_of
from tests.seeds.doubles import NOW, House, Peer

PATIENCE_SECONDS = 5.0
THREADLESS_ROOMS = ("world", "wire", "broker", "dialects", "node")
SOURCE = Path(__file__).resolve().parents[2] / "src" / "penstock"


@pytest.fixture
def house() -> House:
    return House()


def declared(peer: Peer, queue: str = "q") -> Peer:
    peer.call(m.QueueDeclare(queue))
    return peer


def consuming(house: House, queue: str = "q", *, prefetch: int = 0) -> Peer:
    peer = house.client()
    if prefetch:
        peer.call(m.BasicQos(0, prefetch, False))
    peer.call(m.BasicConsume(queue, "tag"))
    return peer


# The server stack.


def test_the_server_starts_up_a_tcp_listener() -> None:
    """Line 3: "The server starts up a TCP Listener thread."

    In-process it is a thread of its own; `penstock serve` gives it the main one.
    """
    with Broker() as broker:
        assert "penstock-broker" in {thread.name for thread in threading.enumerate()}
        with socket.create_connection((broker.host, broker.port), PATIENCE_SECONDS) as client:
            client.sendall(b"AMQP\x00\x00\x09\x01")
            assert client.recv(1) == b"\x01", "a method frame: connection.start"


def test_each_accepted_socket_gets_an_object_of_its_own() -> None:
    """Line 3: "Each time a socket is accepted, we create an instance of the AMQP TcpSocket
    abstraction."
    """
    with Broker() as broker:
        clients = [
            socket.create_connection((broker.host, broker.port), PATIENCE_SECONDS) for _ in range(3)
        ]
        for client in clients:
            client.sendall(b"AMQP\x00\x00\x09\x01")
            client.recv(1)
        assert broker.connection_count == 3
        for client in clients:
            client.close()


def test_each_connection_is_associated_with_a_state_machine_of_its_own(house: House) -> None:
    """Line 5: "Each active TCP connection is associated with an AmqpConnection state machine"."""
    opened, silent = house.client(), Peer(house)
    states = [amqp091_of(peer.connection).wire.state for peer in (opened, silent)]
    assert states == [ConnectionState.OPEN, ConnectionState.AWAITING_HEADER]


def test_each_frame_is_processed_via_the_state_machine(house: House) -> None:
    """Line 8: "Each frame is processed via the state machine". What the machine's table does not
    hold is refused, in every state.
    """
    peer = house.client()
    wire = amqp091_of(peer.connection).wire
    assert (wire.state, m.CONNECTION_START_OK) not in RECEIVED
    start_ok = m.ConnectionStartOk({}, "PLAIN", b"", "en_US")
    peer.connection.received(encode_frame(METHOD_FRAME, 0, start_ok.encode()), NOW)
    assert wire.state is ConnectionState.CLOSING


@pytest.mark.parametrize("piece", [1, 2, 7, 1000])
def test_frames_are_found_whatever_the_pieces_they_arrive_in(house: House, piece: int) -> None:
    """Line 7: "The AmqpConnection constantly receives data from the underlying socket in a loop, 1
    frame at a time." We scan whole reads; the reads may cut frames anywhere.
    """
    publisher = declared(house.client())
    publisher.publish("q", b"one", b"two")
    said = publisher.said()
    for start in range(0, len(said), piece):
        publisher.connection.received(said[start : start + piece], NOW)
    queue = house.node.state.vhost("/").queue("q")
    assert ready_bodies(queue) == [b"one", b"two"]


def test_connections_reference_one_container(house: House) -> None:
    """Lines 11 and 12: "The AmqpConnection references an IContainer, which is abstraction for the
    application. In this case, a message broker/queue."
    """
    first, second = house.client(), house.client()
    assert amqp091_of(first.connection).container is amqp091_of(second.connection).container
    assert amqp091_of(first.connection).container.state is house.node.state


def test_all_writes_are_buffered_until_the_end_of_the_tick(house: House) -> None:
    """Line 13: "All writes to the underlying socket are buffered in the application. Writes are
    enqueued in a ConcurrentQueue and flushed."
    """
    consumer = declared(house.client())
    consumer.call(m.BasicConsume("q", "tag"))
    consumer.publish("q", b"one", b"two", b"three")
    consumer.deliver_to_node()
    assert consumer.transport.writes == []
    house.node.flush(NOW)
    assert len(consumer.transport.writes) == 1, "everything leaves in one write"
    consumer.hear()
    assert consumer.bodies == [b"one", b"two", b"three"]


def test_a_connection_signals_once_however_much_it_has_to_write(house: House) -> None:
    """Lines 14 and 15: "A RegisteredWaitHandle is signaled on each Enqueue(). An atomic register
    ensures only a single thread is actively looping over the queue and writing the queued writes to
    the underlying socket." Our signal is a place on the flush
    list, taken once; the node's flush is the one loop.
    """
    peer = house.client()
    for _ in range(3):
        peer.connection.outgoing.push(b"\x08\x00\x00\x00\x00\x00\x00\xce")
    flush_list = house.node.container.flush_list
    assert flush_list == [peer.connection.outgoing]


def test_the_loop_over_writes_ends_when_none_are_left(house: House) -> None:
    """Line 17: "The worker thread returns when no more queued writes exist"."""
    peer = declared(house.client())
    assert not house.node.has_work()
    house.node.flush(NOW)
    assert peer.transport.writes == []


def test_receiving_goes_on_while_a_write_is_stuck(house: House) -> None:
    """Line 18: "The buffering of writes allows the system to continue receiving data while
    asynchronously writing."
    """
    stuck = declared(house.client())
    stuck.call(m.BasicConsume("q", "tag"))
    stuck.connection.outgoing.set_writable(False)
    stuck.publish("q", b"kept")
    house.settle()
    assert stuck.bodies == []
    assert house.node.state.vhost("/").queue("q").message_count == 1
    stuck.connection.outgoing.set_writable(True)
    house.settle()
    assert stuck.bodies == [b"kept"]


def test_what_takes_long_does_not_block_the_thread_that_handles_frames(house: House) -> None:
    """Line 19: "The thread handling a received frame must not block!" The one thing that takes
    long, checking a password, is asked for and answered later; others are served meanwhile.
    """
    waiting = house.connect()
    while not house.logins.waiting:
        waiting.deliver_to_node()
        house.node.flush(NOW)
        waiting.hear()
    assert not waiting.transport.is_reading
    house.peers.remove(waiting)
    held, house.logins.waiting = house.logins.waiting, []
    assert declared(house.client()).events
    house.logins.waiting = held
    house.peers.append(waiting)
    house.settle()
    assert any(isinstance(event, Opened) for event in waiting.events)


def test_an_answer_is_queued_and_not_written_by_who_handles_the_frame(house: House) -> None:
    """Line 20: "That means I/O operations should be queued." An answer waits in the buffer of its
    connection, and another connection's frames are handled before it is written.
    """
    asking, publishing = house.client(), house.client()
    heard = len(asking.events)
    asking.conversation.call(1, m.QueueDeclare("q"))
    asking.deliver_to_node()
    assert asking.connection.outgoing.size > 0
    assert asking.transport.writes == []
    publishing.publish("q", b"one")
    publishing.deliver_to_node()
    assert house.node.state.vhost("/").queue("q").message_count == 1
    assert asking.transport.writes == []
    house.settle()
    assert len(asking.events) == heard + 1


@pytest.mark.parametrize("room", THREADLESS_ROOMS)
def test_shared_state_needs_no_locks_because_one_thread_has_it_all(room: str) -> None:
    """Line 20: "And all shared state should be non-blocking, non-locking." Ours has no locks
    because it has no threads (docs/design/queueing.md).
    """
    files = list((SOURCE / room).rglob("*.py"))
    assert files
    for path in files:
        text = path.read_text("utf-8")
        assert "threading" not in text, path
        assert "async def" not in text, path


# The queueing architecture.


def test_many_producers_enqueue_and_nothing_is_lost_or_doubled(house: House) -> None:
    """Lines 67 and 72: "Each message queue is implemented a concurrent, lock-free, non-blocking
    queue.", "It supports multiple "producers" which enqueue new items."
    """
    producers = [declared(house.client()) for _ in range(4)]
    for number, producer in enumerate(producers):
        producer.publish("q", *[f"{number} {item}".encode() for item in range(25)])
    for producer in producers:
        producer.deliver_to_node()
    queue = house.node.state.vhost("/").queue("q")
    bodies = ready_bodies(queue)
    assert len(bodies) == len(set(bodies)) == 100


def test_what_producers_put_into_a_queue_its_consumers_take_out(house: House) -> None:
    """Line 72: "The "ConcurrentQueue" class implements a producer/consumer pattern." Neither needs
    the other: what was published before there was a consumer is kept for it.
    """
    producers = [declared(house.client()) for _ in range(2)]
    producers[0].publish("q", b"before")
    house.settle()
    consumer = consuming(house)
    producers[1].publish("q", b"after")
    house.settle()
    assert consumer.bodies == [b"before", b"after"]
    assert [producer.bodies for producer in producers] == [[], []]


def test_items_are_enqueued_at_the_tail() -> None:
    """Line 70: "The queue implementation is an unbounded linked list. Items are enqueued at the
    Tail."
    """
    queue, _ = make_queue()
    put(queue, *[str(number).encode() for number in range(5000)])
    assert queue.message_count == 5000
    first = queue.get(0)
    assert first is not None
    put(queue, b"last")
    assert first.message.body == b"0"
    queue.requeue([first], 0)
    assert [ready_bodies(queue)[0], queue.message_count] == [b"0", 5001]


def test_the_queue_is_bounded_where_it_was_declared_so() -> None:
    """Line 70 says unbounded; ours can be given a bound."""
    queue, owner = make_queue({"x-max-length": 2, "x-dead-letter-exchange": "dead"})
    put(queue, b"1", b"2", b"3")
    assert (ready_bodies(queue), owner.deaths) == ([b"2", b"3"], [(b"1", "maxlen")])


def test_consumers_are_registered_with_the_queue(house: House) -> None:
    """Line 73: "Consumers" are registered with the queue."""
    declared(house.client())
    queue = house.node.state.vhost("/").queue("q")
    consumer = consuming(house)
    assert queue.consumer_count == 1
    consumer.call(m.BasicCancel("tag"))
    assert queue.consumer_count == 0


def test_an_enqueue_signals_the_loop_and_does_not_run_it(house: House) -> None:
    """Line 75: "Consumers are notified of messages in an event loop. Whenever an item is enqueued
    a RegisteredWaitHandle is signaled to start a thread with a callback." Ours is signalled by the touched list and runs at the end
    of the tick.
    """
    peer = declared(house.client())
    peer.call(m.BasicConsume("q", "tag"))
    peer.publish("q", b"one", b"two")
    peer.deliver_to_node()
    queue = house.node.state.vhost("/").queue("q")
    assert house.node.state.touched == [queue], "once for two items"
    assert queue.message_count == 2
    house.node.flush(NOW)
    assert (queue.message_count, queue.unacked_count) == (0, 2)


def test_the_callback_never_runs_twice_at_once() -> None:
    """Line 77: "The callback method is protected from concurrent executions with an atomic flag."
    A queue that is signalled again while it dispatches is not on the list a second time.
    """
    queue, owner = make_queue()

    class Greedy(RecordingConsumer):
        deepest = 0
        depth = 0

        def can_take(self) -> bool:
            self.depth += 1
            self.deepest = max(self.deepest, self.depth)
            queue.touch()
            self.depth -= 1
            return len(self.taken) < 2

    consumer = Greedy()
    queue.add_consumer(consumer)
    put(queue, b"1", b"2", b"3")
    dispatch(owner)
    assert consumer.bodies == [b"1", b"2"]
    assert consumer.deepest == 1
    assert owner.touched.count(queue) <= 1


def test_each_consumer_is_offered_exactly_one_item_in_turn() -> None:
    """Line 78: "The event loop loops over each consumer and *synchronously* attempts delivery of
    exactly one item."
    """
    queue, owner = make_queue()
    consumers = [RecordingConsumer() for _ in range(3)]
    for consumer in consumers:
        queue.add_consumer(consumer)
    put(queue, *[str(number).encode() for number in range(7)])
    dispatch(owner)
    assert [consumer.bodies for consumer in consumers] == [
        [b"0", b"3", b"6"],
        [b"1", b"4"],
        [b"2", b"5"],
    ]


def test_whose_turn_it_is_is_remembered_between_ticks() -> None:
    """Line 78 again: the first consumer is not favoured by every new tick."""
    queue, owner = make_queue()
    first, second = RecordingConsumer(), RecordingConsumer()
    queue.add_consumer(first)
    queue.add_consumer(second)
    for number in range(4):
        put(queue, str(number).encode())
        dispatch(owner)
    assert (first.bodies, second.bodies) == ([b"0", b"2"], [b"1", b"3"])


def test_an_attempt_that_fails_passes_the_item_to_the_next_consumer(house: House) -> None:
    """Line 78: "attempts delivery". A consumer without credit is passed over."""
    publisher = declared(house.client())
    limited, free = consuming(house, prefetch=1), consuming(house)
    publisher.publish("q", b"1", b"2", b"3", b"4")
    house.settle()
    assert (limited.bodies, free.bodies) == ([b"1"], [b"2", b"3", b"4"])


def test_with_nothing_queued_the_loop_exits_immediately() -> None:
    """Line 79: "If nothing is queued and/or there are no consumers then the loop exits
    immediately."
    """

    class Asked(RecordingConsumer):
        questions = 0

        def can_take(self) -> bool:
            self.questions += 1
            return True

    queue, owner = make_queue()
    consumer = Asked()
    queue.add_consumer(consumer)
    queue.dispatch(0)
    assert (consumer.questions, owner.touched) == (0, [])


def test_with_no_consumers_the_loop_is_not_even_signalled() -> None:
    """Line 79, the other half."""
    queue, owner = make_queue()
    put(queue, b"1")
    assert owner.touched == []
    queue.dispatch(0)
    assert ready_bodies(queue) == [b"1"]


def test_consumers_acquire_messages_synchronously() -> None:
    """Line 81: "Note that all consumers of a queue aquire messages *synchronously*." When dispatch
    returns, the entry is out with its consumer and nowhere else.
    """
    queue, owner = make_queue()
    consumer = RecordingConsumer()
    queue.add_consumer(consumer)
    put(queue, b"1")
    dispatch(owner)
    assert consumer.bodies == [b"1"]
    assert (queue.message_count, queue.unacked_count) == (0, 1)


def test_the_acquired_message_is_encoded_into_the_connections_buffer(house: House) -> None:
    """Lines 81 and 83: "The aquired message should pass through the AmqpConnection state machine
    and the transfer is written to a buffer", "Since we're encoding a transfer, it's
    enqueue/buffered for writing to the underlying socket."
    """
    peer = declared(house.client())
    peer.call(m.BasicConsume("q", "tag"))
    peer.publish("q", b"the body")
    peer.deliver_to_node()
    house.node.state.touched.pop().dispatch(NOW)
    outgoing = peer.connection.outgoing
    assert b"the body" in b"".join(outgoing.pieces)
    assert peer.transport.writes == []


def test_a_consumer_whose_buffer_is_full_is_passed_over_and_does_not_block(house: House) -> None:
    """Line 83: "The consumers' handler must not block!" The seed does not say what stops the
    buffer from growing; ours stops taking, the queue keeps the rest, and others get them.
    """
    publisher = declared(house.client())
    slow = consuming(house)
    slow.connection.outgoing.set_writable(False)
    body = bytes(64 * 1024)
    publisher.publish("q", *[body] * 20)
    house.settle()
    assert slow.bodies == []
    assert slow.connection.outgoing.size <= DELIVERY_BYTES_MAX + len(body)
    brisk = consuming(house)
    assert len(brisk.bodies) == 20


def test_the_server_says_which_product_and_version_it_is(house: House) -> None:
    """Line 88: "I can send product specific properties"."""
    opened = next(event for event in house.client().events if isinstance(event, Opened))
    assert opened.server_properties["product"] == "Penstock"
    assert opened.server_properties["version"] == "1.2.3"
    assert opened.server_properties["cluster_name"] == "house"
