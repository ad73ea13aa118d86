"""What pages over ten thousand queues cost, as `bench.management` prints it."""

import contextlib
import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.brokers import PROJECT_ROOT
from bench.running import HOST
from bench.session import Session
from bench.watched import WatchedPenstock

# What the project promises: a page comes within a second, and the loop is not stopped for longer.
PAGE_SECONDS_MAX: Final = 1.0
STOP_MS_MAX: Final = 5.0

MANY_QUEUES: Final = 10_000
# Bindings beside those of the default exchange.
BINDINGS: Final = 10_000
EXCHANGES: Final = 1_000
CONSUMERS: Final = 10_000
# Pages that grow with the number of queues, bindings, exchanges or consumers.
PAGES: Final = (
    "/api/overview",
    "/api/queues",
    "/api/queues?page=1&page_size=100&sort=messages&sort_reverse=true",
    "/api/queues?columns=name,messages",
    "/api/queues?name=9&use_regex=true&page=1",
    "/api/queues?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5",
    "/api/queues/%2F",
    "/api/bindings",
    "/api/exchanges",
    "/api/exchanges/%2F/many/bindings/source",
    "/api/consumers",
    "/api/channels",
    "/api/connections",
    "/api/definitions",
    "/api/vhosts",
    "/api/nodes",
    "/metrics",
    "/metrics/per-object",
    "/metrics/per-queue",
    "/metrics/detailed?family=queue_coarse_metrics&family=queue_metrics",
)
REPEATS: Final = 5
REPORT_SECONDS_MAX: Final = 30.0


class TurnWatchedPenstock(WatchedPenstock):
    """A broker that measures the turns of its loop; see `bench.turns`."""

    name = "penstock-turns"

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "bench.turns", str(self._folder / "turns.json")]

    def _arguments(self) -> list[str]:
        return []

    def _environment(self) -> dict[str, str]:
        environment = super()._environment()
        package = PROJECT_ROOT / "src" if self._build is None else self._build.resolve()
        environment["PYTHONPATH"] = os.pathsep.join([str(package), str(PROJECT_ROOT)])
        return environment

    def measured(self) -> dict[str, Any]:
        """What was measured since the last time."""
        file = self._folder / "turns.json"
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
        os.kill(self.pid, signal.SIGUSR1)
        deadline = time.monotonic() + REPORT_SECONDS_MAX
        while not file.exists():
            if time.monotonic() > deadline:
                raise TimeoutError("the broker did not report the turns of its loop")
            time.sleep(0.01)
        found: dict[str, Any] = json.loads(file.read_text())
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class PageCost:
    """One page, asked for some times in a row."""

    page: str
    # The slowest answer.
    seconds: float
    size: int
    # CPU time of the longest turn of the loop in its own thread, and in all threads.
    step_ms: float
    stop_ms: float
    # CPU time of the longest collection of garbage.
    collection_ms: float

    @property
    def is_good(self) -> bool:
        return self.seconds < PAGE_SECONDS_MAX and self.stop_ms < STOP_MS_MAX


def measure_pages(build: Path | None) -> list[PageCost]:
    broker = TurnWatchedPenstock(build)
    sessions: list[Session] = []
    try:
        sessions += fill(broker.port)
        # Imports the HTTP libraries, and begins to sample.
        broker.get("/api/overview")
        broker.get("/metrics")
        found = [_asked(broker, "no request", lambda: time.sleep(REPEATS))]
        for page in PAGES:
            found.append(_asked(broker, page, None))
        return found
    finally:
        for session in sessions:
            session.socket.close()
        broker.stop()


def fill(port: int) -> list[Session]:
    admin = Session(HOST, port)
    queues = [f"many.{number}" for number in range(MANY_QUEUES)]
    admin.declare_queues(queues, durable=True)
    admin.declare_exchange("many", "direct")
    for number in range(EXCHANGES - 1):
        admin.declare_exchange(f"many.{number}", "topic")
    for number in range(BINDINGS):
        admin.bind(queues[number], "many", f"key.{number}")
    consumer = Session(HOST, port)
    consumer.consume(queues[:CONSUMERS], automatic_acks=True, prefetch=0, arguments={})
    return [admin, consumer]


def _asked(broker: TurnWatchedPenstock, page: str, instead: Callable[[], None] | None) -> PageCost:
    answers: list[tuple[float, int]] = []
    broker.measured()
    if instead is not None:
        instead()
    else:
        answers += [broker.get(page) for _ in range(REPEATS)]
    turns = broker.measured()
    return PageCost(
        page,
        round(max((took for took, _ in answers), default=0.0), 4),
        max((size for _, size in answers), default=0),
        turns["step_ms"],
        turns["stop_ms"],
        turns["collection_ms"],
    )


def table(pages: list[PageCost]) -> list[str]:
    lines = [f"{'page':70s} {'s':>6s} {'bytes':>10s} {'step ms':>8s} {'stop ms':>8s} {'gc ms':>6s}"]
    for page in pages:
        lines.append(
            f"{page.page[:70]:70s} {page.seconds:6.3f} {page.size:10d} {page.step_ms:8.2f}"
            f" {page.stop_ms:8.2f} {page.collection_ms:6.2f}{'' if page.is_good else '  TOO LONG'}"
        )
    return lines
