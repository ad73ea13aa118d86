"""Which rows of an archive a replay publishes, on real Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from penstock.cli.pipeline_replay import chosen_rows, moment
from penstock.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOURS = (
    datetime(2026, 11, 15, 19, tzinfo=UTC),
    datetime(2026, 11, 15, 21, tzinfo=UTC),
    datetime(2026, 11, 16, 1, tzinfo=UTC),
)


@pytest.mark.slow
def test_times_with_an_offset_choose_messages_of_the_day_before(spark: SparkSession) -> None:
    """01:00 at five hours east is 20:00 of the day before, by which the archive is divided."""
    rows = spark.createDataFrame(
        [("s", hour, f"{hour:%Y-%m-%d}", hour.hour) for hour in HOURS],
        "stream string, timestamp timestamp, date string, hour int",
    )

    def hours(since: str | None, until: str | None) -> list[int]:
        begin, end = moment("--since", since), moment("--until", until)
        return [row.hour for row in chosen_rows(rows, "s", begin, end, None).collect()]

    assert hours("2026-11-16T01:00:00+05:00", None) == [21, 1]
    assert hours(None, "2026-11-15T22:00:00-02:00") == [19, 21]
    assert hours("2026-11-15T20:00:00Z", "2026-11-15T22:00:00") == [21]
    assert hours(str(round(HOURS[2].timestamp() * 1000)), None) == [1]


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(OptionError, match="option '--since': cannot parse 'yesterday'"):
        moment("--since", "yesterday")
