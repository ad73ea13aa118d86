"""Who is measured in which case."""

import pytest

from bench.targets import durable_brokers, needed


@pytest.mark.parametrize(
    ("cases", "wanted"),
    [
        (["transient"], ["rabbitmq", "penstock"]),
        (["durable"], ["rabbitmq", "penstock-data"]),
        (["mixed-durable"], ["rabbitmq", "penstock-data"]),
        (["stream"], ["rabbitmq", "penstock-data"]),
        (["latency", "durable"], ["rabbitmq", "penstock", "penstock-data"]),
        (["backlog", "recovery"], []),
    ],
)
def test_only_the_brokers_that_the_cases_need_are_started(
    cases: list[str], wanted: list[str]
) -> None:
    assert needed(cases, ["rabbitmq", "penstock"]) == wanted


def test_durability_is_measured_with_a_data_directory_and_not_on_the_pure_build() -> None:
    names = ["penstock", "penstock-pure", "rabbitmq", "penstock-data"]
    assert durable_brokers(names) == ["penstock-data", "rabbitmq"]
