"""The table of the Spark case, and its plots beside the JSON file."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from bench.goals import Verdict
from bench.spark import (
    COMPARISONS,
    SparkSample,
    median_broker_microseconds,
    median_microseconds,
    median_rate,
    of_work,
    ratio,
    verdicts,
)
from bench.verdicts import verdict_text


def spark_table(samples: Sequence[SparkSample]) -> Table:
    table = Table(title="Spark on two cores (medians; rows of 100-byte messages, or events)")
    table.add_column("work", no_wrap=True)
    for heading in ("rows", "rows/s", "best batch", "with start", "CPU us", "broker us"):
        table.add_column(heading, justify="right")
    table.add_column("goals")
    for work in dict.fromkeys(sample.work for sample in samples):
        own = of_work(samples, work)
        with_start = sum(s.rows for s in own) / sum(s.whole_seconds for s in own)
        table.add_row(
            work.name,
            f"{own[0].rows:,}",
            f"{median_rate(own):,.0f}",
            f"{max(sample.best_rate for sample in own):,.0f}",
            f"{with_start:,.0f}",
            f"{median_microseconds(own):.2f}",
            f"{median_broker_microseconds(own):.3f}",
            verdict_text([with_measured(verdict) for verdict in verdicts(samples, work)]),
        )
    return table


def with_measured(verdict: Verdict) -> Verdict:
    """A ratio is read in hundredths, a rate in whole rows."""
    assert verdict.measured is not None
    figure = f"{verdict.measured:,.0f}" if verdict.measured > 100 else f"{verdict.measured:.2f}"
    return dataclasses.replace(verdict, goal=f"{verdict.goal}: {figure}")


def spark_plots(samples: Sequence[SparkSample], json_path: Path) -> list[Path]:
    """A PNG and a page of the same name; none where matplotlib is missing."""
    from penstock.spark.jobs.charts import CannotDraw, Chart, check_plot, draw

    works = list(dict.fromkeys(sample.work for sample in samples))
    rates = {work.name: median_rate(of_work(samples, work)) for work in works}
    compared = {
        f"{each.ours.name}\n/ {each.theirs.name}": found
        for each in COMPARISONS
        if (found := ratio(samples, each)) is not None
    }
    charts = [Chart("Rates", "rows per second", bars=rates, is_logarithmic=True)]
    if compared:
        marks = {"equal": 1.0, "asked of a no-op": 0.7, "asked of a count": 0.5}
        charts.append(Chart("Beside the other way", "ratio", bars=compared, marks=marks))
    rows = [["work", "rows per second", "CPU us per row", "of it broker"]]
    for work in works:
        own = of_work(samples, work)
        costs = f"{median_microseconds(own):.2f}", f"{median_broker_microseconds(own):.3f}"
        rows.append([work.name, f"{rates[work.name]:,.0f}", *costs])
    written = []
    for suffix in (".png", ".html"):
        path = json_path.with_suffix(suffix)
        try:
            check_plot(path)
        except CannotDraw:
            break
        draw(path, "Penstock and Spark on two cores", charts, rows)
        written.append(path)
    return written
