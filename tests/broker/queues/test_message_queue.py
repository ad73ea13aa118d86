"""What every kind of queue promises, asked of both: a queue whose messages leave it, and a stream."""

from collections.abc import Callable

import pytest

from penstock.broker.arguments import CLASSIC, STREAM, QueueType
from penstock.broker.entry import NO_HOLDER, QueueEntry
from penstock.broker.errors import AccessRefused
from penstock.broker.message import Message
from penstock.broker.observers import QueueObserver
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.reading import Reading, Start, StartKind
from penstock.broker.topology import DeclareQueue, DeleteQueue
from tests.broker.queues.doubles import RecordingConsumer
from tests.broker.streams.doubles import Host, message

FIRST = Reading(Start(StartKind.FIRST, 0))
ONE, OTHER = 5, 6

each_kind = pytest.mark.parametrize("kind", [CLASSIC, STREAM])
SETTLEMENTS: dict[str, Callable[[MessageQueue, QueueEntry, int], None]] = {
    "acknowledge": lambda queue, entry, holder: queue.acknowledge(entry, holder),
    "acknowledge_many": lambda queue, entry, holder: queue.acknowledge_many([entry], holder),
    "reject": lambda queue, entry, holder: queue.reject(entry, 0, holder),
    "requeue": lambda queue, entry, holder: queue.requeue([entry], 0, True, holder),
}


class Counting(QueueObserver):
    def __init__(self) -> None:
        self.enqueued_bodies: list[bytes] = []
        self.delivered_count = 0

    def enqueued(self, entry: QueueEntry) -> None:
        self.enqueued_bodies.append(entry.message.body)

    def delivered(self, entry: QueueEntry) -> None:
        self.delivered_count += 1


class KeepingBodies(RecordingConsumer):
    """A stream's entries have their messages only while they are taken."""

    def __init__(self, credit: int, holder: int = ONE) -> None:
        super().__init__(credit)
        self.holder = holder
        self.seen: list[bytes] = []

    def credit_count(self) -> int:
        return self.credit

    def take(self, entry: QueueEntry) -> None:
        super().take(entry)
        self.seen.append(entry.message.body)


class Kind:
    """A queue of one kind and the ticks that drive it."""

    def __init__(self, kind: QueueType) -> None:
        self.host = Host()
        arguments: dict[str, object] = {"x-queue-type": kind.value}
        self.host.vhost.apply(DeclareQueue("q", durable=True, arguments=arguments), 0)
        self.queue: MessageQueue = self.host.vhost.queue("q")

    def put(self, *bodies: bytes) -> list[Message]:
        messages = [message(body) for body in bodies]
        for one in messages:
            assert self.queue.enqueue(one, 0)
        self.host.tick()
        return messages

    def consume(self, credit: int = 1000, holder: int = ONE) -> KeepingBodies:
        consumer = KeepingBodies(credit, holder)
        self.queue.subscribe(consumer, FIRST, 0)
        self.host.tick()
        return consumer


@each_kind
def test_what_was_put_in_comes_out_in_order(kind: QueueType) -> None:
    used = Kind(kind)
    used.put(b"a", b"b")
    consumer = used.consume()
    used.put(b"c")
    assert consumer.seen == [b"a", b"b", b"c"]


@each_kind
def test_a_consumer_gets_no_more_than_it_can_take(kind: QueueType) -> None:
    used = Kind(kind)
    used.put(b"a", b"b", b"c")
    consumer = used.consume(2)
    assert consumer.seen == [b"a", b"b"]
    consumer.credit = 1
    used.queue.touch()
    used.host.tick()
    assert consumer.seen == [b"a", b"b", b"c"]


@each_kind
def test_a_queue_is_touched_once_however_much_arrives(kind: QueueType) -> None:
    used = Kind(kind)
    used.consume()
    for body in (b"a", b"b"):
        used.queue.enqueue(message(body), 0)
    used.queue.touch()
    assert used.host.vhost.touched == [used.queue]
    assert used.queue.is_touched


@each_kind
@pytest.mark.parametrize("settlement", SETTLEMENTS)
def test_only_the_holder_settles_and_only_once(kind: QueueType, settlement: str) -> None:
    used = Kind(kind)
    used.put(b"a", b"b")
    consumer = used.consume(2)
    entry = consumer.taken[0]
    settle = SETTLEMENTS[settlement]
    settle(used.queue, entry, OTHER)
    assert (entry.holder, used.queue.unacked_count) == (ONE, 2)
    settle(used.queue, entry, ONE)
    assert (entry.holder, used.queue.unacked_count) == (NO_HOLDER, 1)
    settle(used.queue, entry, ONE)
    assert used.queue.unacked_count == 1


