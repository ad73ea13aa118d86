"""Flow: how many messages went through each queue, when, and how long its queue grew.

Rates come from ledgers, per bucket of time. ISR, the internal switching rate, is what was switched
into queues; XSR, the external one, what left to consumers: the seed's two figures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from penstock.spark.jobs import kinds as k
from penstock.spark.jobs.ledger_catalog import Catalog, Role

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.spark.jobs.ledger_reading import RunSource
    from penstock.spark.jobs.runs import Runs

FLOW_SQL: Final = "queue_id int, bucket bigint, kind smallint, count bigint"
_SCHEMA: Final = pa.schema(
    [
        ("queue_id", pa.int32()),
        ("bucket", pa.int64()),
        ("kind", pa.int16()),
        ("count", pa.int64()),
    ]
)
# "When Q is 16 this gives us a tentative ISR of 160KM/s"; 12 queues of 10 KM/s fill a gigabit.
SEED_ISR: Final = 160_000
SEED_XSR: Final = 120_000

IN: Final = (k.ENQUEUED_TRANSIENT, k.ENQUEUED_PERSISTENT)
OUT: Final = (k.DELIVERED, k.TAKEN)


@dataclass(frozen=True, slots=True)
class CountBuckets:
    """Counts by queue, bucket and kind where the files are read. Travels to executors."""

    bucket_ms: int

    def __call__(self, runs: Iterator[Runs]) -> Iterator[pa.RecordBatch]:
        for part in runs:
            if len(part):
                yield self.counted(part)

    def counted(self, runs: Runs) -> pa.RecordBatch:
        bucket = runs.time // self.bucket_ms
        lowest = int(bucket.min())
        width = int(bucket.max()) - lowest + 1
        key = (runs.queue.astype(np.int64) * width + (bucket - lowest)) * k.KIND_COUNT + runs.kind
        used, places = np.unique(key, return_inverse=True)
        sums = np.bincount(places, runs.count.astype(np.float64)).astype(np.int64)
        cells = used // k.KIND_COUNT
        columns = [
            (cells // width).astype(np.int32),
            cells % width + lowest,
            (used % k.KIND_COUNT).astype(np.int16),
            sums,
        ]
        return pa.record_batch([pa.array(column) for column in columns], schema=_SCHEMA)


def flow_frame(source: RunSource, bucket_ms: int) -> DataFrame:
    """Columns queue_id, bucket (number of buckets since 1970), kind, count."""
    from pyspark.sql import functions as f

    counted = source.through(CountBuckets(bucket_ms), FLOW_SQL)
    return counted.groupBy("queue_id", "bucket", "kind").agg(f.sum("count").alias("count"))


@dataclass(slots=True)
class QueueFlow:
    """One queue, or one route: totals and what it did in each bucket."""

    server: str
    vhost: str
    name: str
    is_route: bool = False
    entered: int = 0
    given: int = 0
    acknowledged: int = 0
    dropped: int = 0
    # Messages in it after the last bucket, as far as the ledger knows.
    lag: int = 0
    buckets: dict[int, list[int]] = field(default_factory=dict)  # entered, given, left


@dataclass(slots=True)
class Flow:
    """What the job returns. Rates are per second."""

    bucket_ms: int
    first_bucket: int
    bucket_count: int
    queues: list[QueueFlow]
    routes: list[QueueFlow]

    @property
    def seconds(self) -> float:
        return self.bucket_count * self.bucket_ms / 1000

    def rate(self, count: int) -> float:
        return count / self.seconds if self.bucket_count else 0.0

    @property
    def isr(self) -> float:
        return self.rate(sum(queue.entered for queue in self.queues))

    @property
    def xsr(self) -> float:
        return self.rate(sum(queue.given for queue in self.queues))

    def series(self, part: int) -> list[float]:
        """Per second and bucket over all queues: 0 for entered, 1 for given."""
        sums = [0] * self.bucket_count
        for queue in self.queues:
            for bucket, counts in queue.buckets.items():
                sums[bucket - self.first_bucket] += counts[part]
        return [count * 1000 / self.bucket_ms for count in sums]

    def lag_series(self) -> list[int]:
        steps = [0] * self.bucket_count
        for queue in self.queues:
            for bucket, counts in queue.buckets.items():
                steps[bucket - self.first_bucket] += counts[0] - counts[2]
        return np.cumsum(steps).tolist() if steps else []

    @property
    def peak_isr(self) -> float:
        return max(self.series(0), default=0.0)

    @property
    def peak_xsr(self) -> float:
        return max(self.series(1), default=0.0)

    def servers(self) -> dict[str, tuple[float, float]]:
        """Rates in and out by server."""
        found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for queue in self.queues:
            found[queue.server][0] += queue.entered
            found[queue.server][1] += queue.given
        return {name: (self.rate(n[0]), self.rate(n[1])) for name, n in sorted(found.items())}


def flow(source: RunSource, bucket_ms: int = 1000, since_ms: int = 0) -> Flow:
    """From every run that happened not before `since_ms`."""
    rows = flow_frame(source, bucket_ms)
    if since_ms:
        rows = rows.where(f"bucket >= {since_ms // bucket_ms}")
    return gathered(source.catalog, rows.collect(), bucket_ms)


def gathered(catalog: Catalog, rows: list[Any], bucket_ms: int) -> Flow:
    flows: dict[tuple[str, str, str, bool], QueueFlow] = {}
    for row in rows:
        queue = catalog.queues[row["queue_id"]]
        if queue.role is Role.CLIENT or row["kind"] == k.SURVIVED:
            continue
        is_route = queue.role is Role.ROUTE
        name = f"{queue.queue} {queue.third}".strip() if is_route else queue.queue
        key = (queue.server, queue.vhost, name, is_route)
        known = flows.setdefault(key, QueueFlow(*key))
        _enter(known, row["bucket"], row["kind"], row["count"])
    every = [bucket for known in flows.values() for bucket in known.buckets]
    first = min(every, default=0)
    ordered = sorted(flows.values(), key=lambda known: (-known.entered, known.name))
    return Flow(
        bucket_ms=bucket_ms,
        first_bucket=first,
        bucket_count=max(every, default=-1) - first + 1 if every else 0,
        queues=[known for known in ordered if not known.is_route],
        routes=[known for known in ordered if known.is_route],
    )


def _enter(known: QueueFlow, bucket: int, kind: int, count: int) -> None:
    if kind == k.RESTORED:
        # It was counted when it was enqueued; it is there again, not anew.
        return
    counts = known.buckets.setdefault(bucket, [0, 0, 0])
    if kind in IN or kind == k.ROUTED:
        known.entered += count
        counts[0] += count
    if kind in OUT:
        known.given += count
        counts[1] += count
    if kind in k.LEFT:
        counts[2] += count
    if kind in IN:
        known.lag += count
    elif kind in k.LEFT:
        known.lag -= count
        if kind == k.ACKNOWLEDGED:
            known.acknowledged += count
        elif kind in k.DROPPED:
            known.dropped += count


def topic_prefixes(routes: list[QueueFlow], words: int) -> dict[str, int]:
    """Messages by exchange and the first words of their routing keys."""
    found: dict[str, int] = defaultdict(int)
    for route in routes:
        exchange, _, key = route.name.partition(" ")
        prefix = ".".join(key.split(".")[:words])
        found[f"{exchange} {prefix}".strip()] += route.entered
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))
