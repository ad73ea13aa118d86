"""An entry that is out has one holder, and only that one can settle it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.broker.entry import NO_HOLDER, QueueEntry, hand_over, take_back
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.topology import DeleteQueue
from tests.broker.queues.doubles import RecordingConsumer, dispatch, make_queue, message, put
from tests.broker.store.doubles import Broker, audit

# Numbers of two channels or links.
FIRST = 1
SECOND = 2

SETTLEMENTS: dict[str, Callable[[MessageQueue, QueueEntry, int], None]] = {
    "acknowledge": lambda queue, entry, holder: queue.acknowledge(entry, holder),
    "acknowledge_many": lambda queue, entry, holder: queue.acknowledge_many([entry], holder),
    "reject": lambda queue, entry, holder: queue.reject(entry, 0, holder),
    "requeue": lambda queue, entry, holder: queue.requeue([entry], 0, True, holder),
}

every_settlement = pytest.mark.parametrize("settle", SETTLEMENTS.values(), ids=SETTLEMENTS.keys())
every_second_one = pytest.mark.parametrize("again", SETTLEMENTS.values(), ids=SETTLEMENTS.keys())


def entries_out_with(holder: int, count: int) -> list[QueueEntry]:
    entries = [QueueEntry(message(b"x"), position) for position in range(1, count + 1)]
    for entry in entries:
        entry.holder = holder
    return entries


def test_a_holder_gives_up_what_it_has_and_nothing_else() -> None:
    entries = entries_out_with(FIRST, 4)
    entries[1].holder = SECOND
    entries[2].holder = NO_HOLDER
    assert take_back(entries, FIRST) == [entries[0], entries[3]]
    assert [entry.holder for entry in entries] == [NO_HOLDER, SECOND, NO_HOLDER, NO_HOLDER]
    assert take_back(entries, FIRST) == []


def test_one_entry_named_twice_is_given_up_once() -> None:
    entry = entries_out_with(FIRST, 1)[0]
    assert take_back([entry, entry], FIRST) == [entry]


def test_what_was_handed_over_has_the_new_holder() -> None:
    entries = entries_out_with(FIRST, 2)
    hand_over(entries, FIRST, SECOND)
    assert take_back(entries, FIRST) == []
    assert take_back(entries, SECOND) == entries


def test_nobody_hands_over_what_another_one_has() -> None:
    with pytest.raises(AssertionError):
        hand_over(entries_out_with(FIRST, 1), SECOND, FIRST)


@every_settlement
@every_second_one
@pytest.mark.parametrize("deleted", [False, True])
def test_a_second_settlement_changes_nothing(
    settle: Callable[[MessageQueue, QueueEntry, int], None],
    again: Callable[[MessageQueue, QueueEntry, int], None],
    deleted: bool,
) -> None:
    queue, owner = make_queue({"x-dead-letter-exchange": "dlx"})
    consumer = RecordingConsumer()
    consumer.holder = FIRST
    queue.add_consumer(consumer)
    put(queue, b"1", b"2")
    dispatch(owner)
    consumer.credit = 0
    if deleted:
        queue.deleted(0)
    settle(queue, consumer.taken[0], FIRST)
    before = (queue.message_count, queue.unacked_count, queue.acknowledged_total, owner.deaths[:])
    assert queue.unacked_count == 1
    again(queue, consumer.taken[0], FIRST)
    after = (queue.message_count, queue.unacked_count, queue.acknowledged_total, owner.deaths)
    assert after == before


@every_settlement
def test_nobody_settles_what_another_one_has_by_now(
    settle: Callable[[MessageQueue, QueueEntry, int], None],
) -> None:
    queue, owner = make_queue()
    first, second = RecordingConsumer(1), RecordingConsumer(0)
    first.holder, second.holder = FIRST, SECOND
    queue.add_consumer(first)
    queue.add_consumer(second)
    put(queue, b"1")
    dispatch(owner)
    entry = first.taken[0]
    queue.requeue([entry], 0, True, FIRST)
    second.credit = 1
    queue.dispatch(0)
    assert second.taken == [entry]
    settle(queue, entry, FIRST)
    assert (queue.message_count, queue.unacked_count, entry.holder) == (0, 1, SECOND)
    queue.acknowledge(entry, SECOND)
    assert queue.unacked_count == 0


@every_settlement
@every_second_one
@pytest.mark.parametrize("deleted", [False, True])
def test_the_journal_counts_a_message_out_once(
    settle: Callable[[MessageQueue, QueueEntry, int], None],
    again: Callable[[MessageQueue, QueueEntry, int], None],
    deleted: bool,
) -> None:
    broker = Broker()
    queue = broker.declare("q")
    broker.put("q", b"1", b"2")
    broker.tick()
    entry = queue.get(broker.now, FIRST)
    assert entry is not None
    if deleted:
        broker.vhost.apply(DeleteQueue("q"), broker.now)
    settle(queue, entry, FIRST)
    broker.tick()
    again(queue, entry, FIRST)
    broker.tick()
    audit(broker)


def test_an_entry_that_leaves_the_journal_twice_is_a_defect_where_it_happens() -> None:
    """And not in a later tick, which serves everybody."""
    broker = Broker()
    queue = broker.declare("q")
    broker.put("q", b"1")
    broker.tick()
    entry = broker.get("q")
    journal = queue.journal
    assert journal is not None
    broker.acknowledge(entry)
    with pytest.raises(AssertionError, match="dequeued once"):
        journal.dequeued(entry)
    broker.tick()
    audit(broker)
