"""Plots as PNG or as a self-contained HTML file.

Both are drawn by matplotlib: a page is its text as a table and the drawing within it.
"""

from __future__ import annotations

import base64
import html
import io
from dataclasses import dataclass, field
from datetime import datetime
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.spark.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES: Final = (".png", ".html")
_STYLE: Final = (
    "body{font:15px system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:right;"
    "border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}"
    "img{max-width:100%}"
)


class CannotDraw(PipelineError):
    """The requested plot cannot be made. Says why and what to do."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A point that is marked, with a text beside it."""

    x: float
    y: float
    text: str


@dataclass(slots=True)
class Chart:
    """One set of axes: lines over x, or bars with names. Moments as x are drawn as clock time."""

    title: str
    ylabel: str
    xlabel: str = ""
    x: Sequence[float] | Sequence[datetime] = ()
    lines: dict[str, Sequence[float]] = field(default_factory=dict)
    bars: dict[str, float] = field(default_factory=dict)
    # Straight lines to compare with, by name.
    marks: dict[str, float] = field(default_factory=dict)
    is_logarithmic: bool = False
    spot: Spot | None = None
    # The name of a bar, or of a line, that matters most.
    emphasized: str = ""
    # The unit after the number of a bar.
    unit: str = ""


EMPHASIS: Final = "tab:red"
# Fewer are drawn as points; and fewer bars are not made thicker for it.
FEW_POINTS: Final = 4


def check_plot(path: Path) -> None:
    """Checked before a job runs: whether its plot can be written."""
    if path.suffix not in SUFFIXES:
        raise CannotDraw(f"{path}: a plot must be a .png or an .html file. Change the name.")
    if not path.resolve().parent.is_dir():
        raise CannotDraw(f"{path}: the directory does not exist. Create it first.")
    try:
        import matplotlib  # noqa: F401, ICN001
    except ImportError:
        raise CannotDraw("Plots need matplotlib: pip install 'penstock[spark]'.") from None


def draw(path: Path, title: str, charts: list[Chart], table: list[list[str]]) -> None:
    """The first row of the table is its head; it is shown in HTML only."""
    png = _png(title, charts)
    if path.suffix == ".png":
        path.write_bytes(png)
    else:
        path.write_text(_page(title, png, table), encoding="utf-8")


def _png(title: str, charts: list[Chart]) -> bytes:
    written = io.BytesIO()
    figure_of(title, charts).savefig(written, format="png", dpi=110)
    return written.getvalue()


def figure_of(title: str, charts: list[Chart]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.4 * len(charts)), layout="constrained")
    figure.suptitle(title)
    for chart, axes in zip(charts, figure.subplots(len(charts), 1, squeeze=False), strict=True):
        _fill(axes[0], chart)
    return figure


def _fill(axes: Axes, chart: Chart) -> None:
    axes.set_title(chart.title, fontsize=11)
    axes.grid(visible=True, alpha=0.3)
    axes.set_axisbelow(True)
    if chart.bars:
        _fill_bars(axes, chart)
        return
    axes.set_ylabel(chart.ylabel)
    axes.set_xlabel(chart.xlabel)
    for name, values in chart.lines.items():
        # A line through one point is not visible.
        marker = "o" if len(values) < FEW_POINTS else None
        width = 3.0 if name == chart.emphasized else 1.5
        axes.plot(
            cast("list[float]", list(chart.x)),
            list(values),
            label=name,
            marker=marker,
            linewidth=width,
        )
    if chart.x and isinstance(chart.x[0], datetime):
        _show_clock_time(axes, chart)
    if chart.spot is not None:
        _mark_spot(axes, chart.spot)
    for style, (name, value) in zip(cycle(("--", ":")), chart.marks.items(), strict=False):
        label = f"{name}: {value:,.0f}"
        axes.axhline(value, linestyle=style, linewidth=1, color="grey", label=label)
    if chart.is_logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        if chart.lines:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:,.0f}")
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter("{x:,.0f}")
    if chart.lines or chart.marks:
        axes.legend(fontsize=8)


def _show_clock_time(axes: Axes, chart: Chart) -> None:
    """As 14:05:00 with the day beside the axis's name; of several days with the day each."""
    from matplotlib.dates import AutoDateLocator, DateFormatter

    first, last = chart.x[0], chart.x[-1]
    assert isinstance(first, datetime)
    assert isinstance(last, datetime)
    is_one_day = first.date() == last.date()
    axes.xaxis.set_major_locator(AutoDateLocator())  # type: ignore[no-untyped-call]
    form = "%H:%M:%S" if is_one_day else "%m-%d %H:%M"
    formatter = DateFormatter(form, tz=first.tzinfo)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(formatter)
    day = f"{first:%Y-%m-%d}" if is_one_day else f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"
    axes.set_xlabel(f"{chart.xlabel}, {day}")


def _mark_spot(axes: Axes, spot: Spot) -> None:
    axes.plot([spot.x], [spot.y], marker="*", markersize=16, color=EMPHASIS, linestyle="none")
    axes.annotate(
        spot.text,
        (spot.x, spot.y),
        xytext=(10, -14),
        textcoords="offset points",
        fontsize=9,
        color=EMPHASIS,
        verticalalignment="top",
        bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": EMPHASIS, "alpha": 0.9},
    )


def _fill_bars(axes: Axes, chart: Chart) -> None:
    """Horizontal bars, so that names can be read, the first one on top, with their numbers."""
    colours = [EMPHASIS if name == chart.emphasized else "tab:blue" for name in chart.bars]
    bars = axes.barh(list(chart.bars), list(chart.bars.values()), height=0.6, color=colours)
    axes.bar_label(bars, fmt=f"{{:,.0f}}{chart.unit}", padding=3, fontsize=8)
    for name, value in chart.marks.items():
        axes.axvline(value, linestyle="--", linewidth=1, color="grey", label=name)
    if chart.marks:
        axes.legend(fontsize=8)
    axes.set_ylim(max(len(chart.bars), FEW_POINTS) - 0.5, -0.5)
    axes.set_xlabel(chart.ylabel)
    axes.margins(x=0.12)
    if chart.is_logarithmic:
        axes.set_xscale("log")
        return
    axes.xaxis.set_major_formatter("{x:,.0f}")
    if not any(chart.bars.values()):
        # Otherwise the axis would go from below zero to above it, with ticks that are all labelled
        # 0.
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 1])


def _page(title: str, png: bytes, table: list[list[str]]) -> str:
    def row(cells: list[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    rows = [row(cells, "td" if index else "th") for index, cells in enumerate(table)]
    image = base64.b64encode(png).decode()
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1>"
        f'<img alt="{html.escape(title)}" src="data:image/png;base64,{image}">'
        f"<table>{''.join(rows)}</table></html>\n"
    )


def text_cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
