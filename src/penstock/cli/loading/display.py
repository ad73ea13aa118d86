"""The display of a run: live figures while it lasts, a table at the end."""

from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from penstock.cli.loading.crew import Snapshot
from penstock.cli.loading.outcome import Outcome
from penstock.cli.loading.plan import Plan


class LiveDisplay:
    """Shows snapshots as they come. Held by the command for the time of the run."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan: Plan = plan
        bar = [BarColumn(), TaskProgressColumn()] if _total(plan) is not None else []
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            *bar,
            TimeElapsedColumn(),
            TextColumn("{task.fields[rates]}"),
            console=console,
            transient=True,
        )
        self._task: TaskID = self._progress.add_task("starting", total=_total(plan), rates="")
        self._last: Snapshot | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, snapshot: Snapshot) -> None:
        last = self._last
        if last is not None and snapshot.elapsed_seconds - last.elapsed_seconds < 0.5:
            if snapshot.phase == last.phase:
                return
        self._last = snapshot
        rates = ""
        if last is not None and snapshot.elapsed_seconds > last.elapsed_seconds:
            rates = _rates(last, snapshot)
        if snapshot.blocked:
            rates += f"  [red]blocked by the broker: {snapshot.blocked}[/red]"
        self._progress.update(
            self._task, description=snapshot.phase, completed=self._done(snapshot), rates=rates
        )

    def _done(self, snapshot: Snapshot) -> float:
        if self._plan.messages is None:
            return snapshot.elapsed_seconds
        if self._plan.consumers:
            return snapshot.delivered / self._plan.queues_reached
        return snapshot.confirmed if self._plan.confirm_window else snapshot.published


def _total(plan: Plan) -> float | None:
    return plan.messages if plan.messages is not None else plan.seconds


def _rates(last: Snapshot, snapshot: Snapshot) -> str:
    seconds = snapshot.elapsed_seconds - last.elapsed_seconds
    published = (snapshot.published - last.published) / seconds
    delivered = (snapshot.delivered - last.delivered) / seconds
    return f"published {published:,.0f}/s  delivered {delivered:,.0f}/s"


def outcome_table(plan: Plan, outcome: Outcome, title: str) -> Table:
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_row("published", f"{outcome.published:,}")
    if plan.confirm_window:
        table.add_row("confirmed", f"{outcome.confirmed:,}")
    table.add_row("publish rate", f"{outcome.publish_rate:,.0f} /s")
    reached = plan.queues_reached
    table.add_row(
        f"ISR (into {reached} queue{'s' if reached > 1 else ''})",
        f"{outcome.internal_switching_rate:,.0f} /s",
    )
    if plan.consumers:
        table.add_row("delivered", f"{outcome.delivered:,}")
        table.add_row("XSR (to consumers)", f"{outcome.external_switching_rate:,.0f} /s")
        table.add_row("latency", _latencies(outcome.latency))
    if plan.confirm_window:
        table.add_row("confirm latency", _latencies(outcome.confirm_latency))
    if plan.consumers:
        _add_account(table, outcome)
    cpu = f"{outcome.faucet_cpu_microseconds:.2f} µs publishing"
    if plan.consumers:
        cpu += f", {outcome.sink_cpu_microseconds:.2f} µs consuming"
    table.add_row("loader CPU per message", cpu)
    for fault in outcome.faults:
        table.add_row("[red]fault[/red]", fault)
    return table


def _add_account(table: Table, outcome: Outcome) -> None:
    account = outcome.account
    table.add_row("lost", _alarming(account.lost))
    if account.not_promised:
        table.add_row("rejected or unconfirmed, not delivered", f"{account.not_promised:,}")
    table.add_row("duplicated, flagged", f"{account.duplicates_flagged:,}")
    table.add_row("duplicated, not flagged", _alarming(account.duplicates_unflagged))
    table.add_row("out of order", _alarming(account.out_of_order))
    if outcome.foreign:
        table.add_row("foreign messages", f"{outcome.foreign:,}")
    for queue, publisher, sequence in account.examples_lost:
        table.add_row("[red]lost[/red]", f"{queue}: publisher {publisher}, message {sequence}")


def _alarming(count: int) -> str:
    return f"[red]{count:,}[/red]" if count else "0"


def _latencies(latency: dict[float, int | None]) -> str:
    parts = []
    for percent, microseconds in latency.items():
        name = "max" if percent == 100 else f"p{percent:g}"
        parts.append(f"{name} {_time(microseconds)}")
    return "  ".join(parts)


def _time(microseconds: int | None) -> str:
    if microseconds is None:
        return "n/a"
    if microseconds < 1000:
        return f"{microseconds} µs"
    return (
        f"{microseconds / 1000:.1f} ms" if microseconds < 100_000 else f"{microseconds / 1e6:.2f} s"
    )
