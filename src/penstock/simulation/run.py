"""Runs a seed and returns a verdict. The only place in this room that creates random numbers."""

import hashlib
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.cluster.rules import ALL_RULES, ElectionRules
from penstock.ha.rules import ALL_RULES as ALL_HA_RULES
from penstock.ha.rules import HaRules
from penstock.simulation.cluster_run import ClusterRun, MemberFactory
from penstock.simulation.cluster_scenarios import CLUSTER_SCENARIOS
from penstock.simulation.dice import Dice
from penstock.simulation.protocol.ledger import Violation
from penstock.simulation.protocol.protocol_run import ProtocolRun
from penstock.simulation.protocol.rules import ProtocolRules
from penstock.simulation.scenarios import SCENARIOS
from penstock.simulation.simulated_run import HostFactory, SimulatedRun

# Long enough for half a dozen faults and for publishers to send most of their messages.
SECONDS: Final = 8
# The scenario that runs a cluster's protocol over a toy state, and how long its trouble lasts: a
# dozen faults and two or three elections.
PROTOCOL: Final = "protocol"
PROTOCOL_MS: Final = 4000
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
    # Faults that there were, or would have been.
    fault_count: int = 0

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
    seed: int,
    scenario: str,
    seconds: int = SECONDS,
    make_host: HostFactory | None = None,
    skipped: frozenset[int] = frozenset(),
) -> Verdict:
    """Run one seed without the faults of these numbers. An exception is a violation like any
    other.
    """
    if scenario in CLUSTER_SCENARIOS:
        return run_cluster_seed(seed, scenario, seconds, skipped)
    simulated = SimulatedRun(
        SCENARIOS[scenario], Dice(make_source, f"{scenario}/{seed}"), make_host, skipped
    )
    return _played(simulated, seed, scenario, seconds)


def run_cluster_seed(
    seed: int,
    scenario: str,
    seconds: int = SECONDS,
    skipped: frozenset[int] = frozenset(),
    election_rules: ElectionRules = ALL_RULES,
    ha_rules: HaRules = ALL_HA_RULES,
    make_host: MemberFactory | None = None,
) -> Verdict:
    """The same for a cluster, perhaps with a rule of the protocol switched off."""
    dice = Dice(make_source, f"{scenario}/{seed}")
    simulated = ClusterRun(
        CLUSTER_SCENARIOS[scenario], dice, skipped, election_rules, ha_rules, make_host
    )
    return _played(simulated, seed, scenario, seconds)


def _played(
    simulated: SimulatedRun | ClusterRun, seed: int, scenario: str, seconds: int
) -> Verdict:
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
        simulated.fault_count,
    )


def run_protocol_seed(
    seed: int, milliseconds: int = PROTOCOL_MS, off: str = "", aim: str = ""
) -> Verdict:
    """Run one seed of a cluster's protocol over a toy state, with one rule switched off or none, and
    with faults that are aimed at a rule or are random.
    """
    run = ProtocolRun(Dice(make_source, f"{PROTOCOL}{aim}/{seed}"), ProtocolRules(off), aim)
    violations: list[str] = []
    try:
        run.play(milliseconds)
    except Violation as violation:
        violations.append(str(violation))
    except Exception as error:
        violations.append("".join(traceback.format_exception(error)))
    world = run.world
    return Verdict(
        seed,
        PROTOCOL,
        tuple(violations),
        hashlib.sha256("\n".join(world.lines).encode()).hexdigest(),
        tuple(world.lines),
        dict(world.ledger.sightings),
        world.clock.microseconds / 1_000_000,
    )


def scenario_of(seed: int) -> str:
    """The default scenario of a seed: all in turn."""
    names = list(SCENARIOS)
    return names[seed % len(names)]
