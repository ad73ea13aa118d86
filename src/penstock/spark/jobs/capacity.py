"""The capacity of a cluster: seed 000's figures as a formula, with measured costs, over a grid.

A faucet publishes into a root, which fans out to B brokers, each of which switches into Q queues,
each with one client. With more levels every broker feeds B more. The results: how many publishes
per second the cluster sustains, its output, and its bottleneck.

    limit            per publish
    offered          the faucet's rate, "broker capacity" in the seed
    cpu root, cpu    the CPU time of a broker: receiving once, and sending to B brokers or Q clients
    network in       one message
    network out      B messages from a broker to brokers, Q to clients

The seed's rule is the special case in which the rate is given and computing costs nothing: then the
most queues a network carries is the network's speed by that of one stream of messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

GIGABIT: Final = 1_000_000_000

# Measured (README, fanout to 4 and 1 to 1, transient, 100 octets): in + out = 0.45 us,
# in + 4 out = 4 x 0.26 us.
RECEIVE_US: Final = 0.25
SEND_US: Final = 0.20

LIMITS: Final = (
    "offered rate",
    "CPU of relays",
    "CPU of edge brokers",
    "network in",
    "network between brokers",
    "network to clients",
)


@dataclass(frozen=True, slots=True)
class Site:
    """The input: one broker's machine and network, and the messages."""

    message_bytes: int = 1000
    # Publishes per second; the seed's "broker capacity".
    offered: float = 10_000.0
    internal_bits: float = float(GIGABIT)
    external_bits: float = float(GIGABIT)
    receive_us: float = RECEIVE_US
    send_us: float = SEND_US
    cores: float = 1.0


@dataclass(frozen=True, slots=True)
class Shape:
    """A cluster: each broker feeds `brokers` more, `levels` deep; each edge broker has queues."""

    brokers: int = 1
    queues: int = 1
    levels: int = 1

    @property
    def edges(self) -> int:
        """Brokers that clients are connected to."""
        return self.brokers**self.levels if self.levels else 1

    @property
    def nodes(self) -> int:
        return sum(self.brokers**level for level in range(self.levels + 1))

    @property
    def receivers(self) -> int:
        return self.edges * self.queues


@dataclass(frozen=True, slots=True)
class Capacity:
    """The performance of a shape at a site. Rates are messages per second."""

    publishes: float
    isr: float
    xsr: float
    # The bottleneck.
    binding: str
    nodes: int
    receivers: int
    # How much of each limit is used, 1 for the binding one.
    used: dict[str, float] = field(default_factory=dict)


def streams_max(site: Site, bits: float) -> int:
    """How many streams at the offered rate a link carries; the seed's limit of Q and of B.

    The seed says 4 where the link carries 3.75 streams: it rounds, so does this.
    """
    return round(bits / (site.offered * site.message_bytes * 8))


def evaluate(site: Site, shape: Shape) -> Capacity:
    bits = site.message_bytes * 8
    fan = shape.brokers if shape.levels else 0
    relay_us = site.receive_us + fan * site.send_us
    edge_us = site.receive_us + shape.queues * site.send_us
    unlimited = float("inf")
    rates = (
        site.offered,
        site.cores * 1e6 / relay_us if relay_us and fan else unlimited,
        site.cores * 1e6 / edge_us if edge_us else unlimited,
        min(site.internal_bits, site.external_bits) / bits,
        site.internal_bits / (fan * bits) if fan else unlimited,
        site.external_bits / (shape.queues * bits),
    )
    publishes = min(rates)
    return Capacity(
        publishes=publishes,
        isr=min(rates[:5]) * shape.receivers,
        xsr=publishes * shape.receivers,
        binding=LIMITS[rates.index(publishes)],
        nodes=shape.nodes,
        receivers=shape.receivers,
        used={name: publishes / rate for name, rate in zip(LIMITS, rates, strict=True)},
    )


