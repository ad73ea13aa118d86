"""Percentiles without keeping every sample.

Buckets are exact up to 63 µs and then split every doubling into 32, so a reported value is at
most 1/32 above the true one, from microseconds to hours, in under two thousand counters.
"""

from collections.abc import Iterable, Mapping
from typing import Final

# 32 buckets to a doubling: 3 % is finer than two runs of a benchmark agree.
BITS: Final = 5


def bucket_of(microseconds: int) -> int:
    if microseconds < 2 << BITS:
        return max(0, microseconds)
    shift = microseconds.bit_length() - (BITS + 1)
    return (shift << BITS) + (microseconds >> shift)


def highest_of(bucket: int) -> int:
    """The largest value that falls into `bucket`."""
    if bucket < 2 << BITS:
        return bucket
    shift = (bucket >> BITS) - 1
    return (((bucket & ((1 << BITS) - 1)) + (1 << BITS) + 1) << shift) - 1


class LatencyHistogram:
    """Held by a faucet (confirm latency) or a sink (delivery latency); merged by the crew."""

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        self.counts: dict[int, int] = dict(counts or {})

    def record(self, microseconds: int, count: int = 1) -> None:
        bucket = bucket_of(microseconds)
        self.counts[bucket] = self.counts.get(bucket, 0) + count

    def merge(self, others: Iterable["LatencyHistogram"]) -> None:
        for other in others:
            for bucket, count in other.counts.items():
                self.counts[bucket] = self.counts.get(bucket, 0) + count

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def percentile(self, percent: float) -> int | None:
        """The value, in microseconds, that `percent` of the samples do not exceed."""
        total = self.total
        if not total:
            return None
        wanted = total * percent / 100
        passed = 0
        for bucket in sorted(self.counts):
            passed += self.counts[bucket]
            if passed >= wanted:
                return highest_of(bucket)
        return highest_of(max(self.counts))
