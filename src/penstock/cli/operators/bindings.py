"""`penstock bindings`: list, add and delete bindings."""

from typing import Annotated

import typer

from penstock.cli.administering.arguments import DEFAULT_EXCHANGE, Arguments, table_of
from penstock.cli.administering.groups import listing_group
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Column, Row, column

_COLUMNS = (
    Column("from exchange", lambda row: row.get("source") or "(default)"),
    column("to", "destination"),
    column("kind", "destination_type"),
    column("routing key", "routing_key"),
    column("arguments", "arguments"),
    column("vhost", "vhost"),
)

Key = Annotated[str, typer.Option("--key", "-k", help="Routing key.", metavar="ROUTING_KEY")]
ToExchange = Annotated[
    bool, typer.Option("--to-exchange", help="DESTINATION is an exchange, not a queue.")
]


def list_all(
    session: OperatorSession,
    all_bindings: Annotated[
        bool, typer.Option("--all", help="Also those of the default exchange.")
    ] = False,
) -> None:
    """List bindings; with a verb, add or delete one.

    Examples:
      penstock bindings
      penstock bindings add events audit --key 'order.#'
      penstock bindings delete events audit --key 'order.#'

    """

    def read() -> list[Row]:
        return [row for row in session.listed("bindings") if all_bindings or row.get("source")]

    session.show_table(_COLUMNS, read)


app = listing_group(list_all, has_vhost=True)


@app.command("add")
@operator(has_vhost=True)
def add(
    session: OperatorSession,
    source: Annotated[str, typer.Argument(help="Exchange.")],
    destination: Annotated[str, typer.Argument(help="Queue, or exchange with --to-exchange.")],
    key: Key = "",
    to_exchange: ToExchange = False,
    argument: Arguments = None,
) -> None:
    """Bind a queue (or an exchange) to an exchange.

    Examples:
      penstock bindings add events audit --key 'order.#'
      penstock bindings add matches eu -a x-match=all -a region=eu

    """
    kind = "e" if to_exchange else "q"
    body = {"routing_key": key, "arguments": table_of(argument)}
    session.api.post("bindings", session.vhost, "e", source, kind, destination, body=body)
    session.done(
        f"{destination!r} bound to {source!r}", source=source, destination=destination, key=key
    )


@app.command("delete")
@operator(has_vhost=True)
def delete(
    session: OperatorSession,
    source: Annotated[str, typer.Argument(help="Exchange.")],
    destination: Annotated[str, typer.Argument(help="Queue, or exchange with --to-exchange.")],
    key: Key = "",
    to_exchange: ToExchange = False,
    argument: Arguments = None,
) -> None:
    """Delete a binding, named by its routing key and its arguments.

    Example:
      penstock bindings delete events audit --key 'order.#'

    """
    kind = "e" if to_exchange else "q"
    path = ("bindings", session.vhost, "e", source or DEFAULT_EXCHANGE, kind, destination)
    wanted = table_of(argument)
    for row in session.api.rows(*path):
        if row.get("routing_key") == key and row.get("arguments") == wanted:
            session.api.delete(*path, str(row["properties_key"]))
            session.done(
                f"binding of {destination!r} to {source!r} deleted",
                source=source,
                destination=destination,
                key=key,
            )
            return
    raise typer.BadParameter(
        f"{destination!r} is not bound to {source!r} with the routing key {key!r} and these "
        "arguments. See `penstock bindings`."
    )
