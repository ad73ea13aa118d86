"""Plots, without Spark: what stands on their axes, and that they can be written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.cli.pipeline_audit import audit_charts
from penstock.cli.pipeline_capacity import capacity_charts
from penstock.cli.pipeline_flow import flow_charts
from penstock.spark.jobs.capacity import Evaluate, Grid, Shape, Site, evaluate
from penstock.spark.jobs.charts import CannotDraw, Chart, Spot, check_plot, draw, figure_of
from penstock.spark.jobs.flow import Flow, QueueFlow, RouteFlow
from penstock.spark.jobs.verdict import Audit, QueueVerdict

NOON = datetime(2026, 11, 18, 12, 0, 0, tzinfo=UTC)


def flow_at_noon(rate: int) -> Flow:
    first = int(NOON.timestamp())
    queue = QueueFlow("a", "/", "q", entered=2 * rate, given=rate)
    queue.buckets = {first: [rate, 0], first + 1: [rate, rate]}
    queue.growth = {0: {first: rate}}
    route = RouteFlow("/", "orders", "eu")
    route.add(first, rate)
    return Flow(1000, first, 2, [queue], [route])


def test_rates_are_drawn_over_clock_time_in_plain_words() -> None:
    charts = flow_charts(flow_at_noon(500))
    rates, backlog, keys = charts
    assert list(rates.x) == [NOON, NOON + timedelta(seconds=1)]
    assert list(rates.lines) == ["into queues", "to consumers"]
    assert list(backlog.x) == list(rates.x)
    assert keys.bars == {"orders eu": 500.0}
    words = " ".join([*(c.title + c.xlabel + c.ylabel for c in charts), *rates.lines])
    assert not {"ISR", "XSR", "seed", "lag"} & set(words.split())
    figure = figure_of("flow", charts)
    figure.canvas.draw()
    axes = figure.axes[0]
    assert axes.get_xlabel() == "time of day (UTC), 2026-11-18"
    assert "12:00:00" in [label.get_text() for label in axes.get_xticklabels()]


def test_several_days_are_told_on_the_axis() -> None:
    chart = Chart("t", "y", "time", [NOON, NOON + timedelta(days=2)], {"a": [1, 2]})
    assert figure_of("t", [chart]).axes[0].get_xlabel() == "time, 2026-11-18 to 2026-11-20"


def test_figures_to_compare_with_are_left_out_where_they_would_flatten_everything() -> None:
    assert flow_charts(flow_at_noon(500))[0].marks == {}
    marks = flow_charts(flow_at_noon(100_000))[0].marks
    assert marks == {"design figure, into queues": 160_000, "design figure, to consumers": 120_000}


@pytest.mark.parametrize("shape", [Shape(10, 20, 1), Shape(7, 9, 2), Shape(1, 5, 0)])
def test_the_capacity_plot_marks_the_cluster_that_was_asked_for_and_what_limits_it(
    shape: Shape,
) -> None:
    """With a size of messages, brokers, queues and levels that are not among those of the grid."""
    site = Site(message_bytes=600)
    asked = evaluate(site, shape)
    combinations = Grid().including(shape, 600).combinations()
    compute = Evaluate(site, combinations)
    rows = [compute.row(number) for number in range(len(combinations))]
    deliveries, publishes, used = capacity_charts(rows, shape, asked, 600)
    for chart, rate in ((deliveries, asked.xsr), (publishes, asked.publishes)):
        assert chart.spot is not None
        assert (chart.spot.x, chart.spot.y) == (shape.queues, rate)
        assert f"limited by: {asked.binding}" in chart.spot.text
        # It lies on the line of its brokers.
        line = chart.lines[chart.emphasized]
        assert line[list(chart.x).index(shape.queues)] == pytest.approx(rate)
    assert used.emphasized == asked.binding
    assert used.bars[asked.binding] == pytest.approx(100)
    assert max(used.bars.values()) == pytest.approx(100)


def test_findings_of_an_audit_have_plain_names() -> None:
    verdict = QueueVerdict("a", "/", "q", enqueued=7, lost=2, still_queued=3)
    verdict.dropped = {"delivery_limit": 5}
    found = Audit([verdict], [], 0, 0, 0, 0, {}, [], [])
    happened, wrong = audit_charts(found)
    assert (happened.bars["enqueued"], happened.bars["still in a queue"]) == (7, 3)
    assert happened.bars["dropped: delivery limit"] == 5
    assert (wrong.bars["lost"], wrong.emphasized) == (2, "lost")
    assert not [name for name in (*happened.bars, *wrong.bars) if "_" in name]


def test_bars_of_nothing_begin_at_zero() -> None:
    (axes,) = figure_of("t", [Chart("t", "messages", bars={"lost": 0.0, "phantom": 0.0})]).axes
    assert axes.get_xlim() == (0, 1)


def test_marks_are_drawn_beside_bars_too() -> None:
    chart = Chart("t", "ratio", bars={"a": 1.0, "b": 3.0}, marks={"as fast": 1.0})
    (axes,) = figure_of("t", [chart]).axes
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["as fast"]


def test_a_plot_is_a_picture_or_a_page(tmp_path: Path) -> None:
    chart = Chart("t", "y", "x", [1, 10], {"a": [1, 2]}, is_logarithmic=True, spot=Spot(10, 2, "s"))
    for name in ("plot.png", "plot.html"):
        check_plot(tmp_path / name)
        draw(tmp_path / name, "title", [chart], [["queue"], ["<q>"]])
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "<td>&lt;q&gt;</td>" in (tmp_path / "plot.html").read_text()
    with pytest.raises(CannotDraw, match=r"\.png or an \.html"):
        check_plot(tmp_path / "plot.gif")
