"""The goals of a broker in a case, and whether they were reached."""

import dataclasses

from bench.cases import SIZES, Case

# Most goals are set for small messages only: at 1000 bytes copying in the kernel is a large part.
GOAL_SIZE = 100

# Of a queue with that many messages: draining beside the rate without them, and the most memory.
BACKLOG_MESSAGES = 10_000_000
DRAIN_RATIO_MIN = 0.8
BACKLOG_RESIDENT_BYTES_MAX = 500_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Goals:
    """The goals of one broker in one case; None for no goal."""

    rate_ratio_min: float | None = None
    cpu_ratio_max: float | None = None
    microseconds_max: float | None = None
    microseconds_stretch: float | None = None
    rate_sizes: tuple[int, ...] = (GOAL_SIZE,)


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """One goal beside what was measured; `met` is None if there is nothing to compare with."""

    goal: str
    measured: float | None
    met: bool | None


@dataclasses.dataclass(frozen=True, slots=True)
class Ratios:
    """Beside the reference broker, and its rate with quorum queues; None where it was not run."""

    rate: float | None = None
    cpu: float | None = None
    quorum_rate: float | None = None


GOALS: dict[tuple[str, str], Goals] = {
    ("penstock", "transient"): Goals(8.0, 1 / 12, 2.5, 1.8),
    ("penstock", "confirm"): Goals(8.0, 1 / 12, 4.0, 3.0),
    ("penstock", "tls"): Goals(8.0, rate_sizes=(1000,)),
    ("penstock", "fanout4"): Goals(rate_ratio_min=10.0),
    ("penstock", "amqp10"): Goals(8.0, None, 5.0),
    ("penstock-data", "durable"): Goals(8.0, None, 5.0, rate_sizes=SIZES),
    ("penstock-pure", "transient"): Goals(rate_ratio_min=3.0),
    ("penstock-pure", "confirm"): Goals(rate_ratio_min=3.0),
}


def judge(broker: str, case: Case, microseconds: float, ratios: Ratios) -> list[Verdict]:
    goals = GOALS.get((broker, case.mode))
    if goals is None:
        return []
    verdicts = []
    if goals.rate_ratio_min is not None and case.size in goals.rate_sizes:
        goal = f"rate >= {goals.rate_ratio_min:g}x"
        verdicts.append(at_least(goal, ratios.rate, goals.rate_ratio_min))
        if ratios.quorum_rate is not None:
            goal += " quorum"
            verdicts.append(at_least(goal, ratios.quorum_rate, goals.rate_ratio_min))
    if case.size != GOAL_SIZE:
        return verdicts
    if goals.cpu_ratio_max is not None:
        goal = f"CPU <= 1/{1 / goals.cpu_ratio_max:.0f}"
        verdicts.append(at_most(goal, ratios.cpu, goals.cpu_ratio_max))
    if goals.microseconds_max is not None:
        goal = f"CPU <= {goals.microseconds_max:g} us"
        verdicts.append(at_most(goal, microseconds, goals.microseconds_max))
    if goals.microseconds_stretch is not None:
        goal = f"stretch: CPU <= {goals.microseconds_stretch:g} us"
        verdicts.append(at_most(goal, microseconds, goals.microseconds_stretch))
    return verdicts


def at_least(goal: str, measured: float | None, limit: float) -> Verdict:
    return Verdict(goal, measured, None if measured is None else measured >= limit)


def at_most(goal: str, measured: float | None, limit: float) -> Verdict:
    return Verdict(goal, measured, None if measured is None else measured <= limit)
