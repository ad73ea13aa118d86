"""Runs a plan: a process for each faucet and each sink, so that the load uses the cores it has.

The order: sinks consume before the first publish; when the faucets are done the sinks continue
until everything is accounted for, or until nothing was received for a while.
"""

import multiprocessing
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait as wait_for_any
from multiprocessing.context import SpawnProcess
from typing import Final

from penstock.cli.loading.faucet import Faucet
from penstock.cli.loading.plan import Plan
from penstock.cli.loading.reports import (
    Failed,
    FaucetFinished,
    Order,
    Progress,
    Ready,
    Report,
    SinkFinished,
)
from penstock.cli.loading.sink import Sink
from penstock.cli.loading.topology import set_up, tear_down
from penstock.client import blocking
from penstock.client.errors import ClientError

# A process starts in under a second on a quiet machine; sixty of them on a busy one take longer.
START_SECONDS_MAX: Final = 60.0

# When no sink has received anything for this long, what is missing counts as lost.
DRAIN_SECONDS_MAX: Final = 5.0

LOOK_SECONDS: Final = 0.1

# How long a process may take to close its connection; then it is terminated.
JOIN_SECONDS_MAX: Final = 10.0


class RunFailed(Exception):
    """The run could not begin or was interrupted; the text is for people."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The progress of the run, for the display."""

    elapsed_seconds: float
    phase: str
    published: int
    confirmed: int
    delivered: int
    blocked: str | None


@dataclass(slots=True)
class Member:
    """One process of the crew and its last report."""

    process: SpawnProcess
    pipe: Pipe
    progress: Progress = field(default_factory=Progress)
    ready: bool = False
    finished: FaucetFinished | SinkFinished | None = None


Watcher = Callable[[Snapshot], None]


class Crew:
    """Held by one run of the command."""

    def __init__(self, plan: Plan, watch: Watcher) -> None:
        self._plan: Plan = plan
        self._watch: Watcher = watch
        self._faucets: list[Member] = []
        self._sinks: list[Member] = []
        self._started: float = 0.0

    def run(self) -> tuple[list[FaucetFinished], list[SinkFinished]]:
        with blocking.connect(self._plan.uri, name="load") as connection:
            set_up(connection, self._plan)
            try:
                return self._run()
            finally:
                self._end_processes()
                with suppress(ClientError):
                    tear_down(connection, self._plan)

    def _run(self) -> tuple[list[FaucetFinished], list[SinkFinished]]:
        self._sinks = [_spawn(sink_process, self._plan, i) for i in range(self._plan.consumers)]
        self._faucets = [
            _spawn(faucet_process, self._plan, i) for i in range(self._plan.publishers)
        ]
        members = self._sinks + self._faucets
        self._listen_until(lambda: all(member.ready for member in members), "starting")
        self._started = time.monotonic()
        for faucet in self._faucets:
            faucet.pipe.send(Order.GO)
        self._listen_until(lambda: all(faucet.finished for faucet in self._faucets), "publishing")
        self._drain()
        for sink in self._sinks:
            _tell(sink, Order.STOP)
        self._listen_until(lambda: all(sink.finished for sink in self._sinks), "counting")
        faucets = [m.finished for m in self._faucets if isinstance(m.finished, FaucetFinished)]
        sinks = [m.finished for m in self._sinks if isinstance(m.finished, SinkFinished)]
        return faucets, sinks

    def _drain(self) -> None:
        """Let the sinks receive what the faucets left in the queues."""
        if not self._sinks:
            return
        expected = self._plan.queues_reached * sum(
            member.finished.published
            for member in self._faucets
            if isinstance(member.finished, FaucetFinished)
        )
        received = self._delivered()
        last_change = time.monotonic()
        while received < expected and time.monotonic() - last_change < DRAIN_SECONDS_MAX:
            if all(sink.finished for sink in self._sinks):
                return
            self._listen("draining")
            if self._delivered() != received:
                received = self._delivered()
                last_change = time.monotonic()

    def _delivered(self) -> int:
        return sum(sink.progress.delivered for sink in self._sinks)

    def _listen_until(self, done: Callable[[], bool], phase: str) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not done():
            self._listen(phase)
            if phase == "starting" and time.monotonic() > deadline:
                raise RunFailed("the load processes did not start in time")

    def _listen(self, phase: str) -> None:
        members = {m.pipe: m for m in self._faucets + self._sinks if m.finished is None}
        for pipe in wait_for_any(list(members), LOOK_SECONDS):
            assert isinstance(pipe, Pipe)
            member = members[pipe]
            try:
                self._heard(member, pipe.recv())
            except EOFError:
                raise RunFailed("a load process died; its error is printed above") from None
        self._watch(self._snapshot(phase))

    def _heard(self, member: Member, report: Report) -> None:
        if isinstance(report, Progress):
            member.progress = report
        elif isinstance(report, Ready):
            member.ready = True
        elif isinstance(report, Failed):
            raise RunFailed(report.reason)
        else:
            member.finished = report
            if isinstance(report, FaucetFinished):
                member.progress = Progress(published=report.published, confirmed=report.confirmed)
            else:
                member.progress = Progress(delivered=report.delivered)

    def _snapshot(self, phase: str) -> Snapshot:
        return Snapshot(
            elapsed_seconds=time.monotonic() - self._started if self._started else 0.0,
            phase=phase,
            published=sum(faucet.progress.published for faucet in self._faucets),
            confirmed=sum(faucet.progress.confirmed for faucet in self._faucets),
            delivered=self._delivered(),
            blocked=next((m.progress.blocked for m in self._faucets if m.progress.blocked), None),
        )

    def _end_processes(self) -> None:
        members = self._faucets + self._sinks
        for member in members:
            if member.finished is None:
                _tell(member, Order.STOP)
        deadline = time.monotonic() + JOIN_SECONDS_MAX
        for member in members:
            # Its remaining output must be read, or both processes would wait for each other.
            while member.process.is_alive() and time.monotonic() < deadline:
                with suppress(EOFError, OSError):
                    while member.pipe.poll():
                        member.pipe.recv()
                member.process.join(LOOK_SECONDS)
            if member.process.is_alive():
                member.process.terminate()
                member.process.join()
            member.pipe.close()


def _tell(member: Member, order: Order) -> None:
    with suppress(OSError):  # the process has ended already
        member.pipe.send(order)


def _spawn(target: Callable[[Plan, int, Pipe], None], plan: Plan, index: int) -> Member:
    # Spawn and not fork: nothing of this process, threads and sockets least of all, is copied.
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=target, args=(plan, index, there), daemon=True)
    process.start()
    there.close()
    return Member(process, here)


def faucet_process(plan: Plan, publisher: int, pipe: Pipe) -> None:
    try:
        pipe.send(Faucet(plan, publisher, pipe).run())
    except ClientError as error:
        pipe.send(Failed(f"publisher {publisher}: {error}"))
    except (EOFError, OSError, KeyboardInterrupt):
        pass  # the crew is gone, or the user has ended all processes at once


def sink_process(plan: Plan, consumer: int, pipe: Pipe) -> None:
    try:
        pipe.send(Sink(plan, consumer, pipe).run())
    except ClientError as error:
        pipe.send(Failed(f"consumer {consumer}: {error}"))
    except (EOFError, OSError, KeyboardInterrupt):
        pass  # as above
