"""Plots as PNG or as an HTML file that needs nothing else.

Both are drawn by matplotlib: a page is its text as a table and the drawing within it.
"""

from __future__ import annotations

import base64
import html
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.spark.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

SUFFIXES: Final = (".png", ".html")
_STYLE: Final = (
    "body{font:15px system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:right;"
    "border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}"
    "img{max-width:100%}"
)


class CannotDraw(PipelineError):
    """A plot was asked for that cannot be made. Says why and what to do."""


@dataclass(slots=True)
class Chart:
    """One set of axes: lines over x, or bars with names."""

    title: str
    ylabel: str
    xlabel: str = ""
    x: Sequence[float] = ()
    lines: dict[str, Sequence[float]] = field(default_factory=dict)
    bars: dict[str, float] = field(default_factory=dict)
    # Horizontal lines to compare with, by name.
    marks: dict[str, float] = field(default_factory=dict)
    is_logarithmic: bool = False


# Fewer are drawn as points; and fewer bars are not made thicker for it.
FEW_POINTS: Final = 4


def check_plot(path: Path) -> None:
    """Before a job runs: whether its plot can be written."""
    if path.suffix not in SUFFIXES:
        raise CannotDraw(f"{path}: a plot is written as .png or .html. Choose such a name.")
    if not path.resolve().parent.is_dir():
        raise CannotDraw(f"{path}: there is no such directory. Make it first.")
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
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.4 * len(charts)), layout="constrained")
    figure.suptitle(title)
    for chart, axes in zip(charts, figure.subplots(len(charts), 1, squeeze=False), strict=True):
        _fill(axes[0], chart)
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=110)
    return written.getvalue()


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
        # A line through one point is not seen.
        marker = "o" if len(values) < FEW_POINTS else None
        axes.plot(list(chart.x), list(values), label=name, marker=marker)
    for name, value in chart.marks.items():
        axes.axhline(
            value, linestyle="--", linewidth=1, color="grey", label=f"{name}: {value:,.0f}"
        )
    if chart.is_logarithmic:
        axes.set_yscale("log")
        if chart.lines:
            axes.set_xscale("log")
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter("{x:,.0f}")
    if chart.lines or chart.marks:
        axes.legend(fontsize=8)


def _fill_bars(axes: Axes, chart: Chart) -> None:
    """Lying down, so that names can be read, the first one on top, with their numbers."""
    bars = axes.barh(list(chart.bars), list(chart.bars.values()), height=0.6)
    axes.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=8)
    axes.set_ylim(max(len(chart.bars), FEW_POINTS) - 0.5, -0.5)
    axes.set_xlabel(chart.ylabel)
    axes.margins(x=0.12)
    if chart.is_logarithmic:
        axes.set_xscale("log")
    else:
        axes.xaxis.set_major_formatter("{x:,.0f}")


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
