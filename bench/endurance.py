"""Long runs on disk: recovery after a kill, reclaiming after churn."""

import dataclasses
import time

from bench.backlog import BODY_BYTES, NUMBERED, LongQueue, ignore
from bench.loader import Load, LoadFailedError
from bench.plan import acknowledged, paired
from bench.running import HOST, RunningBroker

# From the start of the command until the queue must have its full count again.
RECOVERY_SECONDS_MAX = 120.0

# How often the data directory is measured, and how long a broker may continue to reclaim after the
# last message.
SIZE_EVERY_SECONDS = 0.5
SETTLE_SECONDS = 5.0
CHURN_SECONDS_MAX = 1800.0


@dataclasses.dataclass(frozen=True, slots=True)
class RecoverySample:
    """Seconds from the start of the command; after it all were there, in order and unchanged."""

    broker: str
    messages: int
    data_bytes: int
    ready_seconds: float | None
    login_seconds: float
    full_seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class ReclaimSample:
    """`sizes`: seconds from the start of the churn, messages delivered until then, bytes on disk."""

    broker: str
    messages: int
    rate: float
    body_bytes: int
    sizes: list[tuple[float, int, int]]

    @property
    def bytes_max(self) -> int:
        return max(size for _, _, size in self.sizes)

    @property
    def bytes_last(self) -> int:
        return self.sizes[-1][2]


def measure_recovery(broker: RunningBroker, messages: int) -> RecoverySample:
    with LongQueue(broker, "bench.recovery", durable=True) as queue:
        count, _ = queue.fill(messages, ignore)
        data_bytes = broker.data_bytes()
        broker.kill()
        started = time.perf_counter()
        broker.start()
        while (found := queue.ready_count()) != count:
            if time.perf_counter() - started > RECOVERY_SECONDS_MAX:
                raise LoadFailedError(f"of {count:,} confirmed messages {found:,} came back")
            time.sleep(0.01)
        full_seconds = time.perf_counter() - started
        queue.drain(count, ignore)
        queue.delete()
    return RecoverySample(
        broker=broker.name,
        messages=count,
        data_bytes=data_bytes,
        ready_seconds=broker.ready_seconds,
        login_seconds=broker.startup_seconds,
        full_seconds=full_seconds,
    )


def measure_reclaim(broker: RunningBroker, messages: int) -> ReclaimSample:
    """The queue is nearly empty throughout: what is in flight is bounded as everywhere."""
    plan = acknowledged(paired(HOST, broker.port, "bench.reclaim", 1, BODY_BYTES), durable=True)
    sizes: list[tuple[float, int, int]] = []
    with Load(plan, *NUMBERED) as load:
        load.begin()
        started = time.perf_counter()

        def enough() -> bool:
            elapsed = time.perf_counter() - started
            delivered = sum(load.board.delivered)
            if not sizes or elapsed - sizes[-1][0] >= SIZE_EVERY_SECONDS:
                sizes.append((elapsed, delivered, broker.data_bytes()))
            return delivered >= messages

        load.wait_until(enough, CHURN_SECONDS_MAX, f"{messages:,} messages went through")
        seconds = time.perf_counter() - started
        delivered = sum(load.board.delivered)
        load.drain()
        settled = time.perf_counter() + SETTLE_SECONDS
        while time.perf_counter() < settled:
            load.wait(SIZE_EVERY_SECONDS)
            elapsed = time.perf_counter() - started
            sizes.append((elapsed, sum(load.board.delivered), broker.data_bytes()))
    return ReclaimSample(broker.name, delivered, delivered / seconds, BODY_BYTES, sizes)
