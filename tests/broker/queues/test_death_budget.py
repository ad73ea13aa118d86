"""A tick lets only so many messages die, and nobody gets the others meanwhile."""

from penstock.broker.arguments import settings_of
from penstock.broker.queues.death_budget import OCTETS_PER_DEATH, DeathBudget
from penstock.broker.queues.queue import Queue
from tests.broker.queues.doubles import (
    RecordingConsumer,
    RecordingOwner,
    dispatch,
    make_queue,
    message,
    put,
    ready_bodies,
)

DEATHS_MAX = 4


def with_expired(count: int) -> tuple[Queue, RecordingOwner]:
    """So many that expire at 5, and one behind them that does not."""
    queue, owner = make_queue({"x-dead-letter-exchange": "dlx"}, deaths_max=DEATHS_MAX)
    for number in range(count):
        queue.enqueue(message(b"%d" % number, expiration_ms=5), 0)
    queue.enqueue(message(b"living"), 0)
    return queue, owner


def limited(max_length: int) -> dict[str, object]:
    return {"x-max-length": max_length, "x-dead-letter-exchange": "dlx"}


def test_so_many_may_die_at_one_time_and_large_ones_count_more() -> None:
    budget = DeathBudget(4)
    assert [budget.takes(0, 1) for _ in range(5)] == [True] * 4 + [False]
    assert budget.takes(2 * OCTETS_PER_DEATH, 2)
    assert budget.takes(0, 2)
    assert not budget.takes(0, 2)


def test_a_body_that_is_larger_than_the_budget_may_die_all_the_same() -> None:
    budget = DeathBudget(4)
    assert budget.takes(100 * OCTETS_PER_DEATH, 1)
    assert not budget.takes(0, 1)
    assert budget.takes(100 * OCTETS_PER_DEATH, 2)


def test_messages_that_expire_together_die_over_several_ticks() -> None:
    queue, owner = with_expired(10)
    for now, died in ((6, 4), (7, 8), (8, 10), (9, 10)):
        owner.timers.fire_due(now)
        assert len(owner.deaths) == died
    assert owner.deaths == [(b"%d" % number, "expired") for number in range(10)]
    assert ready_bodies(queue) == [b"living"]


def test_nobody_gets_a_message_whose_turn_to_die_comes_later() -> None:
    queue, owner = with_expired(10)
    consumer = RecordingConsumer()
    queue.add_consumer(consumer)
    for now in (6, 7):
        dispatch(owner, now)
        assert consumer.taken == []
        assert queue.get(now) is None
        owner.timers.fire_due(now + 1)
        queue.touch()
    dispatch(owner, 8)
    assert consumer.bodies == [b"living"]
    assert len(owner.deaths) == 10


def test_a_selective_consumer_gets_none_of_them_either() -> None:
    queue, owner = with_expired(10)
    consumer = RecordingConsumer()
    consumer.selective = True
    queue.add_consumer(consumer)
    dispatch(owner, 6)
    assert consumer.taken == []
    for now in (7, 8, 9):
        owner.timers.fire_due(now)
        queue.touch()
        dispatch(owner, now)
    assert consumer.bodies == [b"living"]


def test_a_new_limit_shortens_a_long_queue_over_several_ticks() -> None:
    queue, owner = make_queue(deaths_max=DEATHS_MAX)
    put(queue, *[b"%d" % number for number in range(20)])
    arguments = limited(5)
    queue.apply_settings(settings_of(arguments, {}), 1)
    assert queue.ready_count == 16
    for now, left in ((2, 12), (3, 8), (4, 5), (5, 5)):
        dispatch(owner, now)
        assert queue.ready_count == left
    assert [body for body, _ in owner.deaths] == [b"%d" % number for number in range(15)]


def test_a_queue_above_its_limit_does_not_grow_when_the_tick_has_done_enough() -> None:
    queue, _ = make_queue(deaths_max=DEATHS_MAX)
    put(queue, *[b"%d" % number for number in range(20)])
    queue.apply_settings(settings_of(limited(5), {}), 1)
    put(queue, b"a", b"b", now=1)
    assert queue.ready_count == 14


def test_a_limited_queue_keeps_to_its_limit_however_many_come_in_a_tick() -> None:
    queue, owner = make_queue(limited(3), deaths_max=DEATHS_MAX)
    put(queue, *[b"%d" % number for number in range(100)], now=1)
    assert queue.ready_count == 3
    assert len(owner.deaths) == 97
