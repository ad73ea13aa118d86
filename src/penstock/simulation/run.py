"""Runs a seed and returns a verdict. The only place in this room that creates random numbers."""

import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.simulation.dice import Dice
from penstock.simulation.scenarios import SCENARIOS
from penstock.simulation.simulated_run import HostFactory, SimulatedRun

# Long enough for half a dozen faults and for publishers to send most of their messages.
SECONDS: Final = 8
# How much of a failed run is printed: the lines before its end.
TAIL_LINES: Final = 40


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run went."""

    seed: int
    scenario: str
    violations: tuple[str, ...]
    digest: str
    lines: tuple[str, ...]
    sightings: dict[str, int]
    virtual_seconds: float

    @property
    def is_good(self) -> bool:
        return not self.violations

    @property
    def tail(self) -> tuple[str, ...]:
        return self.lines[-TAIL_LINES:]


def make_source(name: str) -> Callable[[], float]:
    # A text as seed is hashed by the library itself, so PYTHONHASHSEED does not matter.
    return random.Random(name).random


def run_seed(
    seed: int, scenario: str, seconds: int = SECONDS, make_host: HostFactory | None = None
) -> Verdict:
    """Run one seed. An exception is a violation like any other."""
    simulated = SimulatedRun(
        SCENARIOS[scenario], Dice(make_source, f"{scenario}/{seed}"), make_host
    )
    violations: list[str] = []
    try:
        simulated.play(seconds)
    except Exception as error:
        violations.append("".join(traceback.format_exception(error)))
    violations += simulated.violations()
    history = simulated.history
    return Verdict(
        seed,
        scenario,
        tuple(violations),
        history.digest(),
        tuple(history.lines),
        dict(history.sightings),
        simulated.clock.microseconds / 1_000_000,
    )


def scenario_of(seed: int) -> str:
    """The default scenario of a seed: all in turn."""
    names = list(SCENARIOS)
    return names[seed % len(names)]
