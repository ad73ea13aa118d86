"""What is concluded from samples with and without a ledger."""

from bench.cases import Case
from bench.ledger import COST_GOAL, Measured, judged
from bench.loader import Sample

CASE = Case("transient", 100, 1)


def sample(microseconds: float, delivered: int = 1_000_000) -> Sample:
    return Sample(1.0, delivered, 0, delivered, microseconds * delivered / 1e6, 0.0)


def test_the_cost_is_the_median_of_ratios_within_rounds() -> None:
    without = [sample(1.0), sample(2.0), sample(4.0)]
    # A neighbour disturbs the second round of the one and the third of both.
    found = judged(Measured(CASE, without, [sample(1.03), sample(3.0), sample(4.12)], 3_000_000))
    assert found["costs"] == [0.03, 0.5, 0.03]
    assert found["cost"] == 0.03
    assert found["reaches_goal"]
    assert found["octets_per_message"] == 1.0
    assert (found["microseconds_without"], found["microseconds_with"]) == (2.0, 3.0)


def test_a_cost_of_a_twentieth_is_too_much() -> None:
    found = judged(Measured(CASE, [sample(1.0)], [sample(1.0 + COST_GOAL + 0.001)]))
    assert not found["reaches_goal"]
