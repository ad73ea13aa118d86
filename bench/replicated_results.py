"""What the cases `replicated*` have measured, and the goals.

Goals are Penstock's. Rates are compared with those of RabbitMQ's cluster in the same run.
"""

import dataclasses
import statistics
from typing import Final

from bench.clusters import PenstockCluster
from bench.disk_limit import DiskLimit
from bench.goals import Verdict, at_least, at_most
from bench.loader import Sample
from bench.rabbitmq_cluster import RabbitMQCluster
from bench.replicated_modes import MODES, REPLICATED

PENSTOCK: Final = PenstockCluster.name
RABBITMQ: Final = RabbitMQCluster.name
# One server with a data directory and no cluster: what replication is compared with.
SINGLE: Final = "penstock-data"

CPU_RATIO_MAX: Final = 1 / 8
ROOT_RATIO_MAX: Final = 1.5
BACKUP_RATIO_MAX: Final = 0.7
# From this share of what the disk alone can take, a rate counts as limited by the disk.
DISK_SHARE_MIN: Final = 0.8

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
    mode: str = REPLICATED

    @property
    def name(self) -> str:
        return f"{self.mode}/{self.size}/{self.pairs}"

    @property
    def load(self) -> tuple[str, int, int]:
        return (self.mode, self.size, self.pairs)

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

    def of(self, broker: str, load: tuple[str, int, int]) -> Replicated | None:
        for each in self.measured:
            if (each.broker, each.load) == (broker, load) and each.samples:
                return each
        return None

    def verdicts(self, measured: Replicated) -> list[Verdict]:
        if measured.broker != PENSTOCK or not measured.samples:
            return []
        mode = MODES[measured.mode]
        verdicts = []
        rabbitmq, single = self.of(RABBITMQ, measured.load), self.of(SINGLE, measured.load)
        if mode.has_cost_goals:
            cpu = None
            if rabbitmq is not None:
                cpu = measured.broker_microseconds / rabbitmq.broker_microseconds
            verdicts.append(at_most("CPU <= 1/8", cpu, CPU_RATIO_MAX))
        if (wanted := mode.rate_ratios_min.get(measured.size)) is not None:
            rate = None if rabbitmq is None else measured.rate / rabbitmq.rate
            verdict = at_least(f"rate >= {wanted:g}x", rate, wanted)
            if verdict.met is False and self.disk_share(measured) >= DISK_SHARE_MIN:
                goal = f"{verdict.goal} or at the disk's limit"
                verdict = Verdict(goal, verdict.measured, met=True)
            verdicts.append(verdict)
        if not mode.has_cost_goals:
            return verdicts
        root, backup = None, None
        if single is not None:
            cost = single.broker_microseconds
            root = measured.microseconds_of(ROOT) / cost
            backup = max(measured.microseconds_of(role) for role in BACKUPS) / cost
        verdicts.append(at_most("root <= 1.5x one server", root, ROOT_RATIO_MAX))
        verdicts.append(at_most("backup <= 0.7x one server", backup, BACKUP_RATIO_MAX))
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
