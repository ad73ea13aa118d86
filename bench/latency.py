"""Latency percentiles of a broker at a given rate, with confirms and acknowledgements."""

import dataclasses
from array import array
from collections.abc import Sequence

from bench.loader import WARM_UP_SECONDS, Load, LoadFailedError
from bench.plan import paired

PERCENTILES = (50.0, 90.0, 99.0, 99.9)

# The rate both brokers are given alike: low enough that neither is busy, so what is compared is
# the path of a message and not the length of a queue.
EQUAL_RATE = 5_000.0


@dataclasses.dataclass(frozen=True, slots=True)
class LatencySample:
    """Microseconds from leaving the publisher to being read by the consumer, by percentile."""

    rate_asked: float
    rate_reached: float
    messages: int
    percentiles: dict[str, float]


def percentile(ordered: Sequence[int], percent: float) -> int:
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def measure_latency(
    host: str, port: int, prefix: str, size: int, rate: float, seconds: float
) -> LatencySample:
    plan = dataclasses.replace(
        paired(host, port, prefix, 1, size, confirms=True, automatic_acks=False), rate=rate
    )
    with Load(plan, "bench.paced_publisher", "bench.timing_consumer") as load:
        load.begin()
        load.wait(WARM_UP_SECONDS + seconds)
        load.drain()
        load.stop()
        latencies = array("q")
        latencies.frombytes((load.folder / "latencies").read_bytes())
    if not latencies:
        raise LoadFailedError("no message of the latency run arrived")
    return LatencySample(
        rate_asked=rate,
        rate_reached=len(latencies) / seconds,
        messages=len(latencies),
        percentiles={
            **{f"p{percent:g}": percentile(latencies, percent) / 1000 for percent in PERCENTILES},
            "max": latencies[-1] / 1000,
        },
    )
