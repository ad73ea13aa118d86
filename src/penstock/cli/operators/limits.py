"""`penstock limits`: limits of virtual hosts and of users."""

from typing import Annotated

import typer

from penstock.cli.administering.groups import listing_group
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Row, column, number

_COLUMNS = (
    column("of", "of"),
    column("name", "name"),
    number("max-connections", "value", "max-connections"),
    number("max-channels", "value", "max-channels"),
    number("max-queues", "value", "max-queues"),
)

OfUser = Annotated[str | None, typer.Option("--of-user", help="Of this user.", metavar="NAME")]
OfVhost = Annotated[
    str | None, typer.Option("--of-vhost", help="Of this virtual host.", metavar="NAME")
]
Limit = Annotated[
    str,
    typer.Argument(
        help="max-connections, max-queues (virtual hosts), max-channels (users).", metavar="LIMIT"
    ),
]


def list_all(session: OperatorSession) -> None:
    """List the limits of virtual hosts and users; with a verb, change them.

    Examples:
      penstock limits
      penstock limits set max-connections 100 --of-user ann
      penstock limits set max-queues 1000 --of-vhost orders
      penstock limits clear max-queues --of-vhost orders

    """
    session.show_table(_COLUMNS, lambda: _rows(session))


app = listing_group(list_all)


def _rows(session: OperatorSession) -> list[Row]:
    rows: list[Row] = []
    for kind, path in (("vhost", "vhost-limits"), ("user", "user-limits")):
        for row in session.api.rows(path):
            rows.append({"of": kind, "name": row.get(kind), "value": row.get("value")})
    return rows


def _owner(user: str | None, vhost: str | None) -> tuple[str, str]:
    """The path of its kind, and its name."""
    if user is not None and vhost is None:
        return "user-limits", user
    if vhost is not None and user is None:
        return "vhost-limits", vhost
    raise typer.BadParameter("name either --of-user NAME or --of-vhost NAME")


@app.command("set")
@operator()
def set_limit(
    session: OperatorSession,
    limit: Limit,
    value: Annotated[int, typer.Argument(help="0 forbids all.")],
    of_user: OfUser = None,
    of_vhost: OfVhost = None,
) -> None:
    """Set a limit of a user or of a virtual host.

    Examples:
      penstock limits set max-connections 100 --of-user ann
      penstock limits set max-queues 1000 --of-vhost orders

    """
    kind, name = _owner(of_user, of_vhost)
    session.api.put(kind, name, limit, body={"value": value})
    session.done(f"{limit} of {name!r} set to {value}", limit=limit, name=name, value=value)


@app.command("clear")
@operator()
def clear(
    session: OperatorSession, limit: Limit, of_user: OfUser = None, of_vhost: OfVhost = None
) -> None:
    """Clear a limit.

    Example:
      penstock limits clear max-queues --of-vhost orders

    """
    kind, name = _owner(of_user, of_vhost)
    session.api.delete(kind, name, limit)
    session.done(f"{limit} of {name!r} cleared", limit=limit, name=name)
