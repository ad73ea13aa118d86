"""A replicated queue by itself: nothing is seen before its operation is committed (R16)."""

import pytest

from penstock.broker.arguments import settings_of
from penstock.broker.entry import QueueEntry
from penstock.broker.internal_queues import LEASE_OF
from penstock.broker.queues.guarded_queue import GuardedQueue, GuardedQueueMaker
from penstock.broker.queues.guarded_queues import GuardedQueues
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.queue_journal import QueueJournal
from tests.broker.queues.doubles import (
    RecordingConsumer,
    RecordingOwner,
    dispatch,
    message,
    put,
    ready_bodies,
)


class RecordingJournal(QueueJournal):
    """Keeps the bodies of what it is told."""

    def __init__(self) -> None:
        self.in_it: list[bytes] = []
        self.gone: list[bytes] = []

    def enqueued(self, entry: QueueEntry) -> None:
        self.in_it.append(entry.message.body)

    def dequeued(self, entry: QueueEntry) -> None:
        self.gone.append(entry.message.body)

    def dequeued_many(self, entries: list[QueueEntry]) -> None:
        self.gone += [entry.message.body for entry in entries]


class Guarded:
    """A guarded queue with all that is around it."""

    def __init__(self, arguments: dict[str, object] | None = None) -> None:
        self.owner = RecordingOwner()
        self.guarded = GuardedQueues()
        self.journal = RecordingJournal()
        made = make(self.owner, self.guarded, "q", arguments or {})
        assert isinstance(made, GuardedQueue)
        made.journal = self.journal
        self.queue = made

    def tick(self, position: int) -> None:
        self.guarded.end_of_tick(position)

    def commit(self, position: int, now: int = 0) -> None:
        self.guarded.committed(position, now)
        dispatch(self.owner, now)


def make(
    owner: RecordingOwner,
    guarded: GuardedQueues,
    name: str,
    arguments: dict[str, object],
    *,
    durable: bool = True,
    exclusive_owner: int = -1,
) -> MessageQueue:
    maker = GuardedQueueMaker(guarded.arrivals)
    settings = settings_of(arguments, {})
    return maker.make(owner, name, durable, exclusive_owner, False, settings, arguments, 0)


def test_an_entry_is_not_delivered_before_its_operation_is_committed() -> None:
    around = Guarded()
    consumer = RecordingConsumer()
    around.queue.add_consumer(consumer)
    put(around.queue, b"1", b"2")
    around.tick(100)
    put(around.queue, b"3")
    around.tick(200)
    around.commit(99)
    assert consumer.bodies == []
    around.commit(100)
    assert consumer.bodies == [b"1", b"2"]
    around.commit(250)
    assert consumer.bodies == [b"1", b"2", b"3"]


def test_an_entry_of_a_tick_that_is_not_written_yet_waits() -> None:
    around = Guarded()
    put(around.queue, b"1")
    around.commit(1_000)
    assert ready_bodies(around.queue) == []
    around.tick(1_001)
    around.commit(1_001)
    assert ready_bodies(around.queue) == [b"1"]


def test_neither_get_nor_a_browser_sees_what_waits_but_it_is_counted() -> None:
    around = Guarded()
    put(around.queue, b"1")
    assert around.queue.get(0) is None
    assert around.queue.browse(10) == []
    assert (around.queue.message_count, around.queue.ready_count) == (1, 1)


def test_messages_that_are_not_persistent_are_journalled_too() -> None:
    around = Guarded()
    put(around.queue, b"transient")
    assert around.journal.in_it == [b"transient"]
    assert around.queue.journals(message(b"transient"))


def test_a_priority_queue_delivers_committed_entries_only() -> None:
    around = Guarded({"x-max-priority": 5})
    consumer = RecordingConsumer(credit=1)
    around.queue.add_consumer(consumer)
    around.queue.enqueue(message(b"low", priority=1), 0)
    around.tick(10)
    around.queue.enqueue(message(b"high", priority=5), 0)
    around.tick(20)
    around.commit(10)
    assert consumer.bodies == [b"low"]


def test_a_length_limit_drops_only_when_entries_are_ready_and_consumers_had_their_turn() -> None:
    around = Guarded({"x-max-length": 1, "x-dead-letter-exchange": "dead"})
    consumer = RecordingConsumer(credit=2)
    around.queue.add_consumer(consumer)
    put(around.queue, b"1", b"2", b"3", b"4")
    around.tick(10)
    assert around.owner.deaths == []
    around.commit(10)
    assert consumer.bodies == [b"1", b"2"]
    assert around.owner.deaths == [(b"3", "maxlen")]
    assert ready_bodies(around.queue) == [b"4"]


