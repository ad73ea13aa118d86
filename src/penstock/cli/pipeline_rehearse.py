"""`penstock pipeline rehearse`: a stream filled, archived and audited, end to end, with a verdict.

A broker of its own with a ledger, publishers with confirms and a ledger of theirs, the archive to
Parquet and the audit over both ledgers: what a deployment does, at its expected size.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from penstock.cli.demo_steps.broker import BrokerDidNotStart, DemoBroker
from penstock.cli.load import run_plan
from penstock.cli.loading.crew import RunFailed, Snapshot
from penstock.cli.loading.plan import Mode, Plan, make_plan
from penstock.cli.pipeline_session import (
    FINE,
    FOUND,
    REFUSED,
    JsonOption,
    MasterOption,
    MemoryOption,
    Tell,
    errors,
    print_json,
    progress,
    refusals,
    spark,
)
from penstock.cli.termination import exit_when_terminated
from penstock.client import blocking
from penstock.client.calls import declare_queue
from penstock.client.errors import ClientError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM: Final = "rehearsal"
# One process fills a core; a second one keeps the broker busy while the first waits for confirms.
PUBLISHERS: Final = 2
LOOK_SECONDS: Final = 1
# Where a stamp has publisher and sequence in a body, counted from 1 as SQL does.
_MESSAGE: Final = "substring(body, 5, 10)"


@dataclass(slots=True)
class Rehearsal:
    """The result. All numbers of messages must be equal, and the audit must find nothing."""

    messages: int
    confirmed: int = 0
    publish_seconds: float = 0.0
    stream_octets: int = 0
    ledger_octets: int = 0
    archived: int = 0
    archived_distinct: int = 0
    archive_seconds: float = 0.0
    archive_octets: int = 0
    enqueued: int = 0
    events: int = 0
    audit_seconds: float = 0.0
    lost: int = 0
    duplicated: int = 0
    phantom: int = 0
    unconfirmed: int = 0

    @property
    def is_fine(self) -> bool:
        counts = (self.confirmed, self.archived, self.archived_distinct, self.enqueued)
        wrong = (self.lost, self.duplicated, self.phantom, self.unconfirmed)
        return all(count == self.messages for count in counts) and not any(wrong)


def command(
    messages: Annotated[
        int, typer.Option("--messages", min=PUBLISHERS, help="Number of messages to publish.")
    ] = 1_000_000,
    size: Annotated[
        int, typer.Option("--size", min=22, help="Size of each message body in bytes.")
    ] = 100,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder", help="Work in this directory and keep it. Default: a temporary one."
        ),
    ] = None,
    master: MasterOption = "local[*]",
    memory: MemoryOption = "2g",
    as_json: JsonOption = False,
) -> None:
    """Fill a stream, archive it to Parquet, audit both ledgers: end to end on this machine.

    Starts its own broker. Exit code 0: every message was confirmed, is in the archive exactly once
    and in the ledgers of the broker and the clients. 1: otherwise. 2: the rehearsal failed.
    """
    rehearsal = Rehearsal(messages)
    with (
        refusals(),
        exit_when_terminated(),
        working_folder(folder) as work,
        progress(as_json) as tell,
    ):
        told = tell if errors.is_terminal or as_json else Lines().say
        try:
            _fill_and_read(rehearsal, work, size, master, memory, told)
        except (BrokerDidNotStart, RunFailed, ClientError) as error:
            errors.print(str(error), style="red", highlight=False, markup=False)
            raise typer.Exit(REFUSED) from error
    if as_json:
        print_json({**asdict(rehearsal), "is_fine": rehearsal.is_fine})
    else:
        show(rehearsal)
    raise typer.Exit(FINE if rehearsal.is_fine else FOUND)


@contextmanager
def working_folder(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            errors.print(
                f"{folder} is not empty; name an empty or a new directory.",
                style="red",
                markup=False,
            )
            raise typer.Exit(REFUSED)
        yield folder
        return
    work = Path(tempfile.mkdtemp(prefix="penstock-rehearsal-"))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


class Lines:
    """Progress without a terminal: a line when there is something new."""

    def __init__(self) -> None:
        self._last: str = ""

    def say(self, text: str) -> None:
        if text != self._last:
            self._last = text
            errors.print(text, highlight=False, markup=False)


def _fill_and_read(
    rehearsal: Rehearsal, work: Path, size: int, master: str, memory: str, tell: Tell
) -> None:
    with DemoBroker(work / "server") as broker:
        tell("starting a broker")
        broker.start()
        _publish(rehearsal, broker.amqp_uri, work / "clients", size, tell)
        rehearsal.stream_octets = octets_in(work / "server", "*.log")
        with spark(master, memory, "rehearse", tell) as session:
            _archive(rehearsal, session, broker.http_uri, work / "archive", tell)
            rehearsal.ledger_octets = octets_in(work, "*.led")
            _audit(rehearsal, session, [work / "server", work / "clients"], tell)


def _publish(rehearsal: Rehearsal, uri: str, clients: Path, size: int, tell: Tell) -> None:
    with blocking.connect(uri, name="rehearse") as connection:
        stream: dict[str, object] = {"x-queue-type": "stream"}
        connection.channel().call(declare_queue(STREAM, durable=True, arguments=stream))
    plan = make_plan(
        uri=uri,
        run=int.from_bytes(os.urandom(4), "big"),
        mode=Mode.DURABLE,
        size=size,
        publishers=PUBLISHERS,
        consumers=0,
        queue=STREAM,
        messages=rehearsal.messages,
        ledger=str(clients),
    )
    rehearsal.publish_seconds, rehearsal.confirmed = _run(plan, tell)


def _run(plan: Plan, tell: Tell) -> tuple[float, int]:
    next_look = 0.0

    def watch(seen: Snapshot) -> None:
        nonlocal next_look
        if seen.elapsed_seconds >= next_look:
            next_look = seen.elapsed_seconds + LOOK_SECONDS
            tell(f"publishing, {seen.confirmed:,} of {plan.messages:,} confirmed")

    began = time.monotonic()
    outcome = run_plan(plan, watch)
    if outcome.faults:
        raise RunFailed(outcome.faults[0])
    return time.monotonic() - began, outcome.confirmed


def _archive(
    rehearsal: Rehearsal, session: "SparkSession", uri: str, lake: Path, tell: Tell
) -> None:
    from penstock.spark.jobs.archive import archive, read_archive

    began = time.monotonic()
    query = archive(session, str(lake), {"uri": uri, "stream": STREAM})
    counted: dict[int, int] = {}
    while not query.awaitTermination(LOOK_SECONDS):
        for told in query.recentProgress:
            counted[told["batchId"]] = told["numInputRows"]
        tell(f"archiving, {sum(counted.values()):,} messages")
    rehearsal.archive_seconds = time.monotonic() - began
    tell("counting the archive")
    row = (
        read_archive(session, str(lake))
        .selectExpr("count(*) AS rows", f"count(DISTINCT {_MESSAGE}) AS distinct")
        .first()
    )
    assert row is not None
    rehearsal.archived, rehearsal.archived_distinct = row["rows"], row["distinct"]
    rehearsal.archive_octets = octets_in(lake, "*.parquet")


def _audit(rehearsal: Rehearsal, session: "SparkSession", ledgers: list[Path], tell: Tell) -> None:
    from penstock.spark.jobs.audit import audit
    from penstock.spark.jobs.ledger_reading import open_ledgers

    began = time.monotonic()
    tell("auditing")
    found = audit(open_ledgers(session, ledgers), tell=lambda text: tell(f"auditing: {text}"))
    rehearsal.audit_seconds = time.monotonic() - began
    rehearsal.events = found.events
    for name in ("enqueued", "lost", "duplicated", "phantom", "unconfirmed"):
        setattr(rehearsal, name, found.total(name))


def octets_in(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.rglob(pattern))


def show(rehearsal: Rehearsal) -> None:
    console = Console()
    table = Table(title=f"rehearsal, {rehearsal.messages:,} messages")
    for name in ("step", "messages", "seconds", "per second", "MB"):
        table.add_column(name, justify="left" if name == "step" else "right")

    def row(step: str, count: int, seconds: float, octets: int) -> None:
        rate = f"{count / seconds:,.0f}" if seconds else ""
        table.add_row(step, f"{count:,}", f"{seconds:,.1f}", rate, f"{octets / 1e6:,.1f}")

    row("confirmed", rehearsal.confirmed, rehearsal.publish_seconds, rehearsal.stream_octets)
    row("archived", rehearsal.archived, rehearsal.archive_seconds, rehearsal.archive_octets)
    row("events audited", rehearsal.events, rehearsal.audit_seconds, rehearsal.ledger_octets)
    console.print(table)
    names = ("archived_distinct", "enqueued", "lost", "duplicated", "phantom", "unconfirmed")
    told = ", ".join(f"{getattr(rehearsal, n):,} {n.replace('_', ' ')}" for n in names)
    console.print(told, highlight=False)
    if rehearsal.is_fine:
        console.print(
            "Every message is in the archive exactly once; no message was lost.", style="bold green"
        )
    else:
        console.print(
            "The counts differ: messages were lost, duplicated or not archived.", style="bold red"
        )
