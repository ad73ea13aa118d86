"""Latency percentiles of a broker at a given rate, with confirms and acknowledgements."""

import dataclasses
import itertools
from array import array
from collections.abc import Sequence
from pathlib import Path

from bench.loader import WARM_UP_SECONDS, Load, LoadFailedError
from bench.paced_publisher import LATENESS
from bench.plan import acknowledged, paired
from bench.timing_consumer import READS, STAMPS

PERCENTILES = (50.0, 95.0, 99.0, 99.9)

# The rate both brokers are given alike: low enough that neither is busy, so what is compared is
# the path of a message and not the length of a queue.
EQUAL_RATE = 5_000.0

# Less than this part of the rate asked for means that a queue grew throughout the window: the
# percentiles then depend on the length of the window and say nothing about the broker.
HELD_RATIO_MIN = 0.98


@dataclasses.dataclass(frozen=True, slots=True)
class LatencySample:
    """Microseconds from the time a message was due to its being read by the consumer.

    `lateness` is the part before the broker: from that time to the publisher's write.
    """

    rate_asked: float
    rate_reached: float
    messages: int
    percentiles: dict[str, float]
    lateness: dict[str, float]

    @property
    def held(self) -> bool:
        return self.rate_reached >= HELD_RATIO_MIN * self.rate_asked


def percentile(ordered: Sequence[int], percent: float) -> int:
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def microseconds(nanoseconds: Sequence[int]) -> dict[str, float]:
    ordered = sorted(nanoseconds)
    named = {f"p{percent:g}": percentile(ordered, percent) / 1000 for percent in PERCENTILES}
    return {**named, "max": ordered[-1] / 1000}


def evaluate(
    stamps: Sequence[int],
    reads: Sequence[int],
    lateness: Sequence[int],
    rate: float,
    seconds: float,
) -> LatencySample:
    """`reads` alternates: how many messages came with a read, when it was.

    Latency is that of the messages due within the window, however late they came; the rate
    reached is that of messages which came within the window, whenever they were due.
    """
    if not stamps:
        raise LoadFailedError("no message of the latency run arrived")
    opens = stamps[0] + int(WARM_UP_SECONDS * 1e9)
    closes = opens + int(seconds * 1e9)
    latencies = array("q")
    arrived = 0
    rest = iter(stamps)
    for count, now in zip(reads[::2], reads[1::2], strict=True):
        arrived += count if opens <= now < closes else 0
        part = itertools.islice(rest, count)
        latencies.extend(now - stamp for stamp in part if opens <= stamp < closes)
    if not latencies:
        raise LoadFailedError("no message of the latency run was due within its window")
    return LatencySample(
        rate_asked=rate,
        rate_reached=arrived / seconds,
        messages=len(latencies),
        percentiles=microseconds(latencies),
        lateness=microseconds(lateness),
    )


def measure_latency(
    host: str, port: int, prefix: str, size: int, rate: float, seconds: float
) -> LatencySample:
    plan = dataclasses.replace(acknowledged(paired(host, port, prefix, 1, size)), rate=rate)
    with Load(plan, "bench.paced_publisher", "bench.timing_consumer") as load:
        load.begin()
        load.wait(WARM_UP_SECONDS + seconds)
        load.drain()
        load.stop()
        stamps, reads, lateness = (
            numbers_in(load.folder / name) for name in (STAMPS, READS, LATENESS)
        )
    return evaluate(stamps, reads, lateness, rate, seconds)


def numbers_in(path: Path) -> "array[int]":
    numbers = array("Q")
    numbers.frombytes(path.read_bytes())
    return numbers
