"""The tables of clusters: what replication costs, and how long a failover takes."""

import statistics

from rich.table import Table

from bench.failover import Failover
from bench.replicated_results import ReplicatedResults
from bench.verdicts import verdict_text


def replicated_table(results: ReplicatedResults) -> Table:
    disk = results.disk
    table = Table(
        title="Three servers and one, medians; CPU is the sum of all servers"
        f" (disk: {disk.bytes_per_second / 1e6:,.0f} MB/s in"
        f" {disk.flushes_per_second:,.0f} flushes/s of three files)"
    )
    table.add_column("mode/bytes/pairs", no_wrap=True)
    table.add_column("servers", no_wrap=True)
    for heading in ("msg/s", "CPU us", "by server", "disk B", "disk limit", "again"):
        table.add_column(heading, justify="right")
    table.add_column("goals", no_wrap=True)
    previous = ""
    for measured in results.measured:
        if previous not in ("", measured.name):
            table.add_section()
        previous = measured.name
        if not measured.samples:
            table.add_row(measured.name, measured.broker, "[red]failed[/]")
            continue
        costs = (f"{role} {measured.microseconds_of(role):.2f}" for role in measured.roles)
        table.add_row(
            measured.name,
            measured.broker,
            f"{measured.rate:,.0f}",
            f"{measured.broker_microseconds:.2f}",
            "\n".join(costs),
            f"{measured.disk_bytes_each:,.0f}",
            f"{disk.messages_per_second(measured.disk_bytes_each):,.0f}",
            str(measured.repeated),
            verdict_text(results.verdicts(measured)),
        )
    return table


def failover_table(failovers: list[Failover]) -> Table:
    table = Table(title="From the SIGKILL of the root to the first confirm, in seconds")
    for heading in ("queued", "kills", "p50", "max", "all in sync again: p50", "lost", "goals"):
        table.add_column(heading, justify="left" if heading == "goals" else "right")
    for failover in failovers:
        joined = failover.joining_seconds
        table.add_row(
            f"{failover.queued:,}",
            str(len(failover.seconds)),
            f"{failover.p50:.2f}",
            f"{failover.longest:.2f}",
            f"{statistics.median(joined):.2f}" if joined else "",
            f"{failover.lost:,}",
            verdict_text(failover.verdicts()),
        )
    return table
