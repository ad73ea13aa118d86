"""What healthy means, by a clock that is moved by hand."""

import pytest

from penstock.server.health import (
    FAILURE_SHOWN_MS,
    FLUSH_MS_MAX,
    NOT_FLUSHING,
    TICK_MS_MAX,
    Health,
)
from tests.server.doubles import HandClock


class Patient:
    """A broker's health, its clock and its disk. Held by one test."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.health = Health(self.clock)
        self.flushing_since = NOT_FLUSHING
        self.health.flushing_since = lambda: self.flushing_since

    def pass_time(self, milliseconds: int, *, ticks: bool = True) -> None:
        self.clock.milliseconds += milliseconds
        if ticks:
            self.health.tick_completed(self.clock.now())


def test_a_broker_that_completes_its_ticks_is_healthy() -> None:
    patient = Patient()
    for _ in range(10):
        patient.pass_time(TICK_MS_MAX)
        assert not patient.health.problem()


def test_a_broker_that_completes_none_is_not_from_its_start_on() -> None:
    patient = Patient()
    patient.pass_time(TICK_MS_MAX, ticks=False)
    assert not patient.health.problem()
    patient.pass_time(1, ticks=False)
    assert "the broker's event loop has not completed a tick for 10 s" in patient.health.problem()
    patient.pass_time(0)
    assert not patient.health.problem()


def test_a_flush_that_is_not_reported_in_time_is_a_problem_until_it_is() -> None:
    patient = Patient()
    patient.flushing_since = patient.clock.now()
    patient.pass_time(FLUSH_MS_MAX)
    assert not patient.health.problem()
    patient.pass_time(1)
    assert "a flush to disk has been running for 30 s" in patient.health.problem()
    patient.flushing_since = NOT_FLUSHING
    assert not patient.health.problem()


def test_a_failure_is_shown_at_once_and_long_enough_to_be_seen() -> None:
    patient = Patient()
    patient.health.failed("dispatching", patient.clock.now())
    assert "while dispatching" in patient.health.problem()
    patient.pass_time(FAILURE_SHOWN_MS - 1)
    assert patient.health.problem()
    patient.pass_time(1)
    assert not patient.health.problem()


@pytest.mark.parametrize("limit", [TICK_MS_MAX, FLUSH_MS_MAX])
def test_no_limit_is_so_short_that_a_busy_machine_is_taken_for_a_sick_one(limit: int) -> None:
    assert limit >= 10_000
