"""`penstock demo`: a demonstration of a cluster, with an account of every message.

Three parts: replicated messages at full speed; queues and a stream while the root is killed and a
backup takes its place; the stream archived and the ledgers of all servers audited by Spark.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from penstock.cli.demo_steps.broker import BrokerDidNotStart
from penstock.cli.demo_steps.cluster import DemoCluster, NoRoot
from penstock.cli.demo_steps.crash import QUEUES, STREAM, Crash, CrashFailed, CrashOutcome, Moment
from penstock.cli.demo_steps.spark_steps import (
    SparkFailed,
    archive_stream,
    audit_ledgers,
    missing_packages,
    spark,
    why_no_java,
)
from penstock.cli.demo_steps.verdict import DemoResult, verdict_table
from penstock.cli.load import BROKEN_PROMISE, COULD_NOT_RUN, explained, run_shown
from penstock.cli.loading.crew import RunFailed
from penstock.cli.loading.display import outcome_table
from penstock.cli.loading.outcome import Outcome
from penstock.cli.loading.plan import Mode, make_plan
from penstock.cli.termination import exit_when_terminated
from penstock.client.errors import ClientError

# Messages of the first part, and of the second, whose messages go to three sinks and to disk.
MESSAGES: Final = 200_000
MESSAGES_OVER_KILL: Final = 60_000
QUICK_PART: Final = 10

HOW_TO_INSTALL: Final = "pip install 'penstock[spark]'"


def command(
    messages: Annotated[
        int, typer.Option(help="Number of messages to publish in the first part.", min=100)
    ] = MESSAGES,
    size: Annotated[int, typer.Option(help="Size of each message body in bytes.", min=23)] = 100,
    quick: Annotated[
        bool, typer.Option("--quick", help="Publish a tenth of the messages, as a short check.")
    ] = False,
    without_spark: Annotated[
        bool,
        typer.Option("--without-spark", help="Skip the archive and the audit, which need Spark."),
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            file_okay=False,
            help="Keep the servers' data, the ledgers and the archive in this directory, which "
            "must be empty. Default: a temporary directory, removed at the end.",
        ),
    ] = None,
) -> None:
    """Start a cluster of three servers, kill its root under load, and account for every message.

    The first part publishes as fast as the machine can, with publisher confirms and consumer
    acknowledgements; every message is on the disks of all three servers before it is confirmed. The
    second part publishes to durable queues and a stream, and the root is killed with SIGKILL
    meanwhile: a backup takes its place, and the clients find it. In the third part Spark copies the
    stream to Parquet and audits the ledgers of all servers and of the clients.

    Exit code 1: a confirmed message was lost, or was delivered twice without the redelivered flag.
    3: the demo could not be run. The servers listen on the loopback interface only.
    """
    console = Console()
    reason = why_without_spark(without_spark, missing_packages())
    if reason and not without_spark:
        console.print(
            f"Skipping the archive and the audit, because Spark is not available: {reason}"
        )
    parts = QUICK_PART if quick else 1
    began = time.monotonic()
    try:
        with (
            exit_when_terminated(),
            folder_of(keep) as folder,
            DemoCluster(folder / "servers") as cluster,
        ):
            demonstration = Demonstration(console, cluster, folder, size)
            result = demonstration.run(messages // parts, MESSAGES_OVER_KILL // parts, reason)
    except (BrokerDidNotStart, ClientError, CrashFailed, NoRoot, RunFailed, SparkFailed) as error:
        console.print(explained(error), style="red", highlight=False)
        raise typer.Exit(COULD_NOT_RUN) from error
    if keep is not None:
        console.print(f"The data, the ledgers and the archive are in {keep}.", highlight=False)
    raise typer.Exit(conclude(result, console, time.monotonic() - began))


def conclude(result: DemoResult, console: Console, seconds: float) -> int:
    """Print the result; returns the exit code."""
    console.print(verdict_table(result))
    complaints = result.complaints()
    for complaint in complaints:
        console.print(complaint, style="red")
    if complaints:
        return BROKEN_PROMISE
    console.print(
        "Every confirmed message was delivered, and none twice without the redelivered flag "
        f"({seconds:.0f} s).",
        style="green",
        highlight=False,
    )
    return 0


def why_without_spark(asked: bool, missing: list[str]) -> str:
    """Why the third part is skipped; empty when it is not."""
    if asked:
        return "skipped (--without-spark)"
    if missing:
        return f"{', '.join(missing)} not installed; install with: {HOW_TO_INSTALL}"
    return why_no_java()


@contextmanager
def folder_of(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        # Files that Spark leaves open must not fail the demo.
        with TemporaryDirectory(prefix="penstock-demo-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    keep.mkdir(parents=True, exist_ok=True)
    if any(keep.iterdir()):
        raise typer.BadParameter(
            f"{keep} is not empty; name an empty or a new directory", param_hint="--keep"
        )
    yield keep


class Demonstration:
    """Runs the three parts in their order. Held by the command."""

    def __init__(self, console: Console, cluster: DemoCluster, folder: Path, size: int) -> None:
        self._console: Console = console
        self._cluster: DemoCluster = cluster
        self._clients: Path = folder / "clients"
        self._archive: Path = folder / "archive"
        self._spark_log: Path = folder / "spark.log"
        self._size: int = size

    def run(self, messages: int, messages_over_kill: int, reason: str) -> DemoResult:
        root = self._cluster.start()
        for name, server in self._cluster.servers.items():
            role = "the root" if name == root else "a backup"
            self._console.print(f"Server {name} ({role}): {server.address}, process {server.pid}")
        self._console.print(
            f"Part 1: {messages:,} persistent messages with confirms and acknowledgements."
        )
        first, spent = self._first_act(messages)
        self._console.print(
            f"Part 2: {messages_over_kill:,} messages to {' and '.join(QUEUES)} and the "
            f"stream {STREAM}; the root is killed half-way."
        )
        result = DemoResult(
            first, spent, self._second_act(messages_over_kill), without_spark=reason
        )
        if reason:
            self._console.print("Part 3 is skipped; the counts are those of the clients.")
        else:
            self._console.print("Part 3: Spark archives the stream and audits all ledgers.")
            self._third_act(result)
        return result

    def _first_act(self, messages: int) -> tuple[Outcome, float | None]:
        plan = make_plan(
            uri=self._cluster.amqp_uri,
            run=_run(),
            mode=Mode.DURABLE,
            size=self._size,
            messages=messages,
            ledger=str(self._clients),
        )
        before = self._cluster.cpu_seconds()
        outcome = run_shown(plan, self._console, live=True)
        after = self._cluster.cpu_seconds()
        spent = None if before is None or after is None else (after - before) * 1e6 / messages
        table = outcome_table(plan, outcome, "part 1")
        table.add_row(
            "CPU of all servers per message", "n/a" if spent is None else f"{spent:.2f} µs"
        )
        self._console.print(table)
        return outcome, spent

    def _second_act(self, messages: int) -> CrashOutcome:
        crash = Crash(self._cluster, self._clients, _run(), messages, self._size)
        with Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[counts]}"),
            console=self._console,
            transient=True,
        ) as progress:
            task = progress.add_task("starting", total=messages, counts="")

            def show(moment: Moment) -> None:
                counts = f"confirmed {moment.confirmed:,}  received {moment.received:,}"
                progress.update(
                    task, description=moment.phase, completed=moment.confirmed, counts=counts
                )

            outcome = crash.play(show)
        self._console.print(
            f"Root {outcome.roots[0]} was killed after {outcome.confirmed_at_kill:,} confirms; "
            f"{outcome.roots[1]} was the root {outcome.failover_seconds:.2f} s later, first confirm "
            f"after {outcome.recovery_seconds:.2f} s; "
            f"{outcome.sent_again:,} unconfirmed messages were published again.",
            highlight=False,
        )
        return outcome

    def _third_act(self, result: DemoResult) -> None:
        with (
            self._console.status("starting Spark") as status,
            spark(self._spark_log, status.update) as session,
        ):
            result.archived = archive_stream(
                session, self._cluster.http_uris, STREAM, self._archive, status.update
            )
            self._cluster.stop()
            ledgers = [*self._cluster.data, self._clients]
            result.audit, result.audit_seconds = audit_ledgers(session, ledgers, status.update)


def _run() -> int:
    """Distinguishes this run's messages from those of other runs."""
    return int.from_bytes(os.urandom(4), "big")
