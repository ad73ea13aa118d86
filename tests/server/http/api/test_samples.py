"""Rates and samples of what was counted."""

import pytest

from penstock.server.http.api.samples import (
    DATA_RATES,
    LENGTHS,
    NOTHING_SAMPLED,
    SAMPLE_MS,
    SHORT_ROWS_MAX,
    Series,
    Span,
    Spans,
)
from penstock.server.http.problems import Problem


def filled(*values: int, rows_max: int = 100) -> Series:
    """One number, a sample every interval from time 0 on."""
    series = Series(1, rows_max)
    for index, value in enumerate(values):
        series.add(index * SAMPLE_MS, (value,))
    return series


def test_a_rate_is_the_difference_of_the_last_two_samples() -> None:
    assert filled(0, 100, 150).taken(False).rate(0) == 10.0


def test_there_is_no_rate_before_the_second_sample() -> None:
    assert NOTHING_SAMPLED.rate(0) == 0.0
    assert filled(7).taken(False).rate(0) == 0.0


def test_a_rate_of_another_column_does_not_mix_with_the_first() -> None:
    series = Series(2, 10)
    series.add(0, (1, 10))
    series.add(SAMPLE_MS, (1, 30))
    taken = series.taken(False)
    assert (taken.rate(0), taken.rate(1)) == (0.0, 4.0)


def test_samples_come_newest_first_with_their_averages() -> None:
    details = filled(0, 10, 30, 60).taken(True).details(0, Span(10_000, SAMPLE_MS))
    assert details == {
        "rate": 6.0,
        "samples": [
            {"sample": 60, "timestamp": 15_000},
            {"sample": 30, "timestamp": 10_000},
            {"sample": 10, "timestamp": 5_000},
        ],
        "avg": pytest.approx(100 / 3),
        "avg_rate": 5.0,
    }


def test_a_longer_step_leaves_samples_out() -> None:
    details = filled(0, 1, 2, 3, 4).taken(True).details(0, Span(20_000, 2 * SAMPLE_MS))
    samples = details["samples"]
    assert isinstance(samples, list)
    assert [sample["sample"] for sample in samples] == [4, 2, 0]


def test_a_gap_shows_what_was_known_then() -> None:
    series = Series(1, 10)
    series.add(0, (5,))
    series.add(3 * SAMPLE_MS, (8,))
    details = series.taken(True).details(0, Span(15_000, SAMPLE_MS))
    samples = details["samples"]
    assert isinstance(samples, list)
    assert [sample["sample"] for sample in samples] == [8, 5, 5, 5]


def test_what_was_never_sampled_has_no_samples() -> None:
    details = NOTHING_SAMPLED.details(0, Span(60_000, SAMPLE_MS))
    assert details == {"rate": 0.0, "samples": [], "avg": 0.0, "avg_rate": 0.0}


def test_a_series_keeps_no_more_than_its_rows() -> None:
    series = filled(*range(100), rows_max=SHORT_ROWS_MAX)
    details = series.taken(True).details(0, Span(3_600_000, SAMPLE_MS))
    samples = details["samples"]
    assert isinstance(samples, list)
    assert len(samples) == SHORT_ROWS_MAX
    assert samples[0]["sample"] == 99


def test_what_was_taken_does_not_change_any_more() -> None:
    series = filled(0, 10)
    taken = series.taken(True)
    series.add(2 * SAMPLE_MS, (1000,))
    assert taken.rate(0) == 2.0


def test_a_client_names_a_span_with_two_numbers_and_each_kind_has_its_own() -> None:
    query = {"lengths_age": "60", "lengths_incr": "7", "data_rates_age": "60"}
    spans = Spans(lambda key: query.get(key, ""))
    assert spans.of(LENGTHS) == Span(60_000, 2 * SAMPLE_MS)
    assert spans.of(DATA_RATES) is None
    assert not spans.is_empty
    assert Spans(lambda key: "").is_empty


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "1" * 20])
def test_a_span_that_is_not_a_number_is_refused(text: str) -> None:
    query = {"lengths_age": text, "lengths_incr": "5"}
    with pytest.raises(Problem):
        Spans(lambda key: query.get(key, ""))
