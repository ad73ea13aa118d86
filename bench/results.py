"""The results of a run: raw samples and figures derived from them. Written to JSON as they are."""

import dataclasses
import math
import statistics

from bench.backlog import BacklogSample
from bench.brokers import PURE
from bench.cases import Case
from bench.endurance import ReclaimSample, RecoverySample
from bench.failover import Failover
from bench.footprint import IdleSample, Startup
from bench.goals import Ratios, Verdict, judge
from bench.latency import LatencySample
from bench.loader import Sample
from bench.replicated_results import ReplicatedResults
from bench.spark import SparkSample
from bench.spark import as_json as spark_json

REFERENCE = "rabbitmq"
REFERENCE_QUORUM = "rabbitmq-quorum"

# The most that cost per message may grow from the smallest count to the largest and still be
# called flat. The bench's own reading of the word: half of it is noise on a shared machine.
FLAT_RATIO_MAX = 1.3


@dataclasses.dataclass(slots=True)
class Throughput:
    """The samples of one broker in one case. Figures are medians over the rounds."""

    case: Case
    broker: str
    samples: list[Sample] = dataclasses.field(default_factory=list)

    @property
    def rate(self) -> float:
        return statistics.median(sample.rate for sample in self.samples)

    @property
    def broker_microseconds(self) -> float:
        return statistics.median(sample.broker_microseconds for sample in self.samples)

    @property
    def loader_microseconds(self) -> float:
        return statistics.median(sample.loader_microseconds for sample in self.samples)

    @property
    def disk_bytes_each(self) -> float:
        return statistics.median(s.disk_bytes / max(1, s.delivered) for s in self.samples)


@dataclasses.dataclass(frozen=True, slots=True)
class Latency:
    """`load` says which rate was chosen: "half" of what the broker can, or "equal" for all."""

    broker: str
    load: str
    sample: LatencySample


@dataclasses.dataclass(frozen=True, slots=True)
class Flatness:
    """Cost per message as one count grows: queues, active connections, idle bystanders."""

    broker: str
    axis: str
    counts: tuple[int, ...]
    samples: dict[int, Sample] = dataclasses.field(default_factory=dict)

    @property
    def growth(self) -> float:
        """NaN unless all counts were measured: what fails at the largest is not flat."""
        if set(self.samples) != set(self.counts):
            return math.nan
        first, last = self.samples[self.counts[0]], self.samples[self.counts[-1]]
        return last.broker_microseconds / max(first.broker_microseconds, 1e-9)


@dataclasses.dataclass(slots=True)
class Results:
    """Filled by the run, read by the report."""

    machine: dict[str, str | int | float | list[float]]
    settings: dict[str, float | int | list[str]]
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)
    throughput: list[Throughput] = dataclasses.field(default_factory=list)
    latency: list[Latency] = dataclasses.field(default_factory=list)
    flatness: list[Flatness] = dataclasses.field(default_factory=list)
    idle: dict[str, IdleSample] = dataclasses.field(default_factory=dict)
    startup: dict[str, list[Startup]] = dataclasses.field(default_factory=dict)
    backlog: list[BacklogSample] = dataclasses.field(default_factory=list)
    recovery: list[RecoverySample] = dataclasses.field(default_factory=list)
    reclaim: list[ReclaimSample] = dataclasses.field(default_factory=list)
    replicated: ReplicatedResults | None = None
    failover: list[Failover] = dataclasses.field(default_factory=list)
    spark: list[SparkSample] = dataclasses.field(default_factory=list)
    failures: list[str] = dataclasses.field(default_factory=list)
    codec: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)

    def other(self, broker: str, case: Case) -> Throughput | None:
        for measured in self.throughput:
            if measured.broker == broker and measured.case == case and measured.samples:
                return measured
        return None

    def ratios(self, measured: Throughput) -> Ratios:
        """Rate and CPU per message beside the reference broker's in the same case and run."""
        reference = self.other(REFERENCE, measured.case)
        if reference is None or measured.broker == REFERENCE:
            return Ratios()
        quorum = self.other(REFERENCE_QUORUM, measured.case)
        return Ratios(
            rate=measured.rate / reference.rate,
            cpu=measured.broker_microseconds / reference.broker_microseconds,
            quorum_rate=measured.rate / quorum.rate if quorum else None,
        )

    def verdicts(self, measured: Throughput) -> list[Verdict]:
        broker = measured.broker
        if self.versions.get(broker, "").endswith(PURE):
            # Where nothing was compiled, the launcher's broker is the pure one under another name.
            broker = "penstock-pure"
        ratios = self.ratios(measured)
        return judge(broker, measured.case, measured.broker_microseconds, ratios)

    def as_json(self) -> dict[str, object]:
        document = dataclasses.asdict(self)
        document["spark"] = spark_json(self.spark)
        document["failover"] = [failover.as_json() for failover in self.failover]
        document["replicated"] = self.replicated and self.replicated.as_json()
        document["throughput"] = [self._throughput_json(measured) for measured in self.throughput]
        document["flatness"] = [
            {
                **dataclasses.asdict(flatness),
                "microseconds": {n: s.broker_microseconds for n, s in flatness.samples.items()},
                "growth": None if math.isnan(flatness.growth) else flatness.growth,
            }
            for flatness in self.flatness
        ]
        return document

    def _throughput_json(self, measured: Throughput) -> dict[str, object]:
        document = dataclasses.asdict(measured)
        if measured.samples:
            ratios = self.ratios(measured)
            document |= {
                "rate": measured.rate,
                "broker_microseconds": measured.broker_microseconds,
                "loader_microseconds": measured.loader_microseconds,
                "disk_bytes_each": measured.disk_bytes_each,
                "rate_ratio": ratios.rate,
                "cpu_ratio": ratios.cpu,
                "quorum_rate_ratio": ratios.quorum_rate,
                "goals": [dataclasses.asdict(verdict) for verdict in self.verdicts(measured)],
            }
        return document
