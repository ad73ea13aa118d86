"""The bench of the management API judges what it has measured."""

from bench.loader import Sample
from bench.management import Pair, judge, page_line


def sample(cpu_seconds: float) -> Sample:
    return Sample(10.0, 1_000_000, 1_000_000, 1_000_000, cpu_seconds, 1.0)


def test_the_figure_is_the_median_of_the_ratios_within_the_pairs() -> None:
    pairs = [Pair(sample(2.0), sample(cpu), [0.1, 0.3]) for cpu in (2.02, 2.04, 3.0)]
    judged = judge(pairs)
    assert judged["ratio"] == 1.02
    assert judged["is_within_limit"]
    assert judged["slowest_answer_seconds"] == 0.3


def test_more_than_three_percent_is_too_much() -> None:
    assert not judge([Pair(sample(2.0), sample(2.08), [0.1])])["is_within_limit"]


def test_a_page_is_shown_with_the_round_trips_beside_it() -> None:
    page = {"case": "/api/queues", "median": 0.1, "p99": 1.0, "longest": 4.0}
    assert "longest 4.00" in page_line(page)
    page = {**page, "answer_seconds": 0.5, "answer_bytes": 10}
    assert "0.500 s" in page_line(page)
