"""Tables of what is measured about long queues and about the disk."""

from rich.table import Table

from bench.backlog import BacklogSample
from bench.endurance import ReclaimSample, RecoverySample
from bench.goals import (
    BACKLOG_MESSAGES,
    BACKLOG_RESIDENT_BYTES_MAX,
    DRAIN_RATIO_MIN,
    Verdict,
    at_least,
    at_most,
)
from bench.verdicts import verdict_text

MEGABYTE = 1_000_000


def backlog_verdicts(sample: BacklogSample) -> list[Verdict]:
    """The build that runs uncompiled, and other brokers, have no goals."""
    if sample.broker not in ("penstock", "penstock-data"):
        return []
    # A shorter queue than the goal requires says nothing about memory.
    peak = sample.resident_peak if sample.messages >= BACKLOG_MESSAGES else None
    return [
        at_least(
            f">= {DRAIN_RATIO_MIN:.0%} of passing",
            sample.drain_rate / sample.passing_rate,
            DRAIN_RATIO_MIN,
        ),
        at_most("peak < 500 MB", peak, BACKLOG_RESIDENT_BYTES_MAX),
    ]


def backlog_table(samples: list[BacklogSample]) -> Table:
    table = Table(title="A long queue (100 bytes, confirms and acks)")
    table.add_column("broker", no_wrap=True)
    table.add_column("messages", no_wrap=True)
    for heading in (
        "passing/s",
        "fill/s",
        "short drain/s",
        "drain/s",
        "CPU us",
        "memory MB",
        "disk",
    ):
        table.add_column(heading, justify="right")
    table.add_column("goals")
    for sample in samples:
        fill_cost, drain_cost = (
            seconds * 1e6 / sample.messages
            for seconds in (sample.fill_cpu_seconds, sample.drain_cpu_seconds)
        )
        table.add_row(
            sample.broker,
            f"{sample.messages:,}\n{'durable' if sample.durable else 'transient'}",
            f"{sample.passing_rate:,.0f}",
            f"{sample.fill_rate:,.0f}",
            f"{sample.short_drain_rate:,.0f}",
            f"{sample.drain_rate:,.0f}",
            f"fill {fill_cost:.2f}\ndrain {drain_cost:.2f}",
            f"{megabytes(sample.resident_before)} before\n{megabytes(sample.resident_peak)} peak",
            f"{megabytes(sample.data_bytes_full)} full\n"
            f"{megabytes(sample.data_bytes_drained)} after",
            verdict_text(backlog_verdicts(sample)),
        )
    return table


def endurance_table(recovery: list[RecoverySample], reclaim: list[ReclaimSample]) -> Table:
    table = Table(title="Recovery after SIGKILL; disk usage after churn through a short queue")
    for heading in ("what", "broker", "messages", "figures"):
        table.add_column(heading)
    for found in recovery:
        said = f"ready {found.ready_seconds:.2f} s, " if found.ready_seconds is not None else ""
        table.add_row(
            "recovery",
            found.broker,
            f"{found.messages:,}",
            f"{said}login {found.login_seconds:.2f} s, all there {found.full_seconds:.2f} s;"
            f" {megabytes(found.data_bytes)} MB",
        )
    for churn in reclaim:
        through = churn.messages * churn.body_bytes
        table.add_row(
            "reclaim",
            churn.broker,
            f"{churn.messages:,}",
            f"{churn.rate:,.0f} msg/s, {megabytes(through)} MB of bodies went through;"
            f" on disk {megabytes(churn.bytes_max)} MB at most, {megabytes(churn.bytes_last)} MB"
            " in the end",
        )
    return table


def megabytes(size: int) -> str:
    return f"{size / MEGABYTE:,.0f}"
