"""What the ledger costs: the same broker with and without `--ledger`, in alternation.

    python -m bench.ledger
    python -m bench.ledger --cases transient,durable,mixed --rounds 15 --seconds 2 --json FILE

Both have a data directory, so nothing differs but the ledger. Each round starts both anew, since two
processes of the same program differ by some percent, for good, by where their memory happens to lie.
It measures them on the same load, one directly after the other, in turned order. The figure is the
median over the rounds of the ratio of CPU per message; rates are shown and not judged, since they
depend on the other load of the machine. It ends with code 1 when a case costs more than the goal.
"""

import argparse
import dataclasses
import json
import statistics
import sys
from pathlib import Path
from typing import Any, Final

from bench.brokers import PenstockWithData
from bench.cases import MIXED_MODES, MIXED_SIZE, MODES, Case
from bench.loader import Sample, measure
from bench.machine import load_average, machine_facts
from bench.running import HOST, RunningBroker, disk_bytes

# The project's goal: less than a twentieth of the message path.
COST_GOAL: Final = 0.05
SIZE: Final = 100


class PenstockWithLedger(PenstockWithData):
    """The same broker with a ledger of every message."""

    name = "penstock-ledger"

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), "--ledger"]

    def ledger_bytes(self) -> int:
        return disk_bytes(self._data / "ledger")


@dataclasses.dataclass(slots=True)
class Measured:
    """Samples of one case, by round; and what the ledger grew by."""

    case: Case
    without: list[Sample] = dataclasses.field(default_factory=list)
    with_ledger: list[Sample] = dataclasses.field(default_factory=list)
    grown: int = 0

    def measure(
        self, number: int, plain: RunningBroker, ledger: PenstockWithLedger, seconds: float
    ) -> None:
        before = ledger.ledger_bytes()
        pair: list[tuple[RunningBroker, list[Sample]]]
        pair = [(plain, self.without), (ledger, self.with_ledger)]
        for broker, samples in pair if number % 2 == 0 else reversed(pair):
            plan = self.case.plan(HOST, broker.port, f"bench.ledger.{number}")
            samples.append(measure(plan, broker.pid, seconds, processes=self.case.processes))
        self.grown += ledger.ledger_bytes() - before


def judged(measured: Measured) -> dict[str, Any]:
    """Ratios are taken within a round, where both had the same neighbours."""
    without, with_ledger = measured.without, measured.with_ledger
    ratios = [
        b.broker_microseconds / a.broker_microseconds
        for a, b in zip(without, with_ledger, strict=True)
    ]
    cost = statistics.median(ratios) - 1
    return {
        "case": measured.case.name,
        "cost": round(cost, 4),
        "costs": [round(ratio - 1, 4) for ratio in ratios],
        "microseconds_without": round(middle(without), 4),
        "microseconds_with": round(middle(with_ledger), 4),
        "rate_without": round(statistics.median(sample.rate for sample in without)),
        "rate_with": round(statistics.median(sample.rate for sample in with_ledger)),
        # Warm-up and drain are not in the count of messages, so this is an upper bound.
        "octets_per_message": round(
            measured.grown / sum(sample.delivered for sample in with_ledger), 3
        ),
        "reaches_goal": cost < COST_GOAL,
        "without": [dataclasses.asdict(sample) for sample in without],
        "with": [dataclasses.asdict(sample) for sample in with_ledger],
    }


def middle(samples: list[Sample]) -> float:
    return statistics.median(sample.broker_microseconds for sample in samples)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.ledger", description=__doc__)
    parser.add_argument("--cases", default="transient,confirm,durable,mixed")
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    modes = chosen.cases.split(",")
    if unknown := set(modes) - set(MODES):
        parser.error(f"unknown case: {', '.join(sorted(unknown))}; known: {', '.join(MODES)}")
    facts = machine_facts()
    cases = [
        Measured(Case(mode, MIXED_SIZE if mode in MIXED_MODES else SIZE, chosen.pairs))
        for mode in modes
    ]
    version = ""
    for number in range(chosen.rounds):
        plain, ledger = PenstockWithData(), PenstockWithLedger()
        version = ledger.version
        try:
            for measured in cases:
                measured.measure(number, plain, ledger, chosen.seconds)
        finally:
            plain.stop()
            ledger.stop()
    samples = [judged(measured) for measured in cases]
    print(f"{version}, {chosen.rounds} rounds of {chosen.seconds:g} s each way")
    for sample in samples:
        print(
            f"{sample['case']}: {sample['microseconds_without']:.3f} us without, "
            f"{sample['microseconds_with']:.3f} us with, cost {sample['cost']:+.1%}, "
            f"{sample['octets_per_message']} octets a message"
        )
    if chosen.json is not None:
        told = {
            "machine": {**facts, "load_average_after": load_average()},
            "version": version,
            "goal": COST_GOAL,
            "ledger": samples,
        }
        chosen.json.write_text(json.dumps(told, indent=1), encoding="utf-8")
    return 0 if all(sample["reaches_goal"] for sample in samples) else 1


if __name__ == "__main__":
    sys.exit(main())
