"""The cases `replicated*`: three servers of Penstock beside three of RabbitMQ, and one of Penstock.

One cluster runs at a time, because three servers and a loader already share the machine's cores. In
every round each is started anew, in turned order, and measured with every load.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import Final

from rich.console import Console
from rich.markup import escape

from bench.brokers import PenstockWithData
from bench.clusters import ClusterServer, PenstockCluster
from bench.disk_limit import DiskLimit, measure_disk
from bench.loader import LoadFailedError
from bench.rabbitmq_cluster import RabbitMQCluster
from bench.replicated_loads import (
    EpochChangedError,
    Measurable,
    ReplicatedLoad,
    measure_cluster,
)
from bench.replicated_modes import MODES, REPLICATED
from bench.replicated_results import (
    PENSTOCK,
    RABBITMQ,
    SINGLE,
    Replicated,
    ReplicatedResults,
    ReplicatedSample,
)
from bench.running import BrokerUnavailableError
from bench.session import BrokerRefusedError

KINDS: Final = (PENSTOCK, RABBITMQ, SINGLE)

DEFAULT_ROUNDS: Final = 5
# A cluster whose root changes in every round is not measured but broken.
REPEATS_MAX: Final = 5

# Errors of a cluster, or of a load on it, that do not end the run.
FAILURES: Final = (
    LoadFailedError,
    BrokerRefusedError,
    BrokerUnavailableError,
    OSError,
)


class SingleServer:
    """One server without a cluster, in the shape of a cluster."""

    name = SINGLE

    def __init__(self) -> None:
        self._broker = PenstockWithData()
        self.version = self._broker.version
        folder = self._broker.authority.parent
        server = ClusterServer("single", folder, self._broker.port, pid=self._broker.pid)
        self.servers = [server]

    def root(self) -> ClusterServer:
        return self.servers[0]

    def epoch(self) -> int:
        return 0

    def stop(self) -> None:
        self._broker.stop()


START: Final[dict[str, Callable[[], Measurable]]] = {
    PENSTOCK: PenstockCluster,
    RABBITMQ: RabbitMQCluster,
    SINGLE: SingleServer,
}


@dataclasses.dataclass(frozen=True, slots=True)
class ReplicatedOptions:
    """How much; the defaults of the command are in `run.py`."""

    sizes: list[int]
    pairs: list[int]
    rounds: int
    seconds: float
    kinds: tuple[str, ...] = KINDS
    modes: tuple[str, ...] = (REPLICATED,)


class ReplicatedRun:
    """The whole case. `failures` and `versions` are those of the run's results."""

    def __init__(
        self,
        options: ReplicatedOptions,
        console: Console,
        failures: list[str],
        versions: dict[str, str],
        start: Mapping[str, Callable[[], Measurable]] = START,
    ) -> None:
        self._options = options
        self._start = start
        self._console = console
        self._failures = failures
        self._versions = versions
        self.results = ReplicatedResults(DiskLimit(0.0, 0.0))
        self.results.measured = [
            Replicated(kind, size, pairs, mode=mode)
            for mode, size, pairs in itertools.product(options.modes, options.sizes, options.pairs)
            for kind in options.kinds
            if is_measured(kind, mode, size)
        ]

    def run(self) -> None:
        kinds = self._options.kinds
        limits: list[DiskLimit] = []
        for index in range(self._options.rounds):
            # Others may use the disk, so it is measured in every round, too.
            limits.append(measure_disk())
            self.results.disk = sorted(limits, key=by_bytes)[len(limits) // 2]
            turn = index % len(kinds)
            for kind in kinds[turn:] + kinds[:turn]:
                self._take_turn(kind, index)

    def _take_turn(self, kind: str, index: int) -> None:
        try:
            cluster = self._start[kind]()
        except (BrokerUnavailableError, OSError) as failure:
            self._failed(f"{kind}, round {index + 1}", failure)
            return
        self._versions[kind] = cluster.version
        try:
            for measured in self.results.measured:
                if measured.broker == kind:
                    self._measure(cluster, measured, index)
        finally:
            cluster.stop()

    def _measure(self, cluster: Measurable, measured: Replicated, index: int) -> None:
        what = f"{measured.name} {measured.broker}, round {index + 1}"
        for repeat in range(1 + REPEATS_MAX):
            prefix = f"bench.{measured.name.replace('/', '.')}.{index}.{repeat}"
            try:
                load = ReplicatedLoad(*measured.load)
                taken = measure_cluster(cluster, load, prefix, self._options.seconds)
            except EpochChangedError:
                measured.repeated += 1
                self._console.print(f"[yellow]{what}: the epoch changed, so it is repeated[/]")
                continue
            except FAILURES as failure:
                self._failed(what, failure)
                return
            measured.samples.append(taken)
            self._console.print(line(what, taken))
            return
        self._failed(what, LoadFailedError("the epoch changed in every repetition"))

    def _failed(self, what: str, failure: Exception) -> None:
        self._failures.append(f"{what}: {failure}")
        self._console.print(f"[red]{what} failed: {escape(str(failure))}[/]")


def is_measured(kind: str, mode: str, size: int) -> bool:
    """Whether there is something to learn from it."""
    if kind == SINGLE and not MODES[mode].has_single:
        return False
    return MODES[mode].has_cost_goals or size in MODES[mode].rate_ratios_min


def by_bytes(limit: DiskLimit) -> float:
    return limit.bytes_per_second


def line(what: str, taken: ReplicatedSample) -> str:
    parts = ", ".join(f"{role} {cost:.2f}" for role, cost in taken.microseconds.items())
    return (
        f"{what}: {taken.sample.rate:,.0f} msg/s,"
        f" {taken.sample.broker_microseconds:.2f} us/msg ({parts};"
        f" loader {taken.sample.loader_microseconds:.2f})"
    )
