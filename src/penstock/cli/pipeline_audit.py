"""`penstock pipeline audit`: what became of every message."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from penstock.cli.pipeline_session import (
    FINE,
    FOUND,
    REFUSED,
    JsonOption,
    MasterOption,
    MemoryOption,
    PlotOption,
    print_json,
    progress,
    refusals,
    spark,
)

if TYPE_CHECKING:
    from penstock.spark.jobs.charts import Chart
    from penstock.spark.jobs.verdict import Audit, QueueVerdict

# What --fail-on understands; `FAILURES` in the job's verdict, repeated here so that --help needs
# no Spark. A test compares them.
FAILURES: Final = ("lost", "duplicated", "unflagged", "phantom", "unconfirmed", "missing")

# Columns of a terminal in which all figures of a queue fit into a line.
WIDE_ENOUGH: Final = 150
QUEUES_ABREAST: Final = 3

Ledgers = Annotated[
    list[Path],
    typer.Argument(
        metavar="DIR...",
        help="Data directories of servers started with --ledger, and directories that "
        "`penstock load --ledger` wrote to.",
    ),
]


def command(
    ledgers: Ledgers,
    fail_on: Annotated[
        str,
        typer.Option(
            "--fail-on",
            help="Exit with code 1 if there are such messages; comma-separated list of: "
            f"{', '.join(FAILURES)}; or none.",
        ),
    ] = "lost",
    examples: Annotated[
        int, typer.Option("--examples", min=0, help="Maximum of examples per queue and finding.")
    ] = 20,
    plot: PlotOption = None,
    master: MasterOption = "local[*]",
    memory: MemoryOption = "1g",
    as_json: JsonOption = False,
) -> None:
    """Account for the messages of each queue: delivered, dropped, still queued, lost.

    Reads the ledgers of brokers and, when given, of clients. With both, a message counts as lost
    when a publisher holds a confirm for it, no consumer received it, and the broker neither has it
    nor dropped it for a reason. With the broker's alone, a persistent message counts as lost when
    it was in a durable queue before a restart and not after it.

    Exit code 0: no message that --fail-on names. 1: at least one. 2: the ledgers cannot be read.
    """
    wanted = failures_wanted(fail_on)
    with refusals():
        from penstock.spark.jobs.audit import audit
        from penstock.spark.jobs.charts import check_plot
        from penstock.spark.jobs.ledger_catalog import find_places
        from penstock.spark.jobs.ledger_reading import open_ledgers

        if plot is not None:
            check_plot(plot)
        find_places(ledgers)
        with progress(as_json) as tell, spark(master, memory, "audit", tell) as session:
            began = time.monotonic()
            tell("listing the files")
            found = audit(open_ledgers(session, ledgers), examples, tell)
            seconds = time.monotonic() - began
        failures = found.failures(wanted)
        if plot is not None:
            draw_audit(plot, found)
    if as_json:
        print_json(described(found, failures, seconds))
    else:
        show(found, failures, seconds)
    raise typer.Exit(FOUND if failures else FINE)


def failures_wanted(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == ["none"]:
        return []
    unknown = [name for name in names if name not in FAILURES]
    if unknown:
        typer.echo(
            f"--fail-on: '{unknown[0]}' is not valid. Valid are: {', '.join(FAILURES)}, none.",
            err=True,
        )
        raise typer.Exit(REFUSED)
    return names


def described(found: "Audit", failures: dict[str, int], seconds: float) -> dict[str, object]:
    totals = ("enqueued", "confirmed", "received", "lost", "duplicated_flagged")
    rest = ("duplicated_unflagged", "phantom", "unconfirmed", "still_queued")
    return {
        "totals": {name: found.total(name) for name in totals + rest},
        "failures": failures,
        "queues": [asdict(verdict) for verdict in found.verdicts],
        "offences": [asdict(offence) for offence in found.offences],
        "restarts": found.restarts,
        "torn_files": found.torn_files,
        "truncated": found.truncated,
        "roots": found.roots,
        "cannot_be_known": found.doubts,
        "events": found.events,
        "records": found.records,
        "blocks": found.blocks,
        "dirty_blocks": found.dirty_blocks,
        "seconds": round(seconds, 3),
        "events_per_second": round(found.events / seconds),
    }


_COLUMNS: Final = (
    ("queue", ""),
    ("enqueued", "accepted into the queue by the broker"),
    ("confirmed", "confirmed to the publisher"),
    ("delivered", "delivered to consumers"),
    ("still queued", "ready or unacknowledged"),
    ("dropped", "with the broker's reason"),
    ("lost", ""),
    ("dup. flagged", "delivered again with the redelivered flag"),
    ("dup. unflagged", "delivered again without the redelivered flag"),
    ("phantom", "delivered, but never published"),
    ("unconfirmed", "published, but never confirmed"),
    ("in queue p50/p99 ms", ""),
)


def cells(verdict: "QueueVerdict", with_server: bool) -> list[str]:
    name = f"{verdict.server}: {verdict.queue}" if with_server else verdict.queue
    taken = verdict.time_in_queue_ms
    there = verdict.still_queued + verdict.unacknowledged
    delivered = verdict.received if verdict.has_clients else verdict.delivered
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in verdict.dropped.items())
    if verdict.gone_with_process:
        dropped = f"{dropped}, {verdict.gone_with_process:,} not durable".strip(", ")
    if verdict.leased:
        dropped = f"{dropped}, {verdict.leased:,} moved to leases".strip(", ")
    if verdict.uncommitted_gone:
        dropped = f"{dropped}, {verdict.uncommitted_gone:,} not committed".strip(", ")
    if verdict.unknown:
        dropped = f"{dropped}, {verdict.unknown:,} not known".strip(", ")
    return [
        f"{name} (stream)" if verdict.is_stream else name,
        f"{verdict.enqueued:,}" if verdict.has_broker else "",
        f"{verdict.confirmed:,}" if verdict.has_clients else "",
        f"{delivered:,}",
        "" if verdict.is_stream else f"{there:,}",
        dropped,
        f"{verdict.lost:,}",
        f"{verdict.duplicated_flagged:,}",
        f"{verdict.duplicated_unflagged:,}",
        f"{verdict.phantom:,}",
        f"{verdict.unconfirmed:,}" if verdict.has_clients else "",
        f"{taken['p50']:,} / {taken['p99']:,}" if taken else "",
    ]


def tables(rows: list[tuple[list[str], int]], width: int) -> list[Table]:
    """A row for each queue; in a narrow terminal, a column."""
    heads = [name for name, _ in _COLUMNS]
    if width >= WIDE_ENOUGH:
        table = Table(title="penstock audit")
        for index, name in enumerate(heads):
            table.add_column(name, justify="right" if index else "left")
        for row, lost in rows:
            table.add_row(*row, style="red" if lost else None)
        return [table]
    found = []
    for at in range(0, len(rows), QUEUES_ABREAST):
        some = rows[at : at + QUEUES_ABREAST]
        table = Table(title="penstock audit")
        table.add_column(heads[0])
        for row, lost in some:
            table.add_column(row[0], justify="right", style="red" if lost else None)
        for index, name in enumerate(heads[1:], 1):
            table.add_row(name, *(row[index] for row, _ in some))
        found.append(table)
    return found


def show(found: "Audit", failures: dict[str, int], seconds: float) -> None:
    console = Console()
    servers = {verdict.server for verdict in found.verdicts if verdict.server}
    rows = [(cells(verdict, len(servers) > 1), verdict.lost) for verdict in found.verdicts]
    for table in tables(rows, console.width):
        console.print(table)
    for offence in found.offences:
        console.print(f"  {offence.finding.replace('_', ' ')}: {offence}", highlight=False)
    for server, count in found.restarts.items():
        if count:
            console.print(f"{server} was restarted {count} times.")
    for label, roots in found.roots.items():
        told = ", ".join(f"{server} (epoch {epoch})" for epoch, server in roots)
        console.print(f"{label}: the root was {told}.", highlight=False)
    for server in found.truncated:
        console.print(
            f"{server}: the oldest ledger files were deleted, so earlier messages are not audited."
        )
    for path in found.torn_files:
        console.print(f"{path} ends in the middle of a record; all complete records were read.")
    for doubt in found.doubts:
        console.print(doubt, style="yellow", highlight=False)
    console.print(
        f"{found.events:,} events in {found.records:,} records, {found.dirty_blocks:,} of "
        f"{found.blocks:,} blocks examined, {seconds:.1f} s, {found.events / seconds:,.0f} "
        "events/s"
    )
    if failures:
        told = ", ".join(f"{count:,} {name}" for name, count in failures.items())
        console.print(f"Found: {told}.", style="bold red")
    elif found.doubts:
        console.print("No message was lost, as far as these ledgers tell.", style="bold yellow")
    else:
        console.print("No message was lost.", style="bold green")


# What the bars of the plot are called.
_HAPPENED: Final = {
    "enqueued": "enqueued",
    "confirmed": "confirmed to publishers",
    "delivered": "delivered",
    "acknowledged": "acknowledged",
    "received": "received by consumers",
    "still_queued": "still in a queue",
    "leased": "moved to leases",
    "gone_with_process": "not durable, dropped at a restart",
    "uncommitted_gone": "not committed when a root failed",
}
_WRONG: Final = {
    "lost": "lost",
    "duplicated_flagged": "delivered again, flagged as redelivered",
    "duplicated_unflagged": "delivered again, not flagged",
    "phantom": "delivered, but never published (phantom)",
    "unconfirmed": "published, but never confirmed",
}


def audit_charts(found: "Audit") -> list["Chart"]:
    from penstock.spark.jobs.charts import Chart

    def bars(names: dict[str, str]) -> dict[str, float]:
        return {shown: float(found.total(name)) for name, shown in names.items()}

    dropped: dict[str, float] = {}
    for verdict in found.verdicts:
        for reason, count in verdict.dropped.items():
            name = f"dropped: {reason.replace('_', ' ')}"
            dropped[name] = dropped.get(name, 0.0) + count
    return [
        Chart("What happened to messages", "messages", bars=bars(_HAPPENED) | dropped),
        Chart("Lost, duplicated and unconfirmed", "messages", bars=bars(_WRONG), emphasized="lost"),
    ]


def draw_audit(path: Path, found: "Audit") -> None:
    from penstock.spark.jobs.charts import draw

    servers = {verdict.server for verdict in found.verdicts if verdict.server}
    rows = [cells(verdict, len(servers) > 1) for verdict in found.verdicts]
    head = [name for name, _ in _COLUMNS]
    draw(path, "penstock audit", audit_charts(found), [head, *rows])
