"""`penstock vhosts`: list, add and delete virtual hosts."""

from typing import Annotated

import typer

from penstock.cli.administering.arguments import Confirmed, confirm
from penstock.cli.administering.completing import VhostName
from penstock.cli.administering.groups import listing_group
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Column, Row, column, number

_COLUMNS = (
    column("name", "name"),
    number("messages", "messages"),
    number("ready", "messages_ready"),
    number("unacked", "messages_unacknowledged"),
    column("description", "description"),
    column("tags", "tags"),
    Column(
        "default queue type",
        lambda row: str(row.get("default_queue_type") or "").replace("undefined", ""),
    ),
)


def list_all(session: OperatorSession) -> None:
    """List virtual hosts; with a verb, add or delete one.

    Examples:
      penstock vhosts
      penstock vhosts add orders --description 'all about orders' --default-queue-type quorum
      penstock vhosts delete orders

    """
    session.show_table(_COLUMNS, lambda: session.api.rows("vhosts"))


app = listing_group(list_all)


@app.command("add")
@operator()
def add(
    session: OperatorSession,
    name: str,
    description: Annotated[str | None, typer.Option(help="A text for people.")] = None,
    tags: Annotated[str | None, typer.Option(help="Tags, with commas.")] = None,
    default_queue_type: Annotated[
        str | None, typer.Option(help="classic, quorum or stream.", metavar="TYPE")
    ] = None,
) -> None:
    """Add a virtual host, or describe one anew. Who adds it gets all permissions in it.

    Example:
      penstock vhosts add orders --default-queue-type quorum

    """
    given = {"description": description, "tags": tags, "default_queue_type": default_queue_type}
    body: Row = {key: value for key, value in given.items() if value is not None}
    session.api.put("vhosts", name, body=body)
    session.done(f"virtual host {name!r} added", vhost=name)


@app.command("delete")
@operator()
def delete(session: OperatorSession, name: VhostName, yes: Confirmed = False) -> None:
    """Delete a virtual host with everything in it, and close its connections.

    Example:
      penstock vhosts delete orders

    """
    confirm(f"Delete the virtual host {name!r} with all its queues and messages?", yes)
    session.api.delete("vhosts", name)
    session.done(f"virtual host {name!r} deleted", vhost=name)
