"""`penstock ha`: replication between servers, for operators."""

import re
from functools import partial
from typing import Annotated, Final
from urllib.parse import quote

import typer

from penstock.cli.administering.arguments import Arguments, PasswordFile, password_from, table_of
from penstock.cli.administering.cluster_change import finish_change
from penstock.cli.administering.completing import QueueName
from penstock.cli.administering.figures import duration_text, size_text
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Column, Row, column, fact_lines, number, table_lines

app: Final = typer.Typer(
    help="Look at replication, promote a backup, replicate single queues. See docs/CLUSTER.md.",
    no_args_is_help=True,
)

_REPLICA_COLUMNS: Final = (
    column("queue", "name"),
    column("state", "state"),
    number("messages", "messages"),
    number("at source", "source_messages"),
    number("fetched", "fetched_messages"),
    number("removed", "removed_messages"),
    Column("for", lambda row: duration_text(row.get("since_ms")), True),
    column("source", "source"),
    column("vhost", "vhost"),
    column("reason", "reason"),
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
    """Look at replication, promote a backup, replicate single queues. See docs/CLUSTER.md."""


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


@app.command("replicate")
@operator(has_vhost=True)
def replicate(
    session: OperatorSession,
    queue: QueueName,
    uri: Annotated[
        str,
        typer.Option(
            "--from",
            help="Address of the source, as clients have it; servers of a cluster with commas.",
            metavar="URI",
        ),
    ],
    source_queue: Annotated[
        str | None,
        typer.Option(help="Name of the queue at the source. Default: QUEUE.", metavar="NAME"),
    ] = None,
    password_file: PasswordFile = None,
    argument: Arguments = None,
) -> None:
    """Declare a queue here that is a replica of one of another server or cluster.

    It follows the source, whose messages stay, and is not used here before `penstock ha stop`.

    Examples:
      penstock ha replicate jobs --from amqp://user@10.0.0.1/ --password-file FILE
      penstock ha replicate jobs --from amqp://guest:guest@127.0.0.1:5673,127.0.0.1:5674/orders

    """
    if password_file is not None:
        uri = _with_password(uri, password_from(password_file))
    body: dict[str, object] = {"from": uri, "arguments": table_of(argument)}
    if source_queue is not None:
        body["source_queue"] = source_queue
    session.api.put("ha", "replicas", session.vhost, queue, body=body)
    session.done(
        f"queue {queue!r} in {session.vhost!r} is a replica; `penstock ha replicas` shows its state",
        queue=queue,
        vhost=session.vhost,
    )


def _with_password(uri: str, password: str) -> str:
    """Every address of a text may name the user."""
    return re.sub(r"(://[^/:@,]+)@", lambda found: f"{found[1]}:{quote(password, safe='')}@", uri)


@app.command("stop")
@operator(has_vhost=True)
def stop(session: OperatorSession, queue: QueueName) -> None:
    """Release a replica: it keeps what it has, and is used as any other queue from now on.

    Example:
      penstock ha stop jobs

    """
    session.api.delete("ha", "replicas", session.vhost, queue)
    session.done(
        f"queue {queue!r} in {session.vhost!r} is released", queue=queue, vhost=session.vhost
    )


@app.command("replicas")
@operator()
def replicas(session: OperatorSession) -> None:
    """List the replicas that this server keeps of queues of others, and how far they are.

    Examples:
      penstock ha replicas
      penstock ha replicas --watch

    """
    session.show_table(_REPLICA_COLUMNS, lambda: session.api.rows("ha", "replicas"))
