"""The queue by itself: who gets what, in which order, and what becomes of the rest."""

import pytest

from penstock.broker.errors import AccessRefused
from tests.broker.queues.doubles import (
    RecordingConsumer,
    dispatch,
    make_queue,
    message,
    put,
    ready_bodies,
)


def test_each_consumer_gets_exactly_one_item_in_turn() -> None:
    """Seed 002: "loops over each consumer and synchronously attempts delivery of exactly one
    item".
    """
    queue, owner = make_queue()
    consumers = [RecordingConsumer() for _ in range(3)]
    for consumer in consumers:
        queue.add_consumer(consumer)
    put(queue, b"1", b"2", b"3", b"4", b"5")
    dispatch(owner)
    assert [consumer.bodies for consumer in consumers] == [[b"1", b"4"], [b"2", b"5"], [b"3"]]


def test_if_nothing_is_queued_or_there_are_no_consumers_dispatch_does_nothing() -> None:
    """Seed 002: "If nothing is queued and/or there are no consumers then the loop exits
    immediately."
    """
    queue, owner = make_queue()
    queue.dispatch(0)
    put(queue, b"1")
    queue.dispatch(0)
    assert owner.touched == []
    assert ready_bodies(queue) == [b"1"]


def test_a_consumer_without_credit_is_passed_over() -> None:
    queue, owner = make_queue()
    full, free = RecordingConsumer(credit=0), RecordingConsumer()
    queue.add_consumer(full)
    queue.add_consumer(free)
    put(queue, b"1", b"2")
    dispatch(owner)
    assert (full.bodies, free.bodies) == ([], [b"1", b"2"])


def test_consumers_of_higher_priority_are_served_first() -> None:
    queue, owner = make_queue()
    low, high = RecordingConsumer(priority=0), RecordingConsumer(2, priority=5)
    queue.add_consumer(low)
    queue.add_consumer(high)
    put(queue, b"1", b"2", b"3")
    dispatch(owner)
    assert (high.bodies, low.bodies) == ([b"1", b"2"], [b"3"])


def test_only_the_single_active_consumer_gets_messages_until_it_leaves() -> None:
    queue, owner = make_queue({"x-single-active-consumer": True})
    first, second = RecordingConsumer(), RecordingConsumer()
    queue.add_consumer(first)
    queue.add_consumer(second)
    put(queue, b"1", b"2")
    dispatch(owner)
    queue.remove_consumer(first, 0)
    put(queue, b"3")
    dispatch(owner)
    assert (first.bodies, second.bodies) == ([b"1", b"2"], [b"3"])


def test_an_exclusive_consumer_tolerates_no_other() -> None:
    queue, _ = make_queue()
    queue.add_consumer(RecordingConsumer(exclusive=True))
    with pytest.raises(AccessRefused, match="in exclusive use"):
        queue.add_consumer(RecordingConsumer())


def test_requeued_entries_go_back_to_their_places_flagged() -> None:
    queue, owner = make_queue()
    consumer = RecordingConsumer(3)
    queue.add_consumer(consumer)
    put(queue, b"1", b"2", b"3", b"4")
    dispatch(owner)
    one, two, three = consumer.taken
    queue.requeue([three], 0)
    queue.requeue([one, two], 0)
    assert ready_bodies(queue) == [b"1", b"2", b"3", b"4"]
    assert [entry.delivery_count for entry in queue.browse(9)] == [1, 1, 1, 0]
    assert queue.unacked_count == 0


def test_a_selective_consumer_leaves_what_it_does_not_want_for_others() -> None:
    queue, owner = make_queue()
    choosy, other = RecordingConsumer(), RecordingConsumer(credit=0)
    choosy.selective = True
    choosy.unwanted = {b"1", b"3"}
    queue.add_consumer(choosy)
    put(queue, b"1", b"2", b"3", b"4")
    dispatch(owner)
    assert choosy.bodies == [b"2", b"4"]
    assert ready_bodies(queue) == [b"1", b"3"]
    other.credit = 9
    queue.add_consumer(other)
    dispatch(owner)
    assert other.bodies == [b"1", b"3"]


def test_what_a_selective_consumer_gave_back_is_offered_again() -> None:
    queue, owner = make_queue()
    choosy = RecordingConsumer()
    choosy.selective = True
    queue.add_consumer(choosy)
    put(queue, b"1", b"2")
    dispatch(owner)
    queue.requeue([choosy.taken[0]], 0)
    dispatch(owner)
    assert choosy.bodies == [b"1", b"2", b"1"]


def test_a_full_queue_drops_its_head() -> None:
    queue, owner = make_queue({"x-max-length": 2, "x-dead-letter-exchange": "dlx"})
    assert put(queue, b"1", b"2", b"3", b"4") == [True, True, True, True]
    assert ready_bodies(queue) == [b"3", b"4"]
    assert owner.deaths == [(b"1", "maxlen"), (b"2", "maxlen")]


def test_a_full_queue_refuses_when_told_to() -> None:
    queue, owner = make_queue({"x-max-length": 1, "x-overflow": "reject-publish"})
    assert put(queue, b"1", b"2") == [True, False]
    assert ready_bodies(queue) == [b"1"]
    assert owner.deaths == []


def test_what_a_consumer_can_take_does_not_count_against_the_limit() -> None:
    queue, _ = make_queue({"x-max-length": 1})
    consumer = RecordingConsumer()
    queue.add_consumer(consumer)
    put(queue, b"1", b"2", b"3")
    assert consumer.bodies == [b"1", b"2", b"3"]


def test_octets_are_limited_too() -> None:
    queue, _ = make_queue({"x-max-length-bytes": 5})
    put(queue, b"123", b"45", b"6")
    assert ready_bodies(queue) == [b"45", b"6"]
    assert queue.ready_bytes == 3