def best_shape(site: Site, receivers: int, levels_max: int = 6) -> tuple[Shape, Capacity]:
    """The smallest cluster that gives every one of `receivers` the highest rate it can."""
    found: list[tuple[float, int, Shape, Capacity]] = []
    for levels in range(levels_max + 1):
        for queues in (1, 2, 4, 8, 12, 16, 32, 64, 128, 256, 1000, 10_000):
            edges = -(-receivers // queues)
            brokers = 1 if levels == 0 else _root_of(edges, levels)
            if levels == 0 and edges > 1:
                continue
            shape = Shape(brokers, queues, levels)
            capacity = evaluate(site, shape)
            found.append((-capacity.publishes, capacity.nodes, shape, capacity))
    _, _, shape, capacity = min(found, key=lambda row: row[:2])
    return shape, capacity


def _root_of(count: int, power: int) -> int:
    """The smallest number whose power is not below `count`."""
    root = max(1, int(count ** (1 / power)))
    while root**power < count:
        root += 1
    return root


@dataclass(frozen=True, slots=True)
class Grid:
    """Every combination of these; other values stay as in the site."""

    brokers: tuple[int, ...] = (1, 3, 6, 12, 30, 100)
    queues: tuple[int, ...] = (1, 4, 12, 16, 64, 256, 1000, 10_000)
    levels: tuple[int, ...] = (0, 1, 2, 3, 4)
    message_bytes: tuple[int, ...] = (100, 250, 1000, 10_000)

    def including(self, shape: Shape, message_bytes: int) -> Grid:
        """With the values of the requested cluster, so that it is in the grid."""

        def with_one(values: tuple[int, ...], value: int) -> tuple[int, ...]:
            return tuple(sorted({*values, value}))

        return Grid(
            with_one(self.brokers, shape.brokers),
            with_one(self.queues, shape.queues),
            with_one(self.levels, shape.levels),
            with_one(self.message_bytes, message_bytes),
        )

    def combinations(self) -> list[tuple[int, int, int, int]]:
        every = product(self.brokers, self.queues, self.levels, self.message_bytes)
        # Without relays the number of brokers has no effect.
        return [row for row in every if row[2] or row[0] == min(self.brokers)]


# Name, Spark's type and the name of Arrow's type of each column.
_GRID: Final = (
    ("message_bytes", "int", "int32"),
    ("brokers", "int", "int32"),
    ("queues", "int", "int32"),
    ("levels", "int", "int32"),
    ("nodes", "bigint", "int64"),
    ("receivers", "bigint", "int64"),
    ("publishes", "double", "float64"),
    ("isr", "double", "float64"),
    ("xsr", "double", "float64"),
    ("binding", "string", "string"),
)
GRID_SQL: Final = ", ".join(f"{name} {kind}" for name, kind, _ in _GRID)


def capacity_grid(spark: SparkSession, site: Site, grid: Grid) -> DataFrame:
    """A row for each combination, computed by tasks."""
    rows = grid.combinations()
    tasks = min(len(rows), spark.sparkContext.defaultParallelism)
    return spark.range(0, len(rows), 1, tasks).mapInArrow(Evaluate(site, rows), GRID_SQL)


@dataclass(frozen=True, slots=True)
class Evaluate:
    site: Site
    rows: Sequence[tuple[int, int, int, int]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = pa.schema([(name, getattr(pa, kind)()) for name, _, kind in _GRID])
        for batch in batches:
            found = [self.row(number) for number in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pylist(found, schema=schema)

    def row(self, number: int) -> dict[str, Any]:
        brokers, queues, levels, size = self.rows[number]
        site = replace(self.site, message_bytes=size)
        capacity = evaluate(site, Shape(brokers, queues, levels))
        shape = {"message_bytes": size, "brokers": brokers, "queues": queues, "levels": levels}
        return shape | {name: getattr(capacity, name) for name, _, _ in _GRID if name not in shape}
