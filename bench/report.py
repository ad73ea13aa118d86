"""Turns results into tables for a person and a JSON file for everything else."""

import json
import math
import statistics
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.cases import DURABLE_MODES
from bench.cluster_report import failover_table, replicated_table
from bench.codec import codec_table
from bench.footprint import Startup
from bench.results import FLAT_RATIO_MAX, REFERENCE, Results
from bench.spark_report import spark_plots, spark_table
from bench.storage_report import backlog_table, endurance_table
from bench.stream import APPEND_MODE
from bench.verdicts import goal_text, verdict_text

RESULTS_FOLDER = Path(__file__).resolve().parent / "results"

IDLE_BYTES_MAX = 20_000
# Modes for which the broker's writes to the disk are shown.
WRITING_MODES = (*DURABLE_MODES, APPEND_MODE)

STARTUP_SECONDS_MAX = {
    "penstock": 0.5,
    "penstock-data": 0.5,
    "penstock-pure": 0.5,
    "Broker()": 0.05,
}


def throughput_table(results: Results) -> Table:
    table = Table(title="Throughput and cost (medians; fanout and mixed count deliveries)")
    table.add_column("mode/bytes/pairs")
    table.add_column("broker")
    for heading in ("msg/s", "CPU us/msg", "loader us", "disk B", "rate", "CPU"):
        table.add_column(heading, justify="right")
    table.add_column("goals")
    previous = None
    for measured in results.throughput:
        if previous not in (None, measured.case):
            table.add_section()
        previous = measured.case
        if not measured.samples:
            table.add_row(measured.case.name, measured.broker, "[red]failed[/]")
            continue
        ratios = results.ratios(measured)
        table.add_row(
            measured.case.name,
            measured.broker,
            f"{measured.rate:,.0f}",
            f"{measured.broker_microseconds:.2f}",
            f"{measured.loader_microseconds:.2f}",
            f"{measured.disk_bytes_each:,.0f}" if measured.case.mode in WRITING_MODES else "",
            f"{ratios.rate:.2f}x" if ratios.rate else "",
            f"1/{1 / ratios.cpu:.1f}" if ratios.cpu else "",
            verdict_text(results.verdicts(measured)),
        )
    return table


def latency_table(results: Results) -> Table:
    table = Table(title="Latency from due time to receipt, with confirms and acks, in microseconds")
    table.add_column("broker")
    table.add_column("load")
    table.add_column("msg/s", justify="right")
    names = list(results.latency[0].sample.percentiles)
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("publisher lateness: p50, p99", justify="right")
    for latency in results.latency:
        sample = latency.sample
        figures = [f"{sample.percentiles[name]:,.0f}" for name in names]
        rate = f"{sample.rate_reached:,.0f}"
        if not sample.held:
            rate += f"\n[red]of {sample.rate_asked:,.0f}: overloaded[/]"
        late = f"{sample.lateness['p50']:,.0f}, {sample.lateness['p99']:,.0f}"
        table.add_row(latency.broker, latency.load, rate, *figures, late)
    return table


def flatness_table(results: Results) -> Table:
    table = Table(title="Broker CPU us/msg as counts grow (transient, 100 bytes)")
    for heading in ("axis", "broker", "count: us/msg", "last / first", "goal"):
        table.add_column(heading)
    for flatness in results.flatness:
        costs = ", ".join(
            f"{count:,}: {sample.broker_microseconds:.2f}"
            for count, sample in sorted(flatness.samples.items())
        )
        goal = ""
        if flatness.broker != REFERENCE:
            goal = goal_text(f"<= {FLAT_RATIO_MAX:g}x", met=flatness.growth <= FLAT_RATIO_MAX)
        growth = "incomplete" if math.isnan(flatness.growth) else f"{flatness.growth:.2f}x"
        table.add_row(flatness.axis, flatness.broker, costs, growth, goal)
    return table


def footprint_table(results: Results) -> Table:
    table = Table(title="Footprint")
    for heading in ("what", "broker", "figure", "goal"):
        table.add_column(heading)
    for broker, idle in results.idle.items():
        figure = f"{idle.bytes_each / 1000:.1f} kB each of {idle.connections:,}"
        goal = ""
        if broker != REFERENCE:
            goal = goal_text("< 20 kB", met=idle.bytes_each < IDLE_BYTES_MAX)
        table.add_row("idle connections", broker, figure, goal)
    for broker, starts in results.startup.items():
        limit = STARTUP_SECONDS_MAX.get(broker)
        login = statistics.median(start.login for start in starts)
        goal = goal_text(f"< {limit:g} s", met=login < limit) if limit else ""
        table.add_row("start-up", broker, startup_text(starts, login), goal)
    return table


def startup_text(starts: list[Startup], login: float) -> str:
    ready = [start.ready for start in starts if start.ready is not None]
    said = f"ready {statistics.median(ready) * 1000:,.0f} ms, " if ready else ""
    return f"{said}first login {login * 1000:,.0f} ms"


def show(results: Results, console: Console) -> None:
    facts = ", ".join(f"{name} {value}" for name, value in results.machine.items())
    console.print(f"machine: {facts}")
    for broker, version in results.versions.items():
        console.print(f"{broker}: {version}")
    for broker, reason in results.skipped.items():
        console.print(f"[yellow]skipped {broker}: {escape(reason)}[/]")
    if results.throughput:
        console.print(throughput_table(results))
    if results.latency:
        console.print(latency_table(results))
    if results.flatness:
        console.print(flatness_table(results))
    if results.idle or results.startup:
        console.print(footprint_table(results))
    if results.backlog:
        console.print(backlog_table(results.backlog))
    if results.recovery or results.reclaim:
        console.print(endurance_table(results.recovery, results.reclaim))
    if results.replicated is not None:
        console.print(replicated_table(results.replicated))
    if results.failover:
        console.print(failover_table(results.failover))
    if results.spark:
        console.print(spark_table(results.spark))
    if results.codec:
        console.print(codec_table(results.codec))
    for failure in results.failures:
        console.print(f"[red]failed:[/] {escape(failure)}")


def save(results: Results, path: Path | None) -> Path:
    if path is None:
        RESULTS_FOLDER.mkdir(exist_ok=True)
        path = RESULTS_FOLDER / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    path.write_text(json.dumps(results.as_json(), indent=1) + "\n")
    if results.spark:
        spark_plots(results.spark, path)
    return path