def test_a_queue_that_refuses_publishes_counts_what_waits() -> None:
    around = Guarded({"x-max-length": 2, "x-overflow": "reject-publish"})
    assert put(around.queue, b"1", b"2", b"3") == [True, True, False]


def test_octets_that_wait_count_for_a_limit_in_octets() -> None:
    around = Guarded({"x-max-length-bytes": 4, "x-overflow": "reject-publish"})
    assert put(around.queue, b"123", b"4567", b"8") == [True, False, True]


def test_octets_become_ready_with_the_messages_of_their_tick() -> None:
    around = Guarded()
    queue = around.queue
    put(queue, b"1", b"22")
    around.tick(100)
    put(queue, b"333")
    around.tick(200)
    put(queue, b"4444")
    assert (queue.ready_bytes, queue.held_octets()) == (0, 10)
    around.commit(100)
    assert (queue.ready_bytes, queue.held_octets()) == (3, 10)
    around.tick(300)
    around.commit(300)
    assert (queue.ready_bytes, queue.held_octets()) == (10, 10)
    put(queue, b"55555")
    around.tick(400)
    queue.purge(0)
    assert (queue.ready_bytes, queue.held_octets()) == (0, 0)
    put(queue, b"666666")
    around.tick(500)
    around.commit(500)
    assert (queue.ready_bytes, queue.held_octets()) == (6, 6)


def test_a_message_whose_time_was_over_while_it_waited_may_still_be_delivered_at_once() -> None:
    around = Guarded({"x-message-ttl": 0, "x-dead-letter-exchange": "dead"})
    consumer = RecordingConsumer(credit=1)
    around.queue.add_consumer(consumer)
    put(around.queue, b"1", b"2", now=5)
    around.tick(10)
    around.commit(10, now=8)
    assert consumer.bodies == [b"1"]
    assert around.owner.deaths == [(b"2", "expired")]


def test_without_consumers_a_message_whose_time_is_over_dies_when_it_is_ready() -> None:
    around = Guarded({"x-message-ttl": 2, "x-dead-letter-exchange": "dead"})
    put(around.queue, b"1", now=5)
    around.tick(10)
    around.owner.timers.fire_due(100)
    assert around.owner.deaths == []
    around.commit(10, now=100)
    assert around.owner.deaths == [(b"1", "expired")]


def test_a_purge_takes_what_waits_and_a_later_commit_brings_nothing_back() -> None:
    around = Guarded()
    put(around.queue, b"1")
    around.tick(10)
    around.commit(10)
    put(around.queue, b"2")
    around.tick(20)
    put(around.queue, b"3")
    assert around.queue.purge(0) == 3
    assert sorted(around.journal.gone) == [b"1", b"2", b"3"]
    around.tick(30)
    around.commit(30)
    assert around.queue.message_count == 0


def test_a_deleted_queue_ignores_commits() -> None:
    around = Guarded()
    put(around.queue, b"1")
    around.tick(10)
    around.queue.deleted(0)
    around.commit(10)
    assert around.queue.message_count == 0


def test_a_requeued_entry_is_ready_at_once() -> None:
    around = Guarded()
    put(around.queue, b"1")
    around.tick(10)
    around.commit(10)
    entry = around.queue.get(0)
    assert entry is not None
    around.queue.requeue([entry], 0)
    assert [again.is_redelivered for again in around.queue.browse(2)] == [True]


def test_a_server_that_is_no_longer_the_root_keeps_what_waited() -> None:
    around = Guarded()
    put(around.queue, b"1")
    around.tick(10)
    put(around.queue, b"2")
    around.guarded.release_all()
    assert ready_bodies(around.queue) == [b"1", b"2"]
    put(around.queue, b"3")
    around.tick(20)
    around.commit(20)
    assert ready_bodies(around.queue) == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("name", "arguments", "durable", "exclusive_owner", "journals_all"),
    [
        ("temporary", {}, False, -1, False),
        ("mine", {}, True, 4, False),
        ("amq.lease.a", {LEASE_OF: "a"}, True, -1, True),
    ],
)
def test_other_queues_deliver_at_once(
    name: str,
    arguments: dict[str, object],
    durable: bool,
    exclusive_owner: int,
    journals_all: bool,
) -> None:
    owner = RecordingOwner()
    made = make(
        owner,
        GuardedQueues(),
        name,
        arguments,
        durable=durable,
        exclusive_owner=exclusive_owner,
    )
    put(made, b"1")
    assert ready_bodies(made) == [b"1"]
    assert made.journals_all == journals_all
