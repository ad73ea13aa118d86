"""Flow: how many messages went through each exchange and queue, when, and how long queues grew.

Rates come from ledgers, per bucket of time. ISR, the internal switching rate, counts messages
enqueued; XSR, the external one, messages delivered: the seed's two figures.
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

FLOW_SQL: Final = "queue_id int, start int, bucket bigint, kind smallint, count bigint"
_SCHEMA: Final = pa.schema(
    [
        ("queue_id", pa.int32()),
        ("start", pa.int32()),
        ("bucket", pa.int64()),
        ("kind", pa.int16()),
        ("count", pa.int64()),
    ]
)
# "When Q is 16 this gives us a tentative ISR of 160KM/s"; 12 queues of 10 KM/s fill a gigabit.
SEED_ISR: Final = 160_000
SEED_XSR: Final = 120_000

IN: Final = k.ENQUEUED
OUT: Final = (k.DELIVERED, k.TAKEN)
COUNTED: Final = (k.RESTORED, *IN, *OUT, *k.LEFT, k.ROUTED)


@dataclass(frozen=True, slots=True)
class CountBuckets:
    """Counts by queue, start, bucket and kind where the files are read. Travels to executors."""

    bucket_ms: int
    # Everything before this bucket counts as one earlier bucket: only the lag needs it.
    first_bucket: int = 0

    def __call__(self, runs: Iterator[Runs]) -> Iterator[pa.RecordBatch]:
        for part in runs:
            chosen = part.where(np.isin(part.kind, COUNTED))
            if len(chosen):
                yield self.counted(chosen)

    def counted(self, runs: Runs) -> pa.RecordBatch:
        bucket = np.maximum(runs.time // self.bucket_ms, self.first_bucket - 1)
        lowest = int(bucket.min())
        width = int(bucket.max()) - lowest + 1
        starts = int(runs.start.max()) + 1
        life = runs.queue.astype(np.int64) * starts + runs.start
        key = (life * width + (bucket - lowest)) * k.KIND_COUNT + runs.kind
        used, places = np.unique(key, return_inverse=True)
        sums = np.bincount(places, runs.count.astype(np.float64)).astype(np.int64)
        cells = used // k.KIND_COUNT
        columns = [
            (cells // width // starts).astype(np.int32),
            (cells // width % starts).astype(np.int32),
            cells % width + lowest,
            (used % k.KIND_COUNT).astype(np.int16),
            sums,
        ]
        return pa.record_batch([pa.array(column) for column in columns], schema=_SCHEMA)


def flow_frame(source: RunSource, bucket_ms: int, first_bucket: int = 0) -> DataFrame:
    """Columns queue_id, start, bucket (number of buckets since 1970), kind, count."""
    from pyspark.sql import functions as f

    counted = source.through(CountBuckets(bucket_ms, first_bucket), FLOW_SQL)
    keys = ("queue_id", "start", "bucket", "kind")
    return counted.groupBy(*keys).agg(f.sum("count").alias("count"))


@dataclass(slots=True)
class QueueFlow:
    """One queue: totals and what it did in each bucket."""

    server: str
    vhost: str
    name: str
    entered: int = 0
    given: int = 0
    acknowledged: int = 0
    dropped: int = 0
    # Messages in it after the last bucket, as far as the ledger knows.
    lag: int = 0
    buckets: dict[int, list[int]] = field(default_factory=dict)  # entered, given
    # By start of the broker and bucket, by how much it grew: with a start it begins with what was
    # restored.
    growth: dict[int, dict[int, int]] = field(default_factory=dict)


@dataclass(slots=True)
class RouteFlow:
    """What was published to an exchange with a routing key, or with keys of a prefix."""

    vhost: str
    exchange: str
    key: str
    count: int = 0
    buckets: dict[int, int] = field(default_factory=dict)

    def add(self, bucket: int, count: int) -> None:
        self.count += count
        self.buckets[bucket] = self.buckets.get(bucket, 0) + count

    @property
    def busiest(self) -> int:
        """Messages in its busiest bucket."""
        return max(self.buckets.values(), default=0)


@dataclass(slots=True)
class Flow:
    """What the job returns. Rates are per second."""

    bucket_ms: int
    first_bucket: int
    bucket_count: int
    queues: list[QueueFlow]
    routes: list[RouteFlow]
    # By server and start of its broker, the first bucket with a record of it.
    starts: dict[str, dict[int, int]] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return self.bucket_count * self.bucket_ms / 1000

    def rate(self, count: int) -> float:
        return count / self.seconds if self.seconds else 0.0

    def peak(self, route: RouteFlow) -> float:
        return route.busiest * 1000 / self.bucket_ms

    @property
    def isr(self) -> float:
        return self.rate(sum(queue.entered for queue in self.queues))

    @property
    def xsr(self) -> float:
        return self.rate(sum(queue.given for queue in self.queues))

    def series(self, part: int) -> list[float]:
        """Rates per bucket: of what entered (0) or was given to consumers (1)."""
        sums = [0] * self.bucket_count
        for queue in self.queues:
            for bucket, counts in queue.buckets.items():
                sums[bucket - self.first_bucket] += counts[part]
        return [count * 1000 / self.bucket_ms for count in sums]

    def lag_series(self) -> list[int]:
        """Messages in all queues after each bucket."""
        if not self.bucket_count:
            return []
        total = np.zeros(self.bucket_count, dtype=np.int64)
        for queue in self.queues:
            begins = self.starts.get(queue.server, {})
            for start, growth in queue.growth.items():
                steps = np.zeros(self.bucket_count, dtype=np.int64)
                for bucket, count in growth.items():
                    steps[max(0, bucket - self.first_bucket)] += count
                # The next start begins again with what it recovered.
                later = [begin for other, begin in begins.items() if other > start]
                until = min(later, default=self.first_bucket + self.bucket_count)
                end = max(0, until - self.first_bucket)
                total[:end] += np.cumsum(steps)[:end]
        found: list[int] = total.tolist()
        return found

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

    def exchanges(self) -> list[RouteFlow]:
        """What was published to each, the busiest first."""
        return self._merged({id(route): "" for route in self.routes})

    def topics(self, words: int) -> list[RouteFlow]:
        """The same by exchange and the first words of routing keys."""
        prefixes = {id(route): ".".join(route.key.split(".")[:words]) for route in self.routes}
        return self._merged(prefixes)

    def hottest(self) -> list[RouteFlow]:
        """Routing keys, those first that were busiest in any bucket."""
        merged = self._merged({id(route): route.key for route in self.routes})
        return sorted(merged, key=lambda route: -route.busiest)

    def _merged(self, keys: dict[int, str]) -> list[RouteFlow]:
        found: dict[tuple[str, str, str], RouteFlow] = {}
        for route in self.routes:
            name = (route.vhost, route.exchange, keys[id(route)])
            merged = found.setdefault(name, RouteFlow(*name))
            for bucket, count in route.buckets.items():
                merged.add(bucket, count)
        return sorted(found.values(), key=lambda route: (-route.count, route.exchange, route.key))


def flow(source: RunSource, bucket_ms: int = 1000, since_ms: int = 0) -> Flow:
    """From every run that happened not before `since_ms`; the lag from all there are."""
    first_bucket = since_ms // bucket_ms
    rows = flow_frame(source, bucket_ms, first_bucket).collect()
    return gathered(source.catalog, rows, bucket_ms, first_bucket)


def gathered(catalog: Catalog, rows: list[Any], bucket_ms: int, first_bucket: int = 0) -> Flow:
    queues: dict[tuple[str, str, str], QueueFlow] = {}
    routes: dict[int, RouteFlow] = {}
    every: set[int] = set()
    starts: dict[str, dict[int, int]] = defaultdict(dict)
    for row in rows:
        queue = catalog.queues[row["queue_id"]]
        is_counted = row["bucket"] >= first_bucket
        if queue.role in {Role.CLIENT, Role.INTERNAL}:
            continue
        if is_counted:
            every.add(row["bucket"])
        begins = starts[queue.server]
        begins[row["start"]] = min(row["bucket"], begins.get(row["start"], row["bucket"]))
        if queue.role is Role.QUEUE:
            key = (queue.server, queue.vhost, queue.queue)
            known = queues.setdefault(key, QueueFlow(*key))
            _enter(known, row, is_counted, catalog.start_counts.get(queue.server, 1) - 1)
            if queue.is_stream:
                # A stream keeps its messages, so its readers do not reduce its length.
                known.lag = 0
                known.growth.clear()
        elif is_counted:
            route = RouteFlow(queue.vhost, queue.queue, queue.third)
            routes.setdefault(queue.number, route).add(row["bucket"], row["count"])
    first = min(every, default=0)
    return Flow(
        bucket_ms=bucket_ms,
        first_bucket=first,
        bucket_count=max(every) - first + 1 if every else 0,
        queues=sorted(queues.values(), key=lambda known: (-known.entered, known.name)),
        routes=list(routes.values()),
        starts=dict(starts),
    )


def _enter(known: QueueFlow, row: Any, is_counted: bool, last_start: int) -> None:
    kind, count, start = row["kind"], row["count"], row["start"]
    change = count if kind in IN or kind == k.RESTORED else -count if kind in k.LEFT else 0
    if change:
        growth = known.growth.setdefault(start, {})
        growth[row["bucket"]] = growth.get(row["bucket"], 0) + change
        if start == last_start:
            known.lag += change
    if not is_counted:
        return
    counts = known.buckets.setdefault(row["bucket"], [0, 0])
    if kind in IN:
        known.entered += count
        counts[0] += count
    elif kind in OUT:
        known.given += count
        counts[1] += count
    if kind == k.ACKNOWLEDGED:
        known.acknowledged += count
    elif kind in k.DROPPED:
        known.dropped += count
