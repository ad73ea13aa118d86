"""`penstock permissions`: who may configure, write and read what."""

from typing import Annotated

import typer

from penstock.cli.administering.completing import UserName
from penstock.cli.administering.groups import listing_group
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Row, column

_COLUMNS = (
    column("user", "user"),
    column("vhost", "vhost"),
    column("configure", "configure"),
    column("write", "write"),
    column("read", "read"),
)
_TOPIC_COLUMNS = (
    column("user", "user"),
    column("vhost", "vhost"),
    column("exchange", "exchange"),
    column("write", "write"),
    column("read", "read"),
)

Pattern = Annotated[str, typer.Argument(help="Regular expression; '.*' is everything, '' nothing.")]


def list_all(
    session: OperatorSession,
    of_user: Annotated[
        str | None, typer.Option("--of", help="Only those of this user.", metavar="USER")
    ] = None,
) -> None:
    """List permissions; with a verb, change them.

    Examples:
      penstock permissions
      penstock permissions --of ann
      penstock permissions set ann '.*' '.*' '.*' --vhost orders
      penstock permissions topic-set ann amq.topic '^ann-' '.*'
      penstock permissions topics
      penstock permissions clear ann --vhost orders

    """
    session.show_table(_COLUMNS, lambda: _rows(session, "permissions", of_user))


app = listing_group(list_all, has_vhost=True)


def _rows(session: OperatorSession, kind: str, user: str | None) -> list[Row]:
    rows = session.api.rows(kind) if user is None else session.api.rows("users", user, kind)
    return [row for row in rows if session.asked_vhost in {"", row.get("vhost")}]


@app.command("topics")
@operator(has_vhost=True)
def list_topics(
    session: OperatorSession,
    of_user: Annotated[
        str | None, typer.Option("--of", help="Only those of this user.", metavar="USER")
    ] = None,
) -> None:
    """List topic permissions.

    Example:
      penstock permissions topics --of ann

    """
    session.show_table(_TOPIC_COLUMNS, lambda: _rows(session, "topic-permissions", of_user))


@app.command("set")
@operator(has_vhost=True)
def set_permissions(
    session: OperatorSession, name: UserName, configure: Pattern, write: Pattern, read: Pattern
) -> None:
    """Set what a user may configure, write and read in a virtual host.

    Examples:
      penstock permissions set ann '.*' '.*' '.*'
      penstock permissions set job '' '^events$' '^jobs$' --vhost orders

    """
    body = {"configure": configure, "write": write, "read": read}
    session.api.put("permissions", session.vhost, name, body=body)
    session.done(
        f"permissions of {name!r} in {session.vhost!r} set", user=name, vhost=session.vhost
    )


@app.command("clear")
@operator(has_vhost=True)
def clear(session: OperatorSession, name: UserName) -> None:
    """Clear a user's permissions in a virtual host, who can then no longer connect to it.

    Example:
      penstock permissions clear ann --vhost orders

    """
    session.api.delete("permissions", session.vhost, name)
    session.done(
        f"permissions of {name!r} in {session.vhost!r} cleared", user=name, vhost=session.vhost
    )


@app.command("topic-set")
@operator(has_vhost=True)
def topic_set(
    session: OperatorSession,
    name: UserName,
    exchange: Annotated[str, typer.Argument(help="A topic exchange.")],
    write: Pattern,
    read: Pattern,
) -> None:
    """Set with which routing keys a user may publish to and bind a topic exchange.

    Example:
      penstock permissions topic-set ann amq.topic '^ann-' '.*'

    """
    body = {"exchange": exchange, "write": write, "read": read}
    session.api.put("topic-permissions", session.vhost, name, body=body)
    session.done(f"topic permissions of {name!r} for {exchange!r} set", user=name)


@app.command("topic-clear")
@operator(has_vhost=True)
def topic_clear(session: OperatorSession, name: UserName) -> None:
    """Clear a user's topic permissions in a virtual host, for all exchanges.

    Example:
      penstock permissions topic-clear ann

    """
    session.api.delete("topic-permissions", session.vhost, name)
    session.done(f"topic permissions of {name!r} cleared", user=name)