@each_kind
def test_the_counts_for_people_grow_with_every_step(kind: QueueType) -> None:
    used = Kind(kind)
    used.put(b"a", b"b")
    consumer = used.consume()
    used.queue.acknowledge(consumer.taken[0], ONE)
    queue = used.queue
    assert (queue.published_total, queue.delivered_total, queue.acknowledged_total) == (2, 2, 1)
    assert (queue.consumer_count, queue.unacked_count) == (1, 1)


@each_kind
def test_observers_see_what_arrives_and_what_is_delivered(kind: QueueType) -> None:
    used = Kind(kind)
    watching = Counting()
    used.queue.observers.append(watching)
    used.put(b"a", b"b")
    used.consume()
    assert (watching.enqueued_bodies, watching.delivered_count) == ([b"a", b"b"], 2)


@each_kind
def test_an_exclusive_consumer_is_alone(kind: QueueType) -> None:
    used = Kind(kind)
    alone = KeepingBodies(1)
    alone.exclusive = True
    used.queue.add_consumer(alone)
    with pytest.raises(AccessRefused, match="in exclusive use"):
        used.queue.subscribe(KeepingBodies(1), FIRST, 0)
    used.queue.remove_consumer(alone, 0)
    used.consume()
    assert used.queue.consumer_count == 1


@each_kind
def test_somebody_looks_without_taking_anything(kind: QueueType) -> None:
    used = Kind(kind)
    used.put(b"a", b"b", b"c")
    assert [entry.message.body for entry in used.queue.browse(2)] == [b"a", b"b"]
    first = used.queue.entry_from(0)
    assert first is not None
    second = used.queue.entry_from(first.position + 1)
    assert second is not None
    assert (first.message.body, second.message.body) == (b"a", b"b")
    assert used.queue.entry_from(first.position + 3) is None
    assert (used.queue.message_count, used.queue.unacked_count) == (3, 0)


@each_kind
def test_the_message_of_a_delivered_entry_can_be_had_again(kind: QueueType) -> None:
    used = Kind(kind)
    used.put(b"a")
    consumer = used.consume()
    again = used.queue.message_of(consumer.taken[0])
    assert again is not None
    assert again.body == b"a"


@each_kind
def test_whether_messages_stay_is_told_and_kept(kind: QueueType) -> None:
    used = Kind(kind)
    used.put(b"a")
    consumer = used.consume()
    used.queue.acknowledge(consumer.taken[0], ONE)
    later = used.consume(holder=OTHER)
    assert later.seen == ([b"a"] if used.queue.keeps_messages else [])
    assert used.queue.keeps_messages == (kind is STREAM)
    assert used.queue.queue_type is kind


@each_kind
def test_a_consumer_that_was_away_goes_on_where_it_was(kind: QueueType) -> None:
    used = Kind(kind)
    used.put(b"a", b"b")
    consumer = used.consume(1)
    position = used.queue.read_position(consumer)
    assert (position is not None) == used.queue.keeps_messages
    used.queue.remove_consumer(consumer, 0)
    again = KeepingBodies(1000)
    if position is None:
        used.queue.add_consumer(again)
    else:
        used.queue.resume_consumer(again, position)
    used.host.tick()
    assert again.seen == [b"b"]


@each_kind
def test_consumers_hear_of_the_deletion(kind: QueueType) -> None:
    used = Kind(kind)
    consumer = used.consume()
    used.host.vhost.apply(DeleteQueue("q"), 0)
    assert used.queue.is_deleted
    assert (consumer.heard_cancel, used.queue.consumer_count) == (True, 0)


@each_kind
def test_what_comes_back_after_the_deletion_is_forgotten(kind: QueueType) -> None:
    used = Kind(kind)
    used.put(b"a")
    consumer = used.consume()
    used.host.vhost.apply(DeleteQueue("q"), 0)
    used.queue.requeue(consumer.taken, 0, True, ONE)
    assert used.queue.unacked_count == 0
    used.host.tick()
    assert len(consumer.taken) == 1
