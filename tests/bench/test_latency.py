"""The schedule of the paced publisher, and what is made of stamps and arrivals."""

import pytest

from bench.latency import evaluate
from bench.loader import WARM_UP_SECONDS, LoadFailedError
from bench.paced_publisher import TICK_NANOSECONDS, WRITE_MESSAGES, Schedule

SECOND = 1_000_000_000
WARM_UP = int(WARM_UP_SECONDS * SECOND)


def test_a_schedule_gives_the_rate_asked_for_whenever_it_is_asked() -> None:
    schedule = Schedule(rate=10_000, start=500)
    taken = []
    now = 500
    while now < 500 + SECOND:
        now += 777_777
        while bursts := schedule.take(now):
            taken += bursts
    assert sum(count for _, count in taken) == pytest.approx(10_000, abs=10)
    assert all((due - 500) % TICK_NANOSECONDS == 0 for due, _ in taken)
    assert [due for due, _ in taken] == sorted({due for due, _ in taken})


def test_messages_that_are_sent_late_keep_the_time_at_which_they_were_due() -> None:
    schedule = Schedule(rate=1_000_000, start=0)
    late = schedule.take(SECOND)
    assert late[0] == (TICK_NANOSECONDS, 250)
    assert sum(count for _, count in late) == WRITE_MESSAGES
    assert schedule.take(SECOND)[0][0] == 3 * TICK_NANOSECONDS


def test_latency_is_of_what_was_due_in_the_window_and_the_rate_of_what_came_in_it() -> None:
    first = 10 * SECOND
    opens = first + WARM_UP
    stamps = [first, opens, opens + 100_000, opens + SECOND]
    reads = [1, first + 1, 2, opens + 600_000, 1, opens + SECOND + 1]
    sample = evaluate(stamps, reads, [5_000, 7_000], rate=2, seconds=1)
    assert sample.messages == 2
    assert sample.percentiles == {"p50": 600, "p95": 600, "p99": 600, "p99.9": 600, "max": 600}
    assert sample.rate_reached == 2
    assert sample.held
    assert sample.lateness["max"] == 7


def test_an_overload_is_not_hidden_by_what_arrives_after_the_window() -> None:
    """Ten messages a second are due, five come in time and the rest when all is over."""
    stamps = [1] + [1 + WARM_UP + number * SECOND // 10 for number in range(10)]
    reads = [1, 2, 5, WARM_UP + SECOND // 2, 5, WARM_UP + 3 * SECOND]
    sample = evaluate(stamps, reads, [0], rate=10, seconds=1)
    assert sample.messages == 10
    assert sample.rate_reached == 5
    assert not sample.held


def test_a_run_from_which_nothing_came_is_refused() -> None:
    with pytest.raises(LoadFailedError):
        evaluate([], [], [], rate=1, seconds=1)
