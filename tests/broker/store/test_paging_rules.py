"""The rules of queues hold for what is not in memory, too."""

import pytest

from penstock.broker.entry import QueueEntry
from penstock.broker.leases.leases import LeaseRequest, give_back, take_lease
from penstock.broker.message import NOBODY
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.queues.paged_list import PagedReadyList
from penstock.broker.queues.queue_journal import MessagePages
from penstock.broker.queues.walk import PASSED_OVER_MAX
from penstock.broker.topology import SetPolicy
from tests.broker.queues.doubles import RecordingConsumer
from tests.broker.store.doubles import ROOMY, SMALL, Broker, audit, message


class ChoosyConsumer(RecordingConsumer):
    """Wants nothing of its own connection."""

    def __init__(self, own: int) -> None:
        super().__init__()
        self.selective = True
        self._own = own

    def wants(self, entry: QueueEntry) -> bool:
        return entry.message.origin != self._own


def test_a_consumer_without_local_messages_finds_the_others_in_a_paged_queue() -> None:
    broker = Broker(limits=SMALL)
    for name, durable in ("d", True), ("t", False):
        queue = broker.declare(name, durable=durable)
        for number in range(40):
            sent = message(b"%d" % number, persistent=durable, origin=8 if number % 10 else 9)
            queue.enqueue(sent, broker.now)
            broker.tick()
        consumer = ChoosyConsumer(own=8)
        queue.add_consumer(consumer)
        broker.tick()
        assert consumer.bodies == [b"0", b"10", b"20", b"30"]
        queue.enqueue(message(b"new", persistent=durable, origin=9), broker.now)
        broker.tick()
        assert consumer.bodies[-1] == b"new"
        for entry in consumer.taken:
            queue.acknowledge(entry)
        queue.remove_consumer(consumer, broker.now)
        broker.tick()
        expected = [b"%d" % number for number in range(40) if number % 10]
        assert broker.drain(name) == expected
    broker.rest()
    audit(broker)


class CountingPages(MessagePages):
    """Counts what is read back for another."""

    def __init__(self, pages: MessagePages) -> None:
        self._pages = pages
        self.read_count = 0

    def page_out(self, entries: list[QueueEntry]) -> list[int]:
        return self._pages.page_out(entries)

    def page_in(self, positions: list[int], locations: list[int]) -> list[QueueEntry]:
        found = self._pages.page_in(positions, locations)
        self.read_count += len(found)
        return found

    def forget(self, locations: list[int]) -> None:
        self._pages.forget(locations)


def counted(queue: MessageQueue) -> CountingPages:
    ready = queue.journal_list()
    assert isinstance(ready, PagedReadyList)
    pages = CountingPages(ready.pages)
    ready._tail._pages = pages
    return pages


def in_memory(queue: MessageQueue) -> int:
    ready = queue.journal_list()
    return sum(ready.entry_of(position) is not None for position in ready.positions())


