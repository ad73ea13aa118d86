"""What looking at a broker costs: `python -m bench.management`.

    python -m bench.management --build FOLDER --json FILE
    python -m bench.management --build FOLDER --parts pages

`cost`: with a thousand queues and a thousand connections, `/metrics` and `/api/queues` are requested
every five seconds while messages flow, beside a broker that nobody asks. Two processes of the same
program differ by some percent, so each is measured twice: first while nobody asks either of them, then
while one of them is asked. Of every pair the figure is how much more the CPU time per message grew
in the one that was asked. The result is the median over the pairs, whose order is turned; the rates
stand beside it. Scraping begins before its window does, so imports are not in it, but sampling is.

`pages`: with ten thousand queues and bindings, pages are requested one after the other from a broker
that measures the turns of its event loop (`bench.turns`). A table says how long each page took, the
CPU time of the longest step of the loop, and for how long the loop was stopped at most. The first
line is the same without a request.

Seven pairs of `cost` take about six minutes, `pages` half a minute.
"""

import argparse
import dataclasses
import json
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final, Self

from bench.cases import Case
from bench.loader import Sample, measure
from bench.machine import load_average, machine_facts
from bench.pages import measure_pages, table
from bench.running import HOST
from bench.session import Session
from bench.watched import WatchedPenstock

# What the project promises: the message path loses less than this.
LIMIT: Final = 1.03

QUEUES: Final = 1_000
CONNECTIONS: Final = 1_000
ASK_SECONDS: Final = 5.0
ASKED: Final = ("/metrics", "/api/queues")


class Asking:
    """Requests pages every few seconds, from a thread. A context manager."""

    def __init__(self, broker: WatchedPenstock, is_asking: bool) -> None:
        self._broker = broker
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run) if is_asking else None
        self.seconds: list[float] = []

    def __enter__(self) -> Self:
        if self._thread is not None:
            # Imports the HTTP libraries.
            self._ask()
            self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            due += ASK_SECONDS
            self._ask()

    def _ask(self) -> None:
        self.seconds += [self._broker.get(path)[0] for path in ASKED]


@dataclasses.dataclass(slots=True)
class Process:
    """The same load twice on one broker: while nobody asked it, and later."""

    before: Sample
    after: Sample

    @property
    def growth(self) -> float:
        return self.after.broker_microseconds / self.before.broker_microseconds

    @property
    def rate_growth(self) -> float:
        return self.after.rate / self.before.rate


@dataclasses.dataclass(slots=True)
class Pair:
    """A broker that nobody asks, and one that is asked in its second window."""

    without: Process
    with_: Process
    answer_seconds: list[float]

    @property
    def ratio(self) -> float:
        return self.with_.growth / self.without.growth

    @property
    def rate_ratio(self) -> float:
        return self.with_.rate_growth / self.without.rate_growth


def run_once(
    build: Path | None, case: Case, seconds: float, is_asked: bool
) -> tuple[Process, list[float]]:
    broker = WatchedPenstock(build)
    idle: list[Session] = []
    try:
        admin = Session(HOST, broker.port)
        admin.declare_queues([f"idle.{number}" for number in range(QUEUES)], durable=False)
        idle += [admin, *(Session(HOST, broker.port) for _ in range(CONNECTIONS - 1))]
        plan = case.plan(HOST, broker.port, "bench.management")
        before = measure(plan, broker.pid, seconds, processes=case.processes)
        with Asking(broker, is_asked) as asking:
            after = measure(plan, broker.pid, seconds, processes=case.processes)
        return Process(before, after), asking.seconds
    finally:
        for session in idle:
            session.socket.close()
        broker.stop()


def measure_cost(build: Path | None, case: Case, pairs: int, seconds: float) -> list[Pair]:
    found: list[Pair] = []
    for number in range(pairs):
        processes: dict[bool, Process] = {}
        answers: list[float] = []
        for is_asked in (False, True) if number % 2 == 0 else (True, False):
            processes[is_asked], took = run_once(build, case, seconds, is_asked)
            answers += took
        found.append(Pair(processes[False], processes[True], answers))
        sys.stdout.write(
            f"  pair {number + 1}: {found[-1].ratio:.4f} ({found[-1].without.growth:.4f} without,"
            f" {found[-1].with_.growth:.4f} with)\n"
        )
        sys.stdout.flush()
    return found


def judge(pairs: list[Pair]) -> dict[str, Any]:
    ratio = statistics.median(pair.ratio for pair in pairs)
    return {
        "ratio": round(ratio, 4),
        "ratios": [round(pair.ratio, 4) for pair in pairs],
        "rate_ratio": round(statistics.median(pair.rate_ratio for pair in pairs), 4),
        "rate_ratios": [round(pair.rate_ratio, 4) for pair in pairs],
        "microseconds_without": round(
            statistics.median(pair.with_.before.broker_microseconds for pair in pairs), 4
        ),
        "microseconds_with": round(
            statistics.median(pair.with_.after.broker_microseconds for pair in pairs), 4
        ),
        "slowest_answer_seconds": max(max(pair.answer_seconds) for pair in pairs),
        "is_within_limit": ratio <= LIMIT,
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.management", description=__doc__)
    parser.add_argument("--build", type=Path, help="folder with the package in it")
    parser.add_argument("--parts", default="cost,pages")
    parser.add_argument("--mode", default="confirm", help="the load, as in the tables of the bench")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each window")
    parser.add_argument("--json", type=Path, help="file to write every figure to")
    options = parser.parse_args(arguments)
    results: dict[str, Any] = {"machine": machine_facts(), "load_before": load_average()}
    is_good = True
    if "cost" in options.parts:
        case = Case(options.mode, 100, 1)
        judged = judge(measure_cost(options.build, case, options.pairs, options.seconds))
        results["cost"] = {"case": case.name, **judged}
        is_good = judged["is_within_limit"]
        sys.stdout.write(
            f"{case.name}: {judged['ratio']:.3f}x the CPU time of a message, {judged['rate_ratio']:.3f}x"
            f" the rate{'' if is_good else ' TOO MUCH'}\n"
        )
    if "pages" in options.parts:
        pages = measure_pages(options.build)
        results["pages"] = [dataclasses.asdict(page) for page in pages]
        sys.stdout.write("\n".join(table(pages)) + "\n")
        is_good = is_good and all(page.is_good for page in pages)
    results["load_after"] = load_average()
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
