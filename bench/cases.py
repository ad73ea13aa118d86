"""The cases that are measured for throughput and cost, and the goals set for them."""

import dataclasses

from bench.loader import PLAIN, LoadProcesses
from bench.mixed import mixed
from bench.plan import LoadPlan, acknowledged, fanned_out, paired

MODES = ("transient", "confirm", "fanout4", "fanout16", "mixed", "durable")
SIZES = (100, 1000)
PAIRS = (1, 8)

# Sizes of mixed traffic are its own, so it has no size to be run at.
MIXED_SIZE = 0

# Goals are set for small messages only: at 1000 bytes copying in the kernel is a large part.
GOAL_SIZE = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One load: a mode, a body size, a number of connection pairs (fanout: of groups)."""

    mode: str
    size: int
    pairs: int

    @property
    def name(self) -> str:
        return f"{self.mode}/{self.size or 'any'}/{self.pairs}"

    @property
    def processes(self) -> LoadProcesses:
        if self.mode == "mixed":
            return "bench.mixed_publisher", "bench.mixed_consumer"
        return PLAIN

    def plan(self, host: str, port: int, prefix: str, queue_type: str = "") -> LoadPlan:
        if self.mode == "mixed":
            return mixed(host, port, prefix, self.pairs)
        if self.mode.startswith("fanout"):
            width = int(self.mode.removeprefix("fanout"))
            return fanned_out(host, port, prefix, self.pairs, self.size, width)
        plan = paired(host, port, prefix, self.pairs, self.size)
        if self.mode == "transient":
            return plan
        return acknowledged(plan, durable=self.mode == "durable", queue_type=queue_type)


@dataclasses.dataclass(frozen=True, slots=True)
class Goals:
    """What is asked of one broker in one case; a None is not asked for."""

    rate_ratio_min: float | None = None
    cpu_ratio_max: float | None = None
    microseconds_max: float | None = None
    microseconds_stretch: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """One goal beside what was measured; `met` is None for want of something to compare with."""

    goal: str
    measured: float | None
    met: bool | None


GOALS: dict[tuple[str, str], Goals] = {
    ("penstock", "transient"): Goals(8.0, 1 / 12, 2.5, 1.8),
    ("penstock", "confirm"): Goals(8.0, 1 / 12, 4.0, 3.0),
    ("penstock", "fanout4"): Goals(rate_ratio_min=10.0),
    ("penstock-pure", "transient"): Goals(rate_ratio_min=3.0),
    ("penstock-pure", "confirm"): Goals(rate_ratio_min=3.0),
}


def judge(
    broker: str,
    case: Case,
    microseconds: float,
    rate_ratio: float | None,
    cpu_ratio: float | None,
) -> list[Verdict]:
    goals = GOALS.get((broker, case.mode))
    if goals is None or case.size != GOAL_SIZE:
        return []
    verdicts = []
    if goals.rate_ratio_min is not None:
        met = None if rate_ratio is None else rate_ratio >= goals.rate_ratio_min
        verdicts.append(Verdict(f"rate >= {goals.rate_ratio_min:g}x", rate_ratio, met))
    if goals.cpu_ratio_max is not None:
        met = None if cpu_ratio is None else cpu_ratio <= goals.cpu_ratio_max
        verdicts.append(Verdict(f"CPU <= 1/{1 / goals.cpu_ratio_max:.0f}", cpu_ratio, met))
    if goals.microseconds_max is not None:
        met = microseconds <= goals.microseconds_max
        verdicts.append(Verdict(f"CPU <= {goals.microseconds_max:g} us", microseconds, met))
    if goals.microseconds_stretch is not None:
        met = microseconds <= goals.microseconds_stretch
        verdicts.append(
            Verdict(f"stretch: CPU <= {goals.microseconds_stretch:g} us", microseconds, met)
        )
    return verdicts
