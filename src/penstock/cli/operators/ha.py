"""`penstock ha`: replication between servers, for operators."""

from functools import partial
from typing import Annotated, Final

import typer

from penstock.cli.administering.cluster_change import finish_change
from penstock.cli.administering.figures import duration_text, size_text
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Row, column, fact_lines, number, table_lines

app: Final = typer.Typer(
    help="Look at replication, and promote a backup. See docs/CLUSTER.md.", no_args_is_help=True
)


_NOT_KNOWN: Final = -1

_BACKUPS: Final = (
    column("backup", "name"),
    column("state", "state"),
    column("in sync", "in_sync"),
    number("sent", "sent"),
    number("acknowledged", "acknowledged"),
    number("first guarded", "first_guarded"),
    number("lag", "lag_operations"),
    column("lag bytes", "lag_text"),
    number("missing", "missing_messages"),
)
_CHANGES: Final = (
    column("before", "ago"),
    column("record", "record"),
    column("in sync", "in_sync"),
    column("why", "reason"),
)
_QUEUES: Final = (
    column("vhost", "vhost"),
    column("queue", "name"),
    column("server", "server"),
    column("state", "state"),
    number("first guarded", "first_guarded"),
    number("delayed", "delayed"),
    number("sent", "delayed_sent"),
    number("missing", "missing"),
)


@app.callback()
def main() -> None:
    """Look at replication, and promote a backup. See docs/CLUSTER.md."""


@app.command("status")
@operator()
def status(session: OperatorSession) -> None:
    """Show the role of a server in replication, its backups, and why the in-sync set changed.

    Examples:
      penstock ha status
      penstock ha status --watch

    """
    session.repeat(partial(_show_status, session))


def _show_status(session: OperatorSession) -> None:
    row = session.api.row("ha")
    if session.is_json:
        session.show_json(row)
        return
    facts: list[tuple[str, object]] = [
        ("server", row["name"]),
        ("role", row["role"]),
        ("state", row["state"]),
        ("epoch", row["epoch"]),
        ("committed", _known(row["committed"])),
    ]
    if row["missing_messages"]:
        facts.append(("missing", f"{row['missing_messages']} messages"))
    if row["waiting"]:
        facts.append(("confirms wait", row["waiting"]))
    session.show_lines(fact_lines(facts, session.width))
    backups = [
        {**one, "lag_text": size_text(one.get("lag_bytes"))} for one in _rows(row, "backups")
    ]
    if backups:
        session.show_lines(
            ["", *table_lines(_BACKUPS, backups, session.width, session.is_terminal)]
        )
    changes = [
        {
            "ago": duration_text(one["ago_ms"]),
            "record": f"{one['epoch']}.{one['version']}",
            "in_sync": _names(one["in_sync"]),
            "reason": one["reason"],
        }
        for one in _rows(row, "history")
    ]
    session.show_lines(["", *table_lines(_CHANGES, changes, session.width, session.is_terminal)])


def _rows(row: Row, key: str) -> list[Row]:
    found = row.get(key)
    return found if isinstance(found, list) else []


def _names(listed: object) -> str:
    return ", ".join(listed) if isinstance(listed, list) else ""


def _known(figure: object) -> object:
    return "not known" if figure == _NOT_KNOWN else figure


@app.command("queues")
@operator()
def queues(session: OperatorSession) -> None:
    """Show each replicated queue on each server: its state, and what is delayed or missing.

    Examples:
      penstock ha queues
      penstock ha queues --json

    """
    session.repeat(partial(_show_queues, session))


def _show_queues(session: OperatorSession) -> None:
    rows = session.api.rows("ha", "queues")
    if session.is_json:
        session.show_json(rows)
        return
    session.show_lines(table_lines(_QUEUES, rows, session.width, session.is_terminal))


@app.command("promote")
@operator()
def promote(
    session: OperatorSession,
    name: Annotated[str, typer.Argument(help="Backup that becomes the primary.", metavar="NAME")],
) -> None:
    """Let a backup become the primary: `penstock cluster hand-over NAME`. Ask the present primary.

    Example:
      penstock ha promote b

    """
    row = session.api.post("cluster", "hand-over", body={"name": name})
    finish_change(session, row, f"{name!r} is the root")
