"""What looking at a broker costs: `python -m bench.management`.

    python -m bench.management --build FOLDER --json FILE
    python -m bench.management --build FOLDER --parts pages

`cost`: with a thousand queues and a thousand connections, `/metrics` and `/api/queues` are requested
every five seconds while messages flow, beside a broker that nobody asks. Every pair starts both, in
turned order, since two processes of the same program differ by some percent. The figure is the median
over the pairs of the ratio of CPU time per message; the rates stand beside it.

`pages`: with ten thousand queues, pages are requested one after the other, while a prober sends a
small message to itself again and again. The longest round trip tells for how long the broker served
nobody else; the first line is the same time without a request.
"""

import argparse
import base64
import dataclasses
import json
import re
import statistics
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any, Final, Self

from bench.brokers import Penstock
from bench.cases import Case
from bench.fairness import RoundTrips, probed
from bench.loader import Sample, measure
from bench.machine import load_average, machine_facts
from bench.running import HOST
from bench.session import Session

# What the project promises: the message path loses less than this, and pages come within a second.
LIMIT: Final = 1.03
PAGE_SECONDS_MAX: Final = 1.0

QUEUES: Final = 1_000
CONNECTIONS: Final = 1_000
MANY_QUEUES: Final = 10_000
ASK_SECONDS: Final = 5.0
ASKED: Final = ("/metrics", "/api/queues")
# Pages that grow with the number of queues.
PAGES: Final = (
    "/api/overview",
    "/api/queues",
    "/api/queues?page=1&page_size=100&sort=messages&sort_reverse=true",
    "/api/queues?columns=name,messages",
    "/api/queues?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5",
    "/api/bindings",
    "/api/vhosts",
    "/api/nodes",
    "/metrics",
)
REPEATS: Final = 5
ANSWER_SECONDS: Final = 60.0
_HTTP: Final = re.compile(r" http=\S+:(\d+)")


class WatchedPenstock(Penstock):
    """A broker whose HTTP port is known."""

    name = "penstock-watched"

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), "--http-port", "0"]

    def get(self, path: str) -> tuple[float, int]:
        """How long the answer took, and its size."""
        found = _HTTP.search(self._output())
        assert found is not None, "the ready line names the HTTP port"
        login = base64.b64encode(b"guest:guest").decode()
        request = urllib.request.Request(
            f"http://{HOST}:{found[1]}{path}", headers={"Authorization": f"Basic {login}"}
        )
        began = time.perf_counter()
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            size = len(answer.read())
        return time.perf_counter() - began, size


class Asking:
    """Requests pages every few seconds, from a thread. A context manager."""

    def __init__(self, broker: WatchedPenstock, is_asking: bool) -> None:
        self._broker = broker
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run) if is_asking else None
        self.seconds: list[float] = []

    def __enter__(self) -> Self:
        if self._thread is not None:
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
            self.seconds += [self._broker.get(path)[0] for path in ASKED]


@dataclasses.dataclass(slots=True)
class Pair:
    """The same load on a broker that nobody asks and on one that is asked."""

    without: Sample
    with_: Sample
    answer_seconds: list[float]

    @property
    def ratio(self) -> float:
        return self.with_.broker_microseconds / self.without.broker_microseconds

    @property
    def rate_ratio(self) -> float:
        return self.with_.rate / self.without.rate


def run_once(
    build: Path | None, case: Case, seconds: float, is_asked: bool
) -> tuple[Sample, list[float]]:
    broker = WatchedPenstock(build)
    idle: list[Session] = []
    try:
        admin = Session(HOST, broker.port)
        admin.declare_queues([f"idle.{number}" for number in range(QUEUES)], durable=False)
        idle += [admin, *(Session(HOST, broker.port) for _ in range(CONNECTIONS - 1))]
        plan = case.plan(HOST, broker.port, "bench.management")
        with Asking(broker, is_asked) as asking:
            sample = measure(plan, broker.pid, seconds, processes=case.processes)
        return sample, asking.seconds
    finally:
        for session in idle:
            session.socket.close()
        broker.stop()


def measure_cost(build: Path | None, case: Case, pairs: int, seconds: float) -> list[Pair]:
    found: list[Pair] = []
    for number in range(pairs):
        samples: dict[bool, Sample] = {}
        answers: list[float] = []
        for is_asked in (False, True) if number % 2 == 0 else (True, False):
            samples[is_asked], took = run_once(build, case, seconds, is_asked)
            answers += took
        found.append(Pair(samples[False], samples[True], answers))
        sys.stdout.write(f"  pair {number + 1}: {found[-1].ratio:.4f}\n")
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
            statistics.median(pair.without.broker_microseconds for pair in pairs), 4
        ),
        "microseconds_with": round(
            statistics.median(pair.with_.broker_microseconds for pair in pairs), 4
        ),
        "slowest_answer_seconds": max(max(pair.answer_seconds) for pair in pairs),
        "is_within_limit": ratio <= LIMIT,
    }


def measure_pages(build: Path | None) -> list[dict[str, Any]]:
    broker = WatchedPenstock(build)
    found: list[dict[str, Any]] = []
    try:
        admin = Session(HOST, broker.port)
        admin.declare_queues([f"many.{number}" for number in range(MANY_QUEUES)], durable=False)
        # Imports the HTTP libraries, and begins to sample.
        broker.get("/api/overview")
        quiet = probed(broker.port, "no request", lambda: time.sleep(REPEATS))
        found.append(dataclasses.asdict(quiet))
        for path in PAGES:
            answers: list[tuple[float, int]] = []

            def ask(path: str = path, answers: list[tuple[float, int]] = answers) -> None:
                answers += [broker.get(path) for _ in range(REPEATS)]

            trips: RoundTrips = probed(broker.port, path, ask)
            found.append(
                {
                    **dataclasses.asdict(trips),
                    "answer_seconds": round(max(took for took, _ in answers), 4),
                    "answer_bytes": answers[0][1],
                }
            )
        admin.close()
    finally:
        broker.stop()
    return found


def page_line(page: dict[str, Any]) -> str:
    answer = ""
    if "answer_seconds" in page:
        answer = (
            f", answered in {page['answer_seconds']:.3f} s at most, {page['answer_bytes']} bytes"
        )
    return (
        f"{page['case'][:70]}: round trips {page['median']:.2f} ms, 99 % within {page['p99']:.2f},"
        f" longest {page['longest']:.2f}{answer}"
    )


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
        results["pages"] = measure_pages(options.build)
        for page in results["pages"]:
            sys.stdout.write(f"{page_line(page)}\n")
            is_good = is_good and page.get("answer_seconds", 0.0) < PAGE_SECONDS_MAX
    results["load_after"] = load_average()
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
