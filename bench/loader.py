"""Puts one load on one broker and measures a steady window of it.

Invariants: what is measured lies strictly between warm-up and drain; after the window everything
published must be delivered (and confirmed, where confirms are on) or the sample is refused.
"""

import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from bench.board import Board, Phase
from bench.cpu import tree_cpu_seconds, tree_written_bytes
from bench.plan import LoadPlan
from bench.session import Session

WARM_UP_SECONDS = 0.7

# Longest wait for the load processes to connect (a thousand connections, ten thousand consumers)
# and for what is in flight to arrive after the window.
READY_SECONDS_MAX = 120.0
DRAIN_SECONDS_MAX = 20.0
STOP_SECONDS_MAX = 10.0

# The modules that publish and consume.
LoadProcesses = tuple[str, str]
PLAIN: LoadProcesses = ("bench.publisher", "bench.consumer")

PROJECT_ROOT = Path(__file__).resolve().parent.parent


class LoadFailedError(Exception):
    """The load could not be started, or its counts do not add up."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """One measured window. A message is what the README says it is: `delivered` counts them."""

    seconds: float
    published: int
    confirmed: int
    delivered: int
    broker_cpu_seconds: float
    loader_cpu_seconds: float
    disk_bytes: int = 0
    """What the broker had written to the disk, even if messages were delivered from memory."""

    @property
    def rate(self) -> float:
        return self.delivered / self.seconds

    @property
    def broker_microseconds(self) -> float:
        return self.broker_cpu_seconds * 1e6 / max(1, self.delivered)

    @property
    def loader_microseconds(self) -> float:
        return self.loader_cpu_seconds * 1e6 / max(1, self.delivered)


class Load:
    """One plan running against one broker. A context manager; the loader holds it for one sample."""

    def __init__(self, plan: LoadPlan, publisher: str, consumer: str) -> None:
        self._plan = plan
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-bench-")
        self.folder = Path(self._folder.name)
        plan.save(self.folder / "plan.json")
        self.board = Board(self.folder / "board", len(plan.publishers), len(plan.consumers))
        self._admin = Session(plan.host, plan.port, authority=plan.authority)
        self._declare()
        self._processes = [self._start(module) for module in (consumer, publisher)]

    def _declare(self) -> None:
        self._admin.declare_queues(
            self._plan.queues,
            durable=self._plan.durable,
            queue_type=self._plan.queue_type,
            priorities_max=self._plan.priorities_max,
        )
        for exchange, kind in self._plan.exchanges.items():
            self._admin.declare_exchange(exchange, kind)
        for binding in self._plan.bindings:
            self._admin.bind(binding.queue, binding.exchange, binding.key)

    def _start(self, module: str) -> subprocess.Popen[bytes]:
        files = [str(self.folder / "plan.json"), str(self.folder / "board")]
        return subprocess.Popen(
            [sys.executable, "-m", module, *files],
            cwd=PROJECT_ROOT,
            env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT)},
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def stop(self) -> None:
        """Ends the load processes; the files that they write to the folder are complete
        afterwards.
        """
        self.board.phase = Phase.STOP
        for process in self._processes:
            try:
                process.communicate(timeout=STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._admin.delete_queues(self._plan.queues)
        for exchange in self._plan.exchanges:
            self._admin.delete_exchange(exchange)
        self._admin.close()
        self.board.close()
        self._folder.cleanup()

    def loader_cpu_seconds(self) -> float:
        return sum(tree_cpu_seconds(process.pid) for process in self._processes)

    def wait(self, seconds: float) -> None:
        """Sleeps, but not past the death of a load process."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._check()
            time.sleep(min(0.1, left))

    def wait_until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            self._check()
            if time.monotonic() > deadline:
                raise LoadFailedError(f"after {seconds:.0f} s, timed out waiting for: {what}")
            time.sleep(0.005)

    def _check(self) -> None:
        for process in self._processes:
            if process.poll() is not None:
                _, complaint = process.communicate()
                # The last line of a traceback says what was wrong; the rest is the bench's own.
                lines = complaint.decode(errors="replace").strip().splitlines()
                raise LoadFailedError(lines[-1] if lines else "a load process ended unexpectedly")

    def drained(self) -> bool:
        if self._plan.confirms and list(self.board.confirmed) != list(self.board.published):
            return False
        due = list(self.board.due)
        delivered = list(self.board.delivered)
        return all(
            count == due[index]
            for index, lane in enumerate(self._plan.publishers)
            for count in delivered[lane.consumer_first : lane.consumer_first + lane.consumer_count]
        )

    def begin(self) -> None:
        self.wait_until(lambda: self.board.everybody_ready, READY_SECONDS_MAX, "lanes connected")
        self.board.phase = Phase.RUN

    def drain(self, seconds_max: float = DRAIN_SECONDS_MAX) -> None:
        self.board.phase = Phase.DRAIN
        what = "everything published was delivered and confirmed"
        self.wait_until(self.drained, seconds_max, what)


def measure(
    plan: LoadPlan,
    broker_pid: int,
    seconds: float,
    warm_up: float = WARM_UP_SECONDS,
    drain_seconds_max: float = DRAIN_SECONDS_MAX,
    processes: LoadProcesses = PLAIN,
) -> Sample:
    with Load(plan, *processes) as load:
        load.begin()
        load.wait(warm_up)
        before = _reading(load, broker_pid)
        load.wait(seconds)
        after = _reading(load, broker_pid)
        load.drain(drain_seconds_max)
    return between(before, after)


def between(before: Sample, after: Sample) -> Sample:
    """What happened from one reading to the other."""
    early, late = dataclasses.astuple(before), dataclasses.astuple(after)
    return Sample(*(b - a for a, b in zip(early, late, strict=True)))


def _reading(load: Load, broker_pid: int) -> Sample:
    return reading(load, tree_cpu_seconds(broker_pid), tree_written_bytes(broker_pid))


def reading(load: Load, cpu_seconds: float, written_bytes: int) -> Sample:
    """All counts of this moment, with what the caller has read of the broker's processes."""
    return Sample(
        time.perf_counter(),
        sum(load.board.published),
        sum(load.board.confirmed),
        sum(load.board.delivered),
        cpu_seconds,
        load.loader_cpu_seconds(),
        written_bytes,
    )