def test_messages_die_at_the_head_when_their_time_is_over() -> None:
    queue, owner = make_queue({"x-message-ttl": 100, "x-dead-letter-exchange": "dlx"})
    put(queue, b"1", now=0)
    put(queue, b"2", now=50)
    owner.timers.fire_due(99)
    assert queue.message_count == 2
    owner.timers.fire_due(100)
    assert ready_bodies(queue) == [b"2"]
    owner.timers.fire_due(150)
    assert owner.deaths == [(b"1", "expired"), (b"2", "expired")]


def test_a_time_to_live_of_zero_means_now_or_never() -> None:
    queue, owner = make_queue({"x-message-ttl": 0})
    consumer = RecordingConsumer(1)
    queue.add_consumer(consumer)
    put(queue, b"1", b"2", now=10)
    dispatch(owner, now=10)
    assert consumer.bodies == [b"1"]
    assert queue.message_count == 0


def test_the_smaller_time_to_live_counts() -> None:
    queue, owner = make_queue({"x-message-ttl": 100})
    queue.enqueue(message(b"short", expiration_ms=10), 0)
    owner.timers.fire_due(10)
    queue.enqueue(message(b"long", expiration_ms=1000), 10)
    owner.timers.fire_due(109)
    assert ready_bodies(queue) == [b"long"]
    owner.timers.fire_due(110)
    assert ready_bodies(queue) == []


def test_a_delivery_limit_ends_an_endless_redelivery() -> None:
    arguments: dict[str, object] = {
        "x-queue-type": "quorum",
        "x-delivery-limit": 1,
        "x-dead-letter-exchange": "dlx",
    }
    queue, owner = make_queue(arguments)
    consumer = RecordingConsumer()
    queue.add_consumer(consumer)
    put(queue, b"poison")
    for _ in range(2):
        dispatch(owner)
        queue.requeue([consumer.taken.pop()], 0)
    assert owner.deaths == [(b"poison", "delivery_limit")]
    assert queue.message_count == 0


def test_messages_that_reach_the_delivery_limit_together_die_in_order() -> None:
    arguments: dict[str, object] = {
        "x-queue-type": "quorum",
        "x-delivery-limit": 0,
        "x-dead-letter-exchange": "dlx",
    }
    queue, owner = make_queue(arguments)
    consumer = RecordingConsumer(3)
    queue.add_consumer(consumer)
    put(queue, b"1", b"2", b"3")
    dispatch(owner)
    taken = list(consumer.taken)
    queue.requeue(taken, 0)
    assert [body for body, _ in owner.deaths] == [b"1", b"2", b"3"]


def test_an_unused_queue_expires_and_a_used_one_does_not() -> None:
    queue, owner = make_queue({"x-expires": 100})
    owner.timers.fire_due(60)
    queue.get(60)
    owner.timers.fire_due(159)
    assert owner.unused == []
    owner.timers.fire_due(160)
    assert owner.unused == ["q"]


def test_a_queue_does_not_expire_under_its_consumer() -> None:
    queue, owner = make_queue({"x-expires": 100})
    consumer = RecordingConsumer()
    queue.add_consumer(consumer)
    owner.timers.fire_due(1000)
    assert owner.unused == []
    queue.remove_consumer(consumer, 1000)
    owner.timers.fire_due(1100)
    assert owner.unused == ["q"]


def test_the_last_consumer_takes_an_auto_delete_queue_along() -> None:
    queue, owner = make_queue(auto_delete=True)
    consumer = RecordingConsumer()
    queue.add_consumer(consumer)
    queue.remove_consumer(consumer, 0)
    assert owner.unused == ["q"]


def test_consumers_hear_that_their_queue_is_deleted() -> None:
    queue, _ = make_queue()
    consumer = RecordingConsumer()
    queue.add_consumer(consumer)
    put(queue, b"1")
    queue.deleted(0)
    assert consumer.heard_cancel
    assert queue.message_count == 0


def test_settling_after_the_queue_is_gone_harms_nobody() -> None:
    queue, owner = make_queue({"x-dead-letter-exchange": "dlx"})
    consumer = RecordingConsumer()
    queue.add_consumer(consumer)
    put(queue, b"1", b"2", b"3")
    dispatch(owner)
    queue.deleted(0)
    queue.acknowledge(consumer.taken[0])
    queue.reject(consumer.taken[1], 0)
    queue.requeue([consumer.taken[2]], 0)
    assert queue.message_count == 0
    assert owner.deaths == []


def test_purge_leaves_what_is_out_with_consumers() -> None:
    queue, owner = make_queue()
    consumer = RecordingConsumer(1)
    queue.add_consumer(consumer)
    put(queue, b"1", b"2", b"3")
    dispatch(owner)
    assert queue.purge(0) == 2
    assert (queue.message_count, queue.unacked_count, queue.ready_bytes) == (0, 1, 0)


def test_a_new_limit_drops_what_is_too_much_at_once() -> None:
    from penstock.broker.arguments import settings_of

    queue, _ = make_queue()
    put(queue, b"1", b"2", b"3")
    queue.apply_settings(settings_of({"x-max-length": 1}, {}), 0)
    assert ready_bodies(queue) == [b"3"]


def test_a_selective_consumer_gets_no_dead_message() -> None:
    queue, owner = make_queue()
    choosy = RecordingConsumer(credit=0)
    choosy.selective = True
    queue.add_consumer(choosy)
    put(queue, b"alive")
    queue.enqueue(message(b"dead", expiration_ms=5), 0)
    put(queue, b"alive too")
    choosy.credit = 9
    queue.touch()
    dispatch(owner, now=100)
    assert choosy.bodies == [b"alive", b"alive too"]
