"""Two builds of this broker compared: the cost of a message with the new one relative to the old
one.

    python -m bench.pairs --old FOLDER --new FOLDER
    python -m bench.pairs --old FOLDER --new FOLDER --cases mixed,mixed/any/8 --pairs 7 --json FILE

A build is a folder with the package `penstock` in it, usually a compiled copy. Every pair starts the
old build, the new one and the old one once more, since two processes of the same program differ by
some percent, for good, by where their memory happens to lie. It puts the same load on each, one
directly after the other, in turned order. The figure is the median over the pairs of the ratio of CPU
time per message. Beside it stands the spread: by how much, in the median, the two runs of the old
build differ. The command ends with code 1 when a case costs more than `--limit` and the spread allow.
"""

import argparse
import dataclasses
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.brokers import Penstock, PenstockWithData
from bench.cases import DURABLE_MODES, MIXED_MODES, MIXED_SIZE, MODES, Case
from bench.loader import Sample, measure
from bench.machine import load_average, machine_facts
from bench.plan import STREAM, streamed
from bench.running import HOST, RunningBroker
from bench.stream import APPEND_MODE, READ_MODE, measure_stream

# The project's own limit for a change that is not about speed: what a reader would not notice, and
# little more than two runs of one build differ by.
LIMIT: Final = 1.03

DEFAULT_CASES: Final = (
    "transient,confirm,fanout4,mixed,mixed/any/8,durable,mixed-durable,amqp10,stream"
)
SIZE: Final = 100

OLD: Final = "old"
NEW: Final = "new"
OLD_AGAIN: Final = "old again"
BUILDS: Final = (OLD, NEW, OLD_AGAIN)

# CPU microseconds per message of each build, pair by pair.
Costs = dict[str, list[float]]


@dataclasses.dataclass(slots=True)
class Compared:
    """The samples of one case, by build and pair."""

    name: str
    samples: dict[str, list[Sample]]

    def costs(self) -> Costs:
        return {
            build: [sample.broker_microseconds for sample in samples]
            for build, samples in self.samples.items()
        }


def parse_case(text: str) -> Case:
    """From `mode`, `mode/bytes` or `mode/bytes/pairs`, as the tables of the bench write it."""
    mode, size, pairs = (*text.split("/"), "", "")[:3]
    if mode not in (*MODES, STREAM):
        raise ValueError(f"unknown case: {mode}; known: {', '.join((*MODES, STREAM))}")
    if mode in MIXED_MODES:
        return Case(mode, MIXED_SIZE, int(pairs or 1))
    return Case(mode, int(size or SIZE), int(pairs or 1))


def judge(costs: Costs, limit: float = LIMIT) -> dict[str, Any]:
    """Ratios are taken within a pair, where all had the same neighbours; the old build counts with
    the mean of its two runs.
    """
    runs = list(zip(costs[OLD], costs[NEW], costs[OLD_AGAIN], strict=True))
    ratios = [new / ((old + again) / 2) for old, new, again in runs]
    differences = [abs(again / old - 1) for old, _, again in runs]
    ratio, spread = statistics.median(ratios), statistics.median(differences)
    return {
        "ratio": round(ratio, 4),
        "spread": round(spread, 4),
        "ratios": [round(each, 4) for each in ratios],
        "old_against_old": [round(again / old, 4) for old, _, again in runs],
        "microseconds_old": round(statistics.median(costs[OLD] + costs[OLD_AGAIN]), 4),
        "microseconds_new": round(statistics.median(costs[NEW]), 4),
        "is_within_limit": ratio <= limit + spread,
    }


def run_once(
    case: Case, build: Path, seconds: float, start: Callable[[Case, Path], RunningBroker]
) -> dict[str, Sample]:
    """One sample on a broker of its own; a stream has two, for appending and reading."""
    broker = start(case, build)
    try:
        if case.mode == STREAM:
            plan = streamed(HOST, broker.port, "bench.pairs", case.pairs, case.size)
            sample = measure_stream(plan, broker.pid, seconds)
            rest = f"{case.size}/{case.pairs}"
            return {f"{APPEND_MODE}/{rest}": sample.append, f"{READ_MODE}/{rest}": sample.read}
        plan = case.plan(HOST, broker.port, "bench.pairs")
        return {case.name: measure(plan, broker.pid, seconds, processes=case.processes)}
    finally:
        broker.stop()


def start_build(case: Case, build: Path) -> RunningBroker:
    kind = PenstockWithData if case.mode in (*DURABLE_MODES, STREAM) else Penstock
    return kind(build)


def run_case(
    case: Case,
    builds: dict[str, Path],
    pairs: int,
    seconds: float,
    start: Callable[[Case, Path], RunningBroker] = start_build,
) -> list[Compared]:
    found: dict[str, Compared] = {}
    for number in range(pairs):
        turn = number % len(BUILDS)
        for build in BUILDS[turn:] + BUILDS[:turn]:
            for name, sample in run_once(case, builds[build], seconds, start).items():
                compared = found.setdefault(name, Compared(name, {each: [] for each in BUILDS}))
                compared.samples[build].append(sample)
    return list(found.values())


def line(name: str, judged: dict[str, Any]) -> str:
    return (
        f"{name}: {judged['ratio']:.3f}x"
        f" ({judged['microseconds_old']:.3f} us old, {judged['microseconds_new']:.3f} us new,"
        f" old against old {judged['spread']:.1%})"
        f"{'' if judged['is_within_limit'] else ' TOO MUCH'}"
    )


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.pairs", description=__doc__)
    parser.add_argument("--old", type=Path, required=True, help="folder of the old build")
    parser.add_argument("--new", type=Path, required=True, help="folder of the new build")
    parser.add_argument("--cases", default=DEFAULT_CASES, help="mode/bytes/pairs, comma-separated")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--limit", type=float, default=LIMIT, help="largest ratio that passes")
    parser.add_argument("--json", type=Path, help="file to write every sample to")
    options = parser.parse_args(arguments)
    for build in (options.old, options.new):
        if not (build / "penstock" / "__init__.py").exists():
            parser.error(
                f"{build} does not contain the package penstock; name the folder of a build"
            )
    try:
        options.cases = [parse_case(text) for text in options.cases.split(",")]
    except ValueError as error:
        parser.error(str(error))
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    facts = machine_facts()
    old, new = options.old.resolve(), options.new.resolve()
    builds = {OLD: old, NEW: new, OLD_AGAIN: old}
    told: list[dict[str, Any]] = []
    for case in options.cases:
        for compared in run_case(case, builds, options.pairs, options.seconds):
            judged = judge(compared.costs(), options.limit)
            print(line(compared.name, judged), flush=True)
            samples = {
                build: [dataclasses.asdict(sample) for sample in taken]
                for build, taken in compared.samples.items()
            }
            told.append({"case": compared.name, **judged, "samples": samples})
    if options.json is not None:
        document = {
            "machine": {**facts, "load_average_after": load_average()},
            "pairs": options.pairs,
            "seconds": options.seconds,
            "limit": options.limit,
            "cases": told,
        }
        options.json.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return 0 if all(case["is_within_limit"] for case in told) else 1


if __name__ == "__main__":
    sys.exit(main())
