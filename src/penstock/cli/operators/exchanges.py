"""`penstock exchanges`: list, declare and delete exchanges."""

from typing import Annotated

import typer

from penstock.cli.administering.arguments import Arguments, Confirmed, confirm, table_of
from penstock.cli.administering.completing import ExchangeName
from penstock.cli.administering.groups import listing_group
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Column, column

_COLUMNS = (
    Column("name", lambda row: row.get("name") or "(default)"),
    column("type", "type"),
    column("vhost", "vhost"),
    column("durable", "durable"),
    column("auto-delete", "auto_delete"),
    column("internal", "internal"),
    column("policy", "policy"),
    column("arguments", "arguments"),
)


def list_all(session: OperatorSession) -> None:
    """List exchanges; with a verb, declare or delete one.

    Examples:
      penstock exchanges
      penstock exchanges --vhost orders --json
      penstock exchanges declare events --type topic
      penstock exchanges delete events --if-unused

    """
    session.show_table(_COLUMNS, lambda: session.listed("exchanges"))


app = listing_group(list_all, has_vhost=True)


@app.command("declare")
@operator(has_vhost=True)
def declare(
    session: OperatorSession,
    name: str,
    kind: Annotated[
        str, typer.Option("--type", help="direct, fanout, topic, headers, ...", metavar="TYPE")
    ] = "direct",
    transient: Annotated[bool, typer.Option("--transient", help="Not durable.")] = False,
    auto_delete: Annotated[
        bool, typer.Option("--auto-delete", help="Deleted with its last binding.")
    ] = False,
    internal: Annotated[
        bool, typer.Option("--internal", help="Clients cannot publish to it.")
    ] = False,
    argument: Arguments = None,
) -> None:
    """Declare an exchange. One that exists with the same properties is left as it is.

    Examples:
      penstock exchanges declare events --type topic
      penstock exchanges declare orders -a alternate-exchange=unrouted

    """
    body = {
        "type": kind,
        "durable": not transient,
        "auto_delete": auto_delete,
        "internal": internal,
        "arguments": table_of(argument),
    }
    session.api.put("exchanges", session.vhost, name, body=body)
    session.done(
        f"exchange {name!r} declared in {session.vhost!r}", exchange=name, vhost=session.vhost
    )


@app.command("delete")
@operator(has_vhost=True)
def delete(
    session: OperatorSession,
    name: ExchangeName,
    if_unused: Annotated[
        bool, typer.Option("--if-unused", help="Only if nothing is bound to it.")
    ] = False,
    yes: Confirmed = False,
) -> None:
    """Delete an exchange with its bindings.

    Example:
      penstock exchanges delete events --if-unused

    """
    confirm(f"Delete the exchange {name!r} with its bindings?", yes)
    conditions: dict[str, object] = {"if-unused": "true"} if if_unused else {}
    session.api.delete("exchanges", session.vhost, name, **conditions)
    session.done(f"exchange {name!r} deleted", exchange=name, vhost=session.vhost)