@pytest.mark.parametrize("durable", [True, False])
def test_what_a_consumer_does_not_want_is_read_once_and_not_kept(durable: bool) -> None:
    broker = Broker(limits=SMALL)
    queue = broker.declare("q", durable=durable)
    for number in range(200):
        queue.enqueue(message(b"%d" % number, persistent=durable, origin=8), broker.now)
        if number % 10 == 9:
            broker.tick()
    pages = counted(queue)
    consumer = ChoosyConsumer(own=8)
    queue.add_consumer(consumer)
    broker.rest()
    assert in_memory(queue) <= SMALL.paging.head_count_max
    assert pages.read_count <= 200
    for number in range(20):
        # Each is looked at when it comes; what was there before is not looked at again.
        queue.enqueue(message(b"own", persistent=durable, origin=8), broker.now)
        queue.enqueue(message(b"%d" % number, persistent=durable, origin=9), broker.now)
        broker.rest()
        queue.requeue([consumer.taken[-1]], broker.now)
        broker.rest()
    assert pages.read_count <= 300
    assert consumer.bodies == [b"%d" % (number // 2) for number in range(40)]
    assert in_memory(queue) <= SMALL.paging.head_count_max
    for number in range(1, 40, 2):
        queue.acknowledge(consumer.taken[number])
    queue.remove_consumer(consumer, broker.now)
    broker.rest()
    audit(broker)
    assert broker.drain("q") == [b"%d" % number for number in range(200)] + [b"own"] * 20


def test_what_is_chosen_deep_in_a_queue_and_comes_back_is_in_its_place_again() -> None:
    broker = Broker(limits=SMALL)
    queue = broker.declare("q")
    for number in range(40):
        queue.enqueue(message(b"%d" % number, origin=9 if number % 10 == 5 else 8), broker.now)
        broker.tick()
    consumer = ChoosyConsumer(own=8)
    queue.add_consumer(consumer)
    broker.tick()
    assert consumer.bodies == [b"5", b"15", b"25", b"35"]
    queue.remove_consumer(consumer, broker.now)
    queue.requeue(consumer.taken, broker.now)
    broker.rest()
    audit(broker)
    entries = [broker.get("q") for _ in range(40)]
    assert [entry.message.body for entry in entries] == [b"%d" % number for number in range(40)]
    seen = [number for number, entry in enumerate(entries) if entry.is_redelivered]
    assert seen == [5, 15, 25, 35]
    assert [entries[number].delivery_count for number in seen] == [1] * 4


def test_a_consumer_that_wants_little_lets_others_have_their_turn() -> None:
    broker = Broker(limits=ROOMY)
    queue = broker.declare("q", durable=False)
    for _ in range(PASSED_OVER_MAX * 2):
        queue.enqueue(message(b"", persistent=False, origin=8), broker.now)
    queue.enqueue(message(b"wanted", persistent=False, origin=9), broker.now)
    consumer = ChoosyConsumer(own=8)
    queue.add_consumer(consumer)
    broker.tick()
    assert (consumer.bodies, queue.is_touched) == ([], True)
    broker.tick()
    broker.tick()
    assert (consumer.bodies, queue.is_touched) == ([b"wanted"], False)


def test_what_is_given_back_behind_a_backlog_says_so_when_its_turn_comes() -> None:
    broker = Broker(limits=SMALL)
    queue = broker.declare("q")
    for number in range(30):
        broker.put("q", b"%d" % number)
        broker.tick()
    take_lease(broker.vhost, LeaseRequest("q", "job", 1, messages=10), broker.now)
    broker.tick()
    give_back(broker.vhost, "q", "job", 1, broker.now)
    broker.tick()
    assert in_memory(queue) <= SMALL.paging.head_count_max
    entries = [broker.get("q") for _ in range(30)]
    assert [entry.is_redelivered for entry in entries] == [False] * 20 + [True] * 10
    assert [entry.message.body for entry in entries[20:]] == [b"%d" % n for n in range(10)]


def test_what_came_back_is_paged_out_again_and_keeps_its_count() -> None:
    broker = Broker(limits=SMALL)
    arguments: dict[str, object] = {"x-queue-type": "quorum", "x-delivery-limit": 2}
    queue = broker.declare("q", arguments=arguments)
    for number in range(30):
        broker.put("q", b"%d" % number)
        broker.tick()
    for returned in range(1, 4):
        entries = [broker.get("q") for _ in range(30)]
        assert [entry.delivery_count for entry in entries] == [returned - 1] * 30
        for entry in entries:
            broker.settle(entry)
        queue.requeue(entries, broker.now)
        broker.rest()
        assert in_memory(queue) <= SMALL.paging.head_count_max
        audit(broker)
    assert queue.message_count == 0, "the third time was once too often"


LEVELS: dict[str, object] = {"x-max-priority": 4}


def fill_with_priorities(broker: Broker, durable: bool) -> list[bytes]:
    """Returns bodies in the order in which they come out."""
    queue = broker.declare("q", durable=durable, arguments=LEVELS)
    for number in range(100):
        body = b"%d" % number
        queue.enqueue(message(body, persistent=durable, priority=number % 6), broker.now)
        if number % 3 == 0:
            broker.tick()
    broker.tick()
    numbers = sorted(range(100), key=lambda number: (-min(number % 6, 4), number))
    return [b"%d" % number for number in numbers]


@pytest.mark.parametrize("durable", [True, False])
def test_a_queue_with_priorities_outgrows_memory_level_by_level(durable: bool) -> None:
    broker = Broker(limits=SMALL)
    expected = fill_with_priorities(broker, durable)
    queue = broker.vhost.queue("q")
    assert in_memory(queue) <= 5 * SMALL.paging.head_count_max
    audit(broker)
    assert [entry.message.body for entry in queue.browse(1000)] == expected
    assert broker.take("q", 37) == expected[:37]
    broker.rest()
    audit(broker)
    assert broker.drain("q") == expected[37:]
    broker.rest()
    audit(broker)
    assert broker.store.spool.file_count() <= 1


def test_a_queue_with_priorities_is_restored_without_filling_memory() -> None:
    broker = Broker(limits=SMALL)
    expected = fill_with_priorities(broker, True)
    again = broker.restarted()
    queue = again.vhost.queue("q")
    assert (queue.message_count, queue.ready_bytes) == (100, 190)
    assert in_memory(queue) <= 5 * SMALL.paging.head_count_max
    entries = [again.get("q") for _ in range(100)]
    assert [entry.message.body for entry in entries] == expected
    assert all(entry.is_redelivered for entry in entries)
    assert {entry.message.origin for entry in entries} == {NOBODY}
    for entry in entries:
        again.acknowledge(entry)
    again.rest()
    audit(again)
    assert again.restarted().vhost.queue("q").message_count == 0


def test_segments_that_a_queue_with_priorities_half_needs_are_reclaimed() -> None:
    broker = Broker(limits=SMALL)
    expected = fill_with_priorities(broker, True)
    assert broker.take("q", 90) == expected[:90]
    before = len(broker.journal.segments())
    broker.rest()
    audit(broker)
    assert len(broker.journal.segments()) < before
    assert broker.restarted().drain("q") == expected[90:]


def test_a_paged_queue_with_priorities_is_purged() -> None:
    broker = Broker(limits=SMALL)
    fill_with_priorities(broker, True)
    queue = broker.vhost.queue("q")
    assert queue.purge(broker.now) == 100
    broker.rest()
    audit(broker)
    assert (queue.message_count, queue.journal_list().count, queue.ready_bytes) == (0, 0, 0)
    assert broker.restarted().vhost.queue("q").message_count == 0


def test_a_consumer_chooses_among_priorities_that_are_paged() -> None:
    broker = Broker(limits=SMALL)
    queue = broker.declare("q", arguments=LEVELS)
    for number in range(60):
        sent = message(b"%d" % number, priority=number % 3, origin=9 if number % 7 == 0 else 8)
        queue.enqueue(sent, broker.now)
        broker.tick()
    consumer = ChoosyConsumer(own=8)
    queue.add_consumer(consumer)
    broker.rest()
    chosen = sorted(range(0, 60, 7), key=lambda number: (-(number % 3), number))
    assert consumer.bodies == [b"%d" % number for number in chosen]
    queue.remove_consumer(consumer, broker.now)
    queue.requeue(consumer.taken, broker.now)
    numbers = sorted(range(60), key=lambda number: (-(number % 3), number))
    assert broker.drain("q") == [b"%d" % number for number in numbers]


def test_a_length_limit_drops_from_the_head_of_a_paged_queue() -> None:
    broker = Broker(limits=SMALL)
    broker.declare("dead")
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    broker.declare("q", arguments={"x-max-length": 20, **dead})
    for number in range(50):
        broker.put("q", b"%d" % number)
        broker.tick()
    assert broker.vhost.queue("q").message_count == 20
    assert broker.vhost.queue("dead").message_count == 30
    restarted = broker.restarted()
    assert restarted.drain("dead") == [b"%d" % number for number in range(30)]
    assert restarted.drain("q") == [b"%d" % number for number in range(30, 50)]


def test_a_policy_that_limits_a_paged_queue_drops_its_head() -> None:
    broker = Broker(limits=SMALL)
    broker.declare("q")
    for number in range(50):
        broker.put("q", b"%d" % number)
        broker.tick()
    broker.apply(SetPolicy("p", "q", {"max-length": 3}))
    broker.rest()
    audit(broker)
    assert broker.restarted().drain("q") == [b"47", b"48", b"49"]


def test_a_paged_queue_dies_message_by_message() -> None:
    broker = Broker(limits=SMALL)
    queue = broker.declare("q", arguments={"x-message-ttl": 100})
    for number in range(50):
        broker.put("q", b"%d" % number)
        broker.tick(10)
        broker.state.timers.fire_due(broker.now)
    assert 9 <= queue.message_count <= 11
    broker.tick(1000)
    broker.state.timers.fire_due(broker.now)
    broker.rest()
    audit(broker)
    assert queue.message_count == 0


def test_large_messages_are_read_back_few_at_a_time() -> None:
    broker = Broker()
    broker.declare("q")
    body = b"x" * (3 << 20)
    for _ in range(12):
        broker.put("q", body)
        broker.tick()
    restarted = broker.restarted()
    ready = restarted.vhost.queue("q").journal_list()
    first = ready.first()
    assert first is not None
    in_memory = [position for position in range(1, 13) if ready.entry_of(position) is not None]
    assert len(in_memory) == 1
    assert restarted.drain("q") == [body] * 12
