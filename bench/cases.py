"""The cases that are measured for throughput and cost."""

import dataclasses

from bench.loader import PLAIN, LoadProcesses
from bench.mixed import mixed
from bench.plan import LoadPlan, acknowledged, fanned_out, paired

MIXED_DURABLE = "mixed-durable"
MIXED_MODES = ("mixed", MIXED_DURABLE)
TLS = "tls"
MODES = ("transient", "confirm", TLS, "fanout4", "fanout16", *MIXED_MODES, "durable", "amqp10")
# Messages of these cases must be durable, so Penstock is started with a data directory.
DURABLE_MODES = ("durable", MIXED_DURABLE)
SIZES = (100, 1000)
PAIRS = (1, 8)

# Sizes of mixed traffic are its own, so it has no size to be run at.
MIXED_SIZE = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One load: a mode, a body size, a number of connection pairs (fanout: of groups)."""

    mode: str
    size: int
    pairs: int

    @property
    def name(self) -> str:
        return f"{self.mode}/{self.size or 'any'}/{self.pairs}"

    @property
    def processes(self) -> LoadProcesses:
        if self.mode in MIXED_MODES:
            return "bench.mixed_publisher", "bench.mixed_consumer"
        if self.mode == "amqp10":
            return "bench.amqp10_publisher", "bench.amqp10_consumer"
        return PLAIN

    def plan(self, host: str, port: int, prefix: str, queue_type: str = "") -> LoadPlan:
        if self.mode in MIXED_MODES:
            plan = mixed(host, port, prefix, self.pairs, durable=self.mode == MIXED_DURABLE)
            return dataclasses.replace(plan, queue_type=queue_type)
        if self.mode.startswith("fanout"):
            width = int(self.mode.removeprefix("fanout"))
            return fanned_out(host, port, prefix, self.pairs, self.size, width)
        plan = paired(host, port, prefix, self.pairs, self.size)
        if self.mode in {"transient", "amqp10"}:
            return plan
        return acknowledged(plan, durable=self.mode == "durable", queue_type=queue_type)
