"""Times from a publish to its confirm are told from ticks."""

from penstock.dialects.amqp091.confirms import Confirms
from penstock.dialects.confirm_times import CONFIRM_BUCKETS_MS, ConfirmTimes
from penstock.dialects.container import Durability
from penstock.wire.outgoing import Outgoing
from tests.dialects.amqp10.doubles import KeptTransport


class Answers:
    """Publishes of one channel, answered by its confirms. Held by a test."""

    def __init__(self, durability: Durability) -> None:
        self._confirms = Confirms([], Outgoing([], KeptTransport()), 1, durability)

    def publish(self, is_journalled: bool = False) -> None:
        sequence = self._confirms.next()
        if is_journalled:
            self._confirms.journalled(sequence)

    def held(self, sequence: int) -> None:
        self._confirms.held(sequence)

    def completed(self, sequence: int) -> None:
        self._confirms.completed(sequence)

    def flush(self) -> None:
        self._confirms.flush()


def bucket_of(milliseconds: int) -> int:
    return CONFIRM_BUCKETS_MS.index(milliseconds)


def tick(answers: Answers, durability: Durability, began: int, ended: int) -> None:
    durability.begin_tick(began)
    answers.flush()
    durability.times.written(ended)


def test_what_is_answered_in_its_own_tick_took_as_long_as_the_tick() -> None:
    durability = Durability()
    answers = Answers(durability)
    for _ in range(3):
        answers.publish()
    tick(answers, durability, 100, 104)
    assert durability.times.counts[bucket_of(5)] == 3
    assert durability.times.sum_ms == 12


def test_what_waits_for_the_disk_counts_from_its_own_tick_on() -> None:
    durability = Durability()
    answers = Answers(durability)
    answers.publish(is_journalled=True)
    durability.written = 10
    tick(answers, durability, 0, 0)
    answers.publish(is_journalled=True)
    answers.publish(is_journalled=True)
    durability.written = 20
    tick(answers, durability, 40, 41)
    assert sum(durability.times.counts) == 0
    durability.durable = 10
    tick(answers, durability, 45, 45)
    assert durability.times.counts[bucket_of(50)] == 1
    durability.durable = 20
    tick(answers, durability, 54, 55)
    assert durability.times.counts[bucket_of(20)] == 2
    assert durability.times.sum_ms == 45 + 15 + 15
    assert sum(durability.times.counts) == 3


def test_a_message_that_is_held_keeps_its_time() -> None:
    durability = Durability()
    answers = Answers(durability)
    answers.publish()
    answers.publish()
    answers.held(2)
    tick(answers, durability, 0, 1)
    assert durability.times.counts[bucket_of(1)] == 1
    answers.publish()
    tick(answers, durability, 5, 6)
    assert sum(durability.times.counts) == 1
    answers.completed(2)
    tick(answers, durability, 100, 100)
    assert durability.times.counts[bucket_of(100)] == 2


def test_a_tick_whose_end_nobody_told_ends_with_the_next() -> None:
    durability = Durability()
    answers = Answers(durability)
    answers.publish()
    durability.begin_tick(0)
    answers.flush()
    durability.begin_tick(7)
    assert durability.times.counts[bucket_of(10)] == 1


def test_what_takes_longer_than_all_bounds_is_counted_too() -> None:
    times = ConfirmTimes()
    times.answered(0, 2)
    times.written(CONFIRM_BUCKETS_MS[-1] + 1)
    assert times.counts[-1] == 2
