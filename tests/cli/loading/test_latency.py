"""Percentiles from log buckets."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.loading.latency import LatencyHistogram, bucket_of, highest_of


@given(st.integers(0, 10**12))
def test_a_bucket_overstates_its_values_by_at_most_one_part_in_32(value: int) -> None:
    highest = highest_of(bucket_of(value))
    assert value <= highest <= value + value // 32


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_larger_values_fall_into_no_smaller_bucket(one: int, other: int) -> None:
    assert (bucket_of(one) <= bucket_of(other)) or one > other


@given(st.integers(0, 2000))
def test_every_bucket_holds_its_own_highest_value(bucket: int) -> None:
    assert bucket_of(highest_of(bucket)) == bucket
    assert bucket_of(highest_of(bucket) + 1) == bucket + 1


def test_percentiles_are_read_off_the_counts() -> None:
    histogram = LatencyHistogram()
    histogram.record(10, 90)
    histogram.record(20, 9)
    histogram.record(40)
    assert [histogram.percentile(p) for p in (50, 90, 99, 100)] == [10, 10, 20, 40]


def test_no_samples_have_no_percentile() -> None:
    assert LatencyHistogram().percentile(50) is None


def test_clocks_that_step_back_count_as_no_time_at_all() -> None:
    histogram = LatencyHistogram()
    histogram.record(-5)
    assert histogram.percentile(100) == 0


def test_merged_histograms_add_up() -> None:
    one, other = LatencyHistogram(), LatencyHistogram()
    one.record(5)
    other.record(5)
    other.record(50)
    one.merge([other])
    assert one.total == 3
    assert one.percentile(100) == 50
