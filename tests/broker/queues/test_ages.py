"""Ages from a few stamps: never too low, and too high by little."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.queues.ages import BUCKETS_MS, RESOLUTION, STAMP_MS, QueueAges, TimeInQueue

YEAR_MS = 365 * 86_400_000


class Arrivals:
    """Plays a queue: stamps when that is due, and remembers when everything really arrived."""

    def __init__(self) -> None:
        self.ages = QueueAges()
        self.times: dict[int, int] = {}
        self.oldest = 1
        self.due = 0
        # Between stamps, now and when each of them arrived.
        self.interval = 0
        self.intervals: dict[int, int] = {}

    def arrive(self, now: int) -> None:
        position = len(self.times) + 1
        self.times[position] = now
        if now >= self.due:
            self.due = self.ages.arrived(position, self.oldest, now)
            self.interval = self.due - now
            oldest_age = now - self.times[self.oldest]
            # The stamp of the oldest message is at most an interval older than that itself.
            assert self.interval <= max(STAMP_MS, oldest_age // RESOLUTION) * 2
        self.intervals[position] = self.interval


@given(st.lists(st.tuples(st.integers(0, 2_000), st.booleans()), min_size=1, max_size=300))
def test_an_arrival_is_never_too_late_and_too_early_by_the_interval_at_most(
    steps: list[tuple[int, bool]],
) -> None:
    queue = Arrivals()
    now = 0
    for wait, leaves in steps:
        now += wait
        queue.arrive(now)
        if leaves and queue.oldest <= len(queue.times):
            queue.oldest += 1
        for position in range(queue.oldest, len(queue.times) + 1):
            known = queue.ages.arrival_of(position, now)
            real = queue.times[position]
            assert real - queue.intervals[position] <= known <= real


def test_a_queue_that_grows_for_a_year_has_few_stamps() -> None:
    queue = Arrivals()
    now = 0
    while now < YEAR_MS:
        queue.arrive(now)
        now = queue.due
    assert queue.ages.stamp_count() < 2_000


def test_stamps_of_messages_that_are_gone_go_too() -> None:
    queue = Arrivals()
    for now in range(0, 1_000_000, STAMP_MS):
        queue.arrive(now)
        queue.oldest = len(queue.times)
    assert queue.ages.stamp_count() < 20


def test_without_a_stamp_nothing_has_an_age() -> None:
    assert QueueAges().arrival_of(7, 500) == 500


def test_a_time_counts_in_the_first_bucket_that_holds_it() -> None:
    waited = TimeInQueue()
    waited.add(BUCKETS_MS[0], 2)
    waited.add(BUCKETS_MS[0] + 1, 3)
    waited.add(BUCKETS_MS[-1] + 1, 4)
    assert waited.counts[0] == 2
    assert waited.counts[1] == 3
    assert waited.counts[-1] == 4
    assert waited.count == sum(waited.counts) == 9
