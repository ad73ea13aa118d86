"""The model that routes: the specification's own examples of topic patterns."""

import pytest

from penstock.simulation.plans import matches
from penstock.simulation.scenarios import PLAIN, SCENARIOS


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("*.stock.#", "usd.stock", True),
        ("*.stock.#", "eur.stock.db", True),
        ("*.stock.#", "stock.nasdaq", False),
        ("#", "", True),
        ("*", "", False),
        ("#.a.#", "b.a", True),
        ("#.a.#", "b.c", False),
        ("cpu.#", "cpu", True),
    ],
)
def test_topic_patterns_match_as_the_specification_says(
    pattern: str, key: str, expected: bool
) -> None:
    assert matches("topic", pattern, key) is expected


def test_a_queue_that_matches_twice_gets_a_message_once() -> None:
    assert PLAIN.queues_for("news", "") == ("beta", "gamma")
    assert PLAIN.queues_for("", "alpha") == ("alpha",)
    assert PLAIN.queues_for("orders", "nobody") == ()


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_has_routes_to_a_queue_and_to_none(name: str) -> None:
    topology = SCENARIOS[name].topology
    reached = {bool(topology.queues_for(*route)) for route in topology.routes}
    assert reached == {True, False}
