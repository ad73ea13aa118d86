"""How old the messages of a queue are, and how long they were there."""

import pytest

from penstock.broker.queues.ages import STAMP_MS
from penstock.broker.queues.message_queue import NO_AGE
from tests.broker.queues.doubles import RecordingConsumer, dispatch, make_queue, message, put
from tests.broker.store.doubles import Broker


def test_an_empty_queue_has_no_age() -> None:
    queue, _ = make_queue()
    assert queue.oldest_age_ms(5_000) == NO_AGE
    put(queue, b"1", now=100)
    queue.get(200)
    assert queue.oldest_age_ms(5_000) == NO_AGE


def test_the_age_is_that_of_the_oldest_message_that_is_ready() -> None:
    queue, _ = make_queue()
    put(queue, b"1", now=1_000)
    put(queue, b"2", now=3_000)
    assert queue.oldest_age_ms(10_000) == 9_000
    queue.get(10_000)
    assert queue.oldest_age_ms(10_000) == 7_000


def test_messages_within_one_interval_share_a_stamp() -> None:
    queue, _ = make_queue()
    put(queue, b"1", now=1_000)
    put(queue, b"2", now=1_000 + STAMP_MS - 1)
    queue.get(2_000)
    assert queue.oldest_age_ms(2_000) == 1_000


def test_a_message_that_comes_back_is_as_old_as_before() -> None:
    queue, _ = make_queue()
    put(queue, b"1", now=1_000)
    entry = queue.get(2_000)
    assert entry is not None
    for now in range(3_000, 9_000, 1_000):
        put(queue, b"later", now=now)
    queue.requeue([entry], 9_000)
    assert queue.oldest_age_ms(10_000) == 9_000


def test_in_a_priority_queue_the_oldest_counts_and_not_the_first() -> None:
    queue, _ = make_queue({"x-max-priority": 5})
    queue.enqueue(message(b"old", priority=0), 1_000)
    queue.enqueue(message(b"urgent", priority=5), 8_000)
    assert queue.oldest_age_ms(9_000) == 8_000


def test_what_drops_out_at_the_head_does_not_count() -> None:
    queue, _ = make_queue({"x-max-length": 1})
    put(queue, b"1", now=1_000)
    put(queue, b"2", now=5_000)
    assert queue.oldest_age_ms(6_000) == 1_000


def test_deliveries_count_by_how_long_their_messages_were_there() -> None:
    queue, owner = make_queue()
    assert queue.time_in_queue() is None
    put(queue, b"1", b"2", b"3", now=1_000)
    queue.add_consumer(RecordingConsumer())
    dispatch(owner, now=1_400)
    waited = queue.time_in_queue()
    assert waited is not None
    assert waited.count == 3
    assert waited.sum_ms == 3 * 400
    assert waited.counts[3] == 3


def test_a_delivery_by_get_and_to_one_that_chooses_counts_too() -> None:
    queue, owner = make_queue()
    put(queue, b"1", b"2", now=1_000)
    queue.get(61_000)
    chooser = RecordingConsumer()
    chooser.selective = True
    queue.add_consumer(chooser)
    dispatch(owner, now=3_601_000)
    waited = queue.time_in_queue()
    assert waited is not None
    assert waited.sum_ms == 60_000 + 3_600_000


@pytest.mark.parametrize("arguments", [{}, {"x-max-priority": 3}])
def test_after_a_restart_ages_count_from_the_restart_on(arguments: dict[str, object]) -> None:
    broker = Broker()
    broker.declare("q", arguments=arguments)
    broker.put("q", *[b"%d" % number for number in range(50)])
    broker.tick(60_000)
    assert broker.vhost.queue("q").oldest_age_ms(broker.now) == 60_000
    restarted = broker.restarted()
    assert restarted.vhost.queue("q").oldest_age_ms(restarted.now + 700) == 700


def test_the_age_of_what_was_paged_out_is_known_without_reading_it() -> None:
    broker = Broker()
    broker.declare("q")
    for number in range(50):
        broker.put("q", b"%d" % number)
        broker.tick(100)
    queue = broker.vhost.queue("q")
    entries = [broker.get("q") for _ in range(20)]
    assert queue.oldest_age_ms(broker.now) == 30 * 100
    assert entries[-1].message.body == b"19"


def test_the_age_of_a_stream_is_that_of_its_first_message() -> None:
    broker = Broker()
    broker.declare("s", arguments={"x-queue-type": "stream"})
    broker.tick()
    stream = broker.vhost.queue("s")
    assert stream.oldest_age_ms(broker.now) == NO_AGE
    broker.put("s", b"1")
    broker.tick(5_000)
    assert stream.oldest_age_ms(broker.now) >= 4_990
