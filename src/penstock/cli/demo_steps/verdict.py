"""The result of the demonstration: one table, and what is wrong, if anything is."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.table import Table

from penstock.cli.demo_steps.crash import CrashOutcome
from penstock.cli.demo_steps.spark_steps import Archived
from penstock.cli.loading.outcome import Outcome

if TYPE_CHECKING:
    from penstock.spark.jobs.verdict import Audit

FROM_NOWHERE: Final = ("never_published", "refused_yet_received", "phantom")


@dataclass(slots=True)
class DemoResult:
    """All results. Spark's parts are None when it was skipped."""

    first: Outcome
    # CPU of all servers in the first act.
    server_microseconds: float | None
    crash: CrashOutcome
    archived: Archived | None = None
    audit: "Audit | None" = None
    audit_seconds: float = 0.0
    # Why there is no archive and no audit.
    without_spark: str = ""

    @property
    def lost(self) -> int:
        return self.first.account.lost + self.crash.account.lost

    @property
    def duplicates_flagged(self) -> int:
        return self.first.account.duplicates_flagged + self.crash.account.duplicates_flagged

    @property
    def duplicates_unflagged(self) -> int:
        return self.first.account.duplicates_unflagged + self.crash.account.duplicates_unflagged

    def complaints(self) -> list[str]:
        """The problems as sentences; empty when no message was lost or duplicated."""
        found = []
        if self.lost:
            found.append(f"{self.lost:,} confirmed messages were not received.")
        if self.duplicates_unflagged:
            found.append(
                f"{self.duplicates_unflagged:,} messages were delivered twice without the "
                "redelivered flag."
            )
        if self.crash.confirmed != self.crash.published:
            unconfirmed = self.crash.published - self.crash.confirmed
            found.append(f"{unconfirmed:,} messages were never confirmed.")
        found += [f"A client failed: {fault}" for fault in self.first.faults]
        if self.archived is not None and self.archived.distinct != self.crash.confirmed:
            found.append(
                f"The archive holds {self.archived.distinct:,} distinct messages, but "
                f"{self.crash.confirmed:,} were confirmed to the stream."
            )
        if self.audit is not None:
            for kind, count in self.audit.failures(("lost", "unflagged")).items():
                found.append(f"The audit found {count:,} {kind} messages.")
            found += [
                f"The audit found a message that was never published: {offence}"
                for offence in self.audit.offences
                if offence.finding in FROM_NOWHERE
            ]
        return found


def verdict_table(result: DemoResult) -> Table:
    table = Table(title="verdict", title_justify="left")
    table.add_column("", style="bold")
    table.add_column("counted by clients", justify="right")
    table.add_column("audited by Spark", justify="right")
    crash, audit = result.crash, result.audit
    published = result.first.published + crash.published
    table.add_row("published", f"{published:,}", "")
    table.add_row("confirmed", f"{result.first.confirmed + crash.confirmed:,}", "")
    table.add_row(
        "confirmed, per queue",
        f"{result.first.confirmed + crash.confirmed * crash.sinks:,}",
        "" if audit is None else f"{audit.total('confirmed'):,}",
    )
    table.add_row("lost", alarming(result.lost), _audited(audit, "lost", alarms=True))
    table.add_row(
        "duplicated, flagged",
        f"{result.duplicates_flagged:,}",
        _audited(audit, "duplicated_flagged", alarms=False),
    )
    table.add_row(
        "duplicated, not flagged",
        alarming(result.duplicates_unflagged),
        _audited(audit, "duplicated_unflagged", alarms=True),
    )
    _add_recovery(table, crash)
    _add_rates(table, result)
    _add_spark(table, result)
    return table


def _add_recovery(table: Table, crash: CrashOutcome) -> None:
    table.add_row("confirmed before the kill", f"{crash.confirmed_at_kill:,}", "")
    table.add_row("unconfirmed, published again", f"{crash.sent_again:,}", "")
    table.add_row("failover time", f"{crash.failover_seconds:.2f} s", "")
    table.add_row("time to first confirm", f"{crash.recovery_seconds:.2f} s", "")


def _add_rates(table: Table, result: DemoResult) -> None:
    first, crash = result.first, result.crash
    table.add_row("ISR, part 1", f"{first.internal_switching_rate:,.0f} /s", "")
    table.add_row("XSR, part 1", f"{first.external_switching_rate:,.0f} /s", "")
    switched = crash.confirmed * crash.sinks / crash.seconds
    table.add_row("ISR, part 2", f"{switched:,.0f} /s", "")
    table.add_row("XSR, part 2", f"{crash.received / crash.seconds:,.0f} /s", "")
    table.add_row("CPU per message, part 1", _cpu(result.server_microseconds), "")
    spent = crash.cluster_cpu_seconds
    each = None if spent is None else spent * 1e6 / (crash.confirmed * crash.sinks)
    # A message counts once for each sink, and for all servers; the restart of the killed one is
    # included.
    table.add_row("CPU per message, part 2", _cpu(each), "")


def _add_spark(table: Table, result: DemoResult) -> None:
    if result.archived is not None:
        kept = result.archived
        table.add_row("confirmed to the stream", f"{result.crash.confirmed:,}", "")
        table.add_row("archive, messages", "", f"{kept.distinct:,}")
        again = f"{kept.rows:,} ({kept.sent_again:,} published again)"
        table.add_row("archive, rows", "", again)
        size = f"{kept.octets / 1e6:.1f} MB in {kept.seconds:.1f} s"
        table.add_row("archive, Parquet", "", size)
    if result.audit is not None:
        events = f"{result.audit.events:,} in {result.audit_seconds:.1f} s"
        table.add_row("audit, events", "", events)
        phantom = result.audit.total("phantom")
        if phantom:
            table.add_row("audit, phantom", "", f"{phantom:,}")
    if result.without_spark:
        table.add_row("archive and audit", "", f"[yellow]{result.without_spark}[/yellow]")


def _audited(audit: "Audit | None", name: str, *, alarms: bool) -> str:
    if audit is None:
        return "[yellow]not run[/yellow]"
    count = audit.total(name)
    return alarming(count) if alarms else f"{count:,}"


def alarming(count: int) -> str:
    return f"[red]{count:,}[/red]" if count else "0"


def _cpu(microseconds: float | None) -> str:
    return "n/a" if microseconds is None else f"{microseconds:.2f} µs"
