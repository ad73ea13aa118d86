"""The case `replicated`: three servers of Penstock beside three of RabbitMQ, and one of Penstock.

One cluster runs at a time, because three servers and a loader already share the machine's cores. In
every round each is started anew, in turned order, and measured with every size and number of pairs.
"""

import dataclasses
import itertools
import statistics
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from rich.console import Console
from rich.markup import escape

from bench.brokers import PenstockWithData
from bench.clusters import ClusterServer, PenstockCluster
from bench.cpu import tree_cpu_seconds, tree_written_bytes
from bench.disk_limit import DiskLimit, measure_disk
from bench.goals import Verdict, at_least, at_most
from bench.loader import WARM_UP_SECONDS, Load, LoadFailedError, Sample, between, reading
from bench.plan import LoadPlan, acknowledged, paired
from bench.rabbitmq_cluster import RabbitMQCluster
from bench.running import HOST, BrokerUnavailableError
from bench.session import BrokerRefusedError

REPLICATED: Final = "replicated"

PENSTOCK: Final = PenstockCluster.name
RABBITMQ: Final = RabbitMQCluster.name
# One server with a data directory and no cluster: what replication is compared with.
SINGLE: Final = "penstock-data"
KINDS: Final = (PENSTOCK, RABBITMQ, SINGLE)

DEFAULT_ROUNDS: Final = 5
# A cluster whose root changes in every round is not measured but broken.
REPEATS_MAX: Final = 5

# The goals. Rates are those of RabbitMQ's cluster, by size of the body.
CPU_RATIO_MAX: Final = 1 / 8
RATE_RATIOS_MIN: Final = {100: 8.0, 1000: 5.0}
ROOT_RATIO_MAX: Final = 1.5
BACKUP_RATIO_MAX: Final = 0.7
# From this share of what the disk alone can take, a rate counts as limited by the disk.
DISK_SHARE_MIN: Final = 0.8

# Errors of a cluster, or of a load on it, that do not end the run.
FAILURES: Final = (
    LoadFailedError,
    BrokerRefusedError,
    BrokerUnavailableError,
    OSError,
)

# The role of a server in a sample.
ROOT: Final = "root"
BACKUPS: Final = ("backup 1", "backup 2")


@dataclasses.dataclass(frozen=True, slots=True)
class ReplicatedSample:
    """One window on one cluster. `sample` has the sum over its servers."""

    sample: Sample
    # Microseconds of CPU time per message, by role; the root first.
    microseconds: dict[str, float]


@dataclasses.dataclass(slots=True)
class Replicated:
    """The samples of one cluster, or of the single server, with one load. Figures are medians."""

    broker: str
    size: int
    pairs: int
    samples: list[ReplicatedSample] = dataclasses.field(default_factory=list)
    # Rounds that were measured again because the epoch changed in them.
    repeated: int = 0

    @property
    def name(self) -> str:
        return f"{REPLICATED}/{self.size}/{self.pairs}"

    @property
    def rate(self) -> float:
        return statistics.median(each.sample.rate for each in self.samples)

    @property
    def broker_microseconds(self) -> float:
        return statistics.median(each.sample.broker_microseconds for each in self.samples)

    @property
    def loader_microseconds(self) -> float:
        return statistics.median(each.sample.loader_microseconds for each in self.samples)

    @property
    def disk_bytes_each(self) -> float:
        return statistics.median(
            each.sample.disk_bytes / max(1, each.sample.delivered) for each in self.samples
        )

    def microseconds_of(self, role: str) -> float:
        return statistics.median(each.microseconds[role] for each in self.samples)

    @property
    def roles(self) -> list[str]:
        return list(self.samples[0].microseconds)


