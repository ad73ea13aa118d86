"""`penstock close`: close connections."""

from typing import Annotated

import typer

from penstock.cli.administering.completing import OptionalConnectionName
from penstock.cli.administering.session import OperatorSession, operator


@operator()
def command(
    session: OperatorSession,
    name: OptionalConnectionName = None,
    of_user: Annotated[
        str | None, typer.Option(help="All connections of this user.", metavar="USER")
    ] = None,
    reason: Annotated[str, typer.Option(help="What the client is told.")] = "",
) -> None:
    """Close a connection, or all connections of a user.

    Examples:
      penstock close '127.0.0.1:40112 -> 127.0.0.1:5672' --reason maintenance
      penstock close --of-user ann

    """
    if (name is None) == (of_user is None):
        raise typer.BadParameter("name either a connection, or --of-user USER")
    headers = {}
    if reason:
        if not (reason.isascii() and reason.isprintable()):
            raise typer.BadParameter("--reason must be printable ASCII")
        headers["X-Reason"] = reason
    if name is not None:
        session.api.ask("DELETE", ("connections", name), headers=headers)
        session.done(f"connection {name!r} closed", connection=name)
    elif of_user is not None:
        session.api.ask("DELETE", ("connections", "username", of_user), headers=headers)
        session.done(f"connections of {of_user!r} closed", user=of_user)
