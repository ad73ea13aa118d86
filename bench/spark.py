"""Measurements of the data source: samples, comparisons and goals.

A sample is one query. Queries that are compared run in turn, round after round; a ratio is the
median of the rounds' ratios, so that other load on the machine affects both.
"""

import dataclasses
import statistics
from collections.abc import Sequence

from bench.goals import Verdict, at_least, at_most

SPARK = "spark"
MESSAGES = 4_000_000

# The source or target of the rows.
PENSTOCK = "penstock"
PARQUET = "Parquet"
SINK = "sink"
DIRECT = "direct"
TUPLES = "tuples"
LEDGER = "ledger"

# What is done with them.
NO_OP = "no-op"
COUNT = "count by key"
WRITE = "write"
AUDIT = "audit"

# Which columns of the source are asked for.
USUAL = "usual"
ALL = "all"
KEY = "key"

NO_OP_RATIO_MIN = 0.7
COUNT_RATIO_MIN = 0.5
BROKER_MICROSECONDS_MAX = 0.1
WRITE_RATE_MIN = 60_000
WRITE_RATIO_MIN = 3.0
AUDIT_RATE_MIN = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class SparkWork:
    """One kind of query."""

    rows_of: str
    work: str
    columns: str = ""

    @property
    def name(self) -> str:
        return ", ".join(filter(None, (self.work, self.rows_of, self.columns)))


@dataclasses.dataclass(frozen=True, slots=True)
class SparkSample:
    """`seconds` are those of the micro-batches, or of the whole job where there are none;
    `whole_seconds` has the start of the query as well. `cpu_seconds` are those of Spark with its
    Python workers and of the broker, the start of the query included.
    """

    work: SparkWork
    round_index: int
    rows: int
    seconds: float
    whole_seconds: float
    best_rate: float
    cpu_seconds: float
    broker_cpu_seconds: float = 0.0

    @property
    def rate(self) -> float:
        return self.rows / self.seconds

    @property
    def microseconds(self) -> float:
        return self.cpu_seconds * 1e6 / self.rows

    @property
    def broker_microseconds(self) -> float:
        return self.broker_cpu_seconds * 1e6 / self.rows


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    ours: SparkWork
    theirs: SparkWork
    ratio_min: float


READ_USUAL = SparkWork(PENSTOCK, NO_OP, USUAL)
READ_ALL = SparkWork(PENSTOCK, NO_OP, ALL)
COUNT_USUAL = SparkWork(PENSTOCK, COUNT, USUAL)
COUNT_KEY = SparkWork(PENSTOCK, COUNT, KEY)
PARQUET_USUAL = SparkWork(PARQUET, NO_OP, USUAL)
PARQUET_ALL = SparkWork(PARQUET, NO_OP, ALL)
PARQUET_COUNT = SparkWork(PARQUET, COUNT)
WRITE_SINK = SparkWork(SINK, WRITE)
WRITE_DIRECT = SparkWork(DIRECT, WRITE)
WRITE_TUPLES = SparkWork(TUPLES, WRITE)
AUDIT_LEDGER = SparkWork(LEDGER, AUDIT)

READS = (
    READ_USUAL,
    PARQUET_ALL,
    PARQUET_USUAL,
    READ_ALL,
    COUNT_USUAL,
    PARQUET_COUNT,
    COUNT_KEY,
)

# Parquet holds all columns of the messages. Reading the usual ones is set beside reading all of
# its rows, since that is what each does by itself, and beside reading the same columns of it.
COMPARISONS = (
    Comparison(READ_USUAL, PARQUET_ALL, NO_OP_RATIO_MIN),
    Comparison(READ_USUAL, PARQUET_USUAL, NO_OP_RATIO_MIN),
    Comparison(READ_ALL, PARQUET_ALL, NO_OP_RATIO_MIN),
    Comparison(COUNT_USUAL, PARQUET_COUNT, COUNT_RATIO_MIN),
    Comparison(COUNT_KEY, PARQUET_COUNT, COUNT_RATIO_MIN),
    Comparison(WRITE_SINK, WRITE_TUPLES, WRITE_RATIO_MIN),
    Comparison(WRITE_DIRECT, WRITE_TUPLES, WRITE_RATIO_MIN),
)


def ratio(samples: Sequence[SparkSample], comparison: Comparison) -> float | None:
    """Over the rounds that have both."""
    ours = {s.round_index: s.rate for s in samples if s.work == comparison.ours}
    theirs = {s.round_index: s.rate for s in samples if s.work == comparison.theirs}
    found = [ours[each] / theirs[each] for each in ours.keys() & theirs.keys()]
    return statistics.median(found) if found else None


def of_work(samples: Sequence[SparkSample], work: SparkWork) -> list[SparkSample]:
    return [sample for sample in samples if sample.work == work]


def median_rate(samples: Sequence[SparkSample]) -> float:
    return statistics.median(sample.rate for sample in samples)


def median_microseconds(samples: Sequence[SparkSample]) -> float:
    return statistics.median(sample.microseconds for sample in samples)


def median_broker_microseconds(samples: Sequence[SparkSample]) -> float:
    return statistics.median(sample.broker_microseconds for sample in samples)


def verdicts(samples: Sequence[SparkSample], work: SparkWork) -> list[Verdict]:
    """The goals of a kind of query, as far as they were measured."""
    own = of_work(samples, work)
    if not own:
        return []
    found = []
    for comparison in COMPARISONS:
        measured = ratio(samples, comparison)
        if comparison.ours == work and measured is not None:
            goal = f">= {comparison.ratio_min:g}x {comparison.theirs.name}"
            found.append(at_least(goal, measured, comparison.ratio_min))
    if work.rows_of == PENSTOCK:
        limit = BROKER_MICROSECONDS_MAX
        found.append(at_most(f"broker <= {limit:g} us", median_broker_microseconds(own), limit))
    if work == WRITE_SINK:
        found.append(at_least(f">= {WRITE_RATE_MIN:,}/s", median_rate(own), WRITE_RATE_MIN))
    if work == AUDIT_LEDGER:
        found.append(at_least(f">= {AUDIT_RATE_MIN:,}/s", median_rate(own), AUDIT_RATE_MIN))
    return found


def as_json(samples: Sequence[SparkSample]) -> list[dict[str, object]]:
    """By kind of query: figures, raw samples, and the verdict on each goal."""
    return [
        {
            **dataclasses.asdict(work),
            "rate": median_rate(of_work(samples, work)),
            "microseconds": median_microseconds(of_work(samples, work)),
            "broker_microseconds": median_broker_microseconds(of_work(samples, work)),
            "goals": [dataclasses.asdict(verdict) for verdict in verdicts(samples, work)],
            "samples": [dataclasses.asdict(sample) for sample in of_work(samples, work)],
        }
        for work in dict.fromkeys(sample.work for sample in samples)
    ]