@dataclasses.dataclass(slots=True)
class ReplicatedResults:
    """Filled by the case, read by the report. Written to JSON as it is."""

    disk: DiskLimit
    measured: list[Replicated] = dataclasses.field(default_factory=list)

    def of(self, broker: str, size: int, pairs: int) -> Replicated | None:
        for each in self.measured:
            if (each.broker, each.size, each.pairs) == (broker, size, pairs) and each.samples:
                return each
        return None

    def verdicts(self, measured: Replicated) -> list[Verdict]:
        """Goals are Penstock's; those of CPU time hold for all sizes."""
        if measured.broker != PENSTOCK or not measured.samples:
            return []
        load = (measured.size, measured.pairs)
        rabbitmq, single = self.of(RABBITMQ, *load), self.of(SINGLE, *load)
        cpu = None
        if rabbitmq is not None:
            cpu = measured.broker_microseconds / rabbitmq.broker_microseconds
        verdicts = [at_most("CPU <= 1/8", cpu, CPU_RATIO_MAX)]
        if (wanted := RATE_RATIOS_MIN.get(measured.size)) is not None:
            rate = None if rabbitmq is None else measured.rate / rabbitmq.rate
            verdict = at_least(f"rate >= {wanted:g}x", rate, wanted)
            if verdict.met is False and self.disk_share(measured) >= DISK_SHARE_MIN:
                goal = f"{verdict.goal} or at the disk's limit"
                verdict = Verdict(goal, verdict.measured, met=True)
            verdicts.append(verdict)
        root, backup = None, None
        if single is not None:
            cost = single.broker_microseconds
            root = measured.microseconds_of(ROOT) / cost
            backup = max(measured.microseconds_of(role) for role in BACKUPS) / cost
        verdicts.append(at_most("root <= 1.5x durable", root, ROOT_RATIO_MAX))
        verdicts.append(at_most("backup <= 0.7x durable", backup, BACKUP_RATIO_MAX))
        return verdicts

    def disk_share(self, measured: Replicated) -> float:
        """The rate as a part of what the disk alone could take."""
        return measured.rate / self.disk.messages_per_second(measured.disk_bytes_each)

    def as_json(self) -> dict[str, object]:
        return {
            "disk": dataclasses.asdict(self.disk),
            "measured": [*map(self._json, self.measured)],
        }

    def _json(self, measured: Replicated) -> dict[str, object]:
        document = dataclasses.asdict(measured)
        if measured.samples:
            document |= {
                "rate": measured.rate,
                "broker_microseconds": measured.broker_microseconds,
                "loader_microseconds": measured.loader_microseconds,
                "disk_bytes_each": measured.disk_bytes_each,
                "disk_limit_rate": self.disk.messages_per_second(measured.disk_bytes_each),
                "microseconds": {role: measured.microseconds_of(role) for role in measured.roles},
                "goals": [dataclasses.asdict(verdict) for verdict in self.verdicts(measured)],
            }
        return document


class Measurable(Protocol):
    """What this case needs of a cluster; a single server is one of one server."""

    name: str
    version: str
    queue_type: str
    servers: list[ClusterServer]

    def root(self) -> ClusterServer: ...

    def epoch(self) -> int: ...

    def stop(self) -> None: ...


class SingleServer:
    """One server without a cluster, in the shape of a cluster."""

    name = SINGLE
    queue_type = ""

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


def load_plan(port: int, prefix: str, size: int, pairs: int, queue_type: str) -> LoadPlan:
    plan = paired(HOST, port, prefix, pairs, size)
    return acknowledged(plan, durable=True, queue_type=queue_type)


class EpochChangedError(Exception):
    """Another server became the root in the measured window, so that it says nothing."""


def measure_cluster(
    cluster: Measurable, size: int, pairs: int, prefix: str, seconds: float
) -> ReplicatedSample:
    """Raises `EpochChangedError`."""
    epoch = cluster.epoch()
    root = cluster.root()
    servers = [root, *(server for server in cluster.servers if server is not root)]
    plan = load_plan(root.port, prefix, size, pairs, cluster.queue_type)
    try:
        with Load(plan, "bench.publisher", "bench.consumer") as load:
            load.begin()
            load.wait(WARM_UP_SECONDS)
            before = readings(load, servers)
            load.wait(seconds)
            after = readings(load, servers)
            load.drain()
    except (LoadFailedError, BrokerRefusedError, OSError) as failure:
        if cluster.epoch() != epoch:
            raise EpochChangedError from failure
        raise
    if cluster.epoch() != epoch:
        raise EpochChangedError
    sample = between(before[0], after[0])
    roles = (ROOT, *BACKUPS)[: len(servers)]
    microseconds = {
        role: (late - early) * 1e6 / max(1, sample.delivered)
        for role, early, late in zip(roles, before[1], after[1], strict=True)
    }
    return ReplicatedSample(sample, microseconds)


def readings(load: Load, servers: list[ClusterServer]) -> tuple[Sample, list[float]]:
    """A reading of all servers together, and the CPU time of each."""
    each = [tree_cpu_seconds(server.pid) for server in servers]
    written = sum(tree_written_bytes(server.pid) for server in servers)
    return reading(load, sum(each), written), each


@dataclasses.dataclass(frozen=True, slots=True)
class ReplicatedOptions:
    """How much; the defaults of the command are in `run.py`."""

    sizes: list[int]
    pairs: list[int]
    rounds: int
    seconds: float
    kinds: tuple[str, ...] = KINDS


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
        self._loads = list(itertools.product(options.sizes, options.pairs))
        self.results = ReplicatedResults(DiskLimit(0.0, 0.0))
        self.results.measured = [
            Replicated(kind, *load) for load in self._loads for kind in options.kinds
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
            prefix = f"bench.replicated.{index}.{repeat}.{measured.size}.{measured.pairs}"
            try:
                taken = measure_cluster(
                    cluster, measured.size, measured.pairs, prefix, self._options.seconds
                )
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


def by_bytes(limit: DiskLimit) -> float:
    return limit.bytes_per_second


def line(what: str, taken: ReplicatedSample) -> str:
    parts = ", ".join(f"{role} {cost:.2f}" for role, cost in taken.microseconds.items())
    return (
        f"{what}: {taken.sample.rate:,.0f} msg/s,"
        f" {taken.sample.broker_microseconds:.2f} us/msg ({parts};"
        f" loader {taken.sample.loader_microseconds:.2f})"
    )
