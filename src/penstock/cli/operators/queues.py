"""`penstock queues`: list, show, declare, delete and change queues."""

from typing import Annotated

import typer

from penstock.cli.administering.arguments import Arguments, Confirmed, confirm, table_of
from penstock.cli.administering.completing import QueueName
from penstock.cli.administering.figures import duration_text, rate_text, size_text
from penstock.cli.administering.groups import listing_group
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Column, Row, column, found, number

_COLUMNS = (
    column("name", "name"),
    number("ready", "messages_ready"),
    number("unacked", "messages_unacknowledged"),
    number("consumers", "consumers"),
    Column("in", lambda row: rate_text(_rate(row, "publish")), True),
    Column("out", lambda row: rate_text(_rate(row, "deliver_get")), True),
    Column("bytes", lambda row: size_text(row.get("message_bytes")), True),
    Column("oldest", lambda row: duration_text(row.get("oldest_message_age_ms")), True),
    column("type", "type"),
    column("vhost", "vhost"),
    column("durable", "durable"),
    column("policy", "policy"),
    column("state", "state"),
    column("arguments", "arguments"),
)


def _rate(row: Row, key: str) -> object:
    return found(row, "message_stats", f"{key}_details", "rate")


def list_all(
    session: OperatorSession,
    name: Annotated[
        str | None, typer.Option(help="Only queues whose name contains this.", metavar="TEXT")
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(help="Sort by a field of --json, largest first.", metavar="FIELD"),
    ] = None,
) -> None:
    """List queues; with a verb, show or change one.

    Examples:
      penstock queues
      penstock queues --sort messages_ready --watch
      penstock queues --vhost orders --name invoice --json
      penstock queues declare jobs -a x-queue-type=quorum
      penstock queues set jobs -a x-max-length=1000
      penstock queues delete jobs --if-empty

    """

    def read() -> list[Row]:
        reverse = None if sort is None else "true"
        rows = session.listed("queues", sort=sort, sort_reverse=reverse)
        return [row for row in rows if name is None or name in str(row["name"])]

    session.show_table(_COLUMNS, read)


app = listing_group(list_all, has_vhost=True)


@app.command("show")
@operator(has_vhost=True)
def show(session: OperatorSession, name: QueueName) -> None:
    """Show everything about one queue.

    Example:
      penstock queues show jobs

    """
    session.show_row(
        lambda: session.api.row("queues", session.vhost, name), lambda row: list(row.items())
    )


@app.command("declare")
@operator(has_vhost=True)
def declare(
    session: OperatorSession,
    name: QueueName,
    kind: Annotated[
        str | None, typer.Option("--type", help="classic, quorum or stream.", metavar="TYPE")
    ] = None,
    transient: Annotated[bool, typer.Option("--transient", help="Not durable.")] = False,
    auto_delete: Annotated[
        bool, typer.Option("--auto-delete", help="Deleted with its last consumer.")
    ] = False,
    argument: Arguments = None,
) -> None:
    """Declare a queue. One that exists with the same properties is left as it is.

    Examples:
      penstock queues declare jobs
      penstock queues declare jobs --type quorum -a x-delivery-limit=5
      penstock queues declare events --type stream -a x-max-age=7D

    """
    arguments = table_of(argument)
    if kind is not None:
        arguments["x-queue-type"] = kind
    body = {"durable": not transient, "auto_delete": auto_delete, "arguments": arguments}
    session.api.put("queues", session.vhost, name, body=body)
    session.done(f"queue {name!r} declared in {session.vhost!r}", queue=name, vhost=session.vhost)


@app.command("set")
@operator(has_vhost=True)
def set_arguments(session: OperatorSession, name: QueueName, argument: Arguments = None) -> None:
    """Change arguments of a queue in place; null removes one.

    Examples:
      penstock queues set jobs -a x-max-length=1000 -a x-overflow=reject-publish
      penstock queues set jobs -a x-message-ttl=null

    """
    arguments = table_of(argument)
    if not arguments:
        raise typer.BadParameter("name what to change with --argument KEY=VALUE")
    session.api.ask("PATCH", ("queues", session.vhost, name), body={"arguments": arguments})
    session.done(f"queue {name!r} changed", queue=name, vhost=session.vhost)


@app.command("delete")
@operator(has_vhost=True)
def delete(
    session: OperatorSession,
    name: QueueName,
    if_empty: Annotated[
        bool, typer.Option("--if-empty", help="Only if it has no messages.")
    ] = False,
    if_unused: Annotated[
        bool, typer.Option("--if-unused", help="Only if it has no consumers.")
    ] = False,
    yes: Confirmed = False,
) -> None:
    """Delete a queue with its messages.

    Example:
      penstock queues delete jobs --if-empty --if-unused

    """
    confirm(f"Delete the queue {name!r} with its messages?", yes)
    conditions: dict[str, object] = {
        key: "true" for key, is_set in (("if-empty", if_empty), ("if-unused", if_unused)) if is_set
    }
    session.api.delete("queues", session.vhost, name, **conditions)
    session.done(f"queue {name!r} deleted", queue=name, vhost=session.vhost)


@app.command("moves")
@operator(has_vhost=True)
def moves(session: OperatorSession, name: QueueName) -> None:
    """List the moves out of a queue, those in progress and the last ones that ended.

    Example:
      penstock queues moves jobs

    """
    columns = (
        number("number", "number"),
        column("state", "state"),
        number("messages", "messages"),
        number("looked at", "looked_at"),
        column("to queue", "destination"),
        column("to exchange", "exchange"),
        column("copy", "copy"),
        column("selector", "selector"),
        column("reason", "reason"),
    )
    session.show_table(columns, lambda: session.api.rows("queues", session.vhost, name, "moves"))


@app.command("cancel-move")
@operator(has_vhost=True)
def cancel_move(
    session: OperatorSession,
    name: QueueName,
    move: Annotated[int, typer.Argument(help="Number of the move.", metavar="NUMBER")],
) -> None:
    """Cancel a move out of a queue; what was moved stays moved.

    Example:
      penstock queues cancel-move jobs 3

    """
    session.api.delete("queues", session.vhost, name, "moves", str(move))
    session.done(f"move {move} cancelled", queue=name, move=move)
