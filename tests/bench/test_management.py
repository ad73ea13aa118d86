"""The bench of the management API judges what it has measured."""

import pytest

from bench.loader import Sample
from bench.management import Pair, Process, judge
from bench.pages import PageCost, table


def sample(cpu_seconds: float) -> Sample:
    return Sample(10.0, 1_000_000, 1_000_000, 1_000_000, cpu_seconds, 1.0)


def pair(cpu_seconds: float) -> Pair:
    """Of a broker that takes this much while it is asked, where all others take 2."""
    calm = Process(sample(2.0), sample(2.0))
    return Pair(calm, Process(sample(2.0), sample(cpu_seconds)), [0.1, 0.3])


def test_the_figure_is_the_median_of_the_ratios_within_the_pairs() -> None:
    judged = judge([pair(cpu) for cpu in (2.02, 2.04, 3.0)])
    assert judged["ratio"] == 1.02
    assert judged["is_within_limit"]
    assert judged["slowest_answer_seconds"] == 0.3


def test_more_than_three_percent_is_too_much() -> None:
    assert not judge([pair(2.08)])["is_within_limit"]


def test_what_both_processes_have_in_common_is_no_cost() -> None:
    slower = Process(sample(2.2), sample(2.42))
    both = Pair(Process(sample(2.0), sample(2.2)), slower, [0.1])
    assert judge([both])["ratio"] == 1.0


@pytest.mark.parametrize(
    ("seconds", "stop_ms", "is_good"), [(0.5, 4.0, True), (1.5, 4.0, False), (0.5, 6.0, False)]
)
def test_a_page_is_shown_with_what_it_stopped(
    seconds: float, stop_ms: float, is_good: bool
) -> None:
    page = PageCost("/api/queues", seconds, 10, 1.0, stop_ms, 0.0)
    assert page.is_good is is_good
    line = table([page])[1]
    assert f"{seconds:.3f}" in line and f"{stop_ms:.2f}" in line
    assert ("TOO LONG" in line) is not is_good
