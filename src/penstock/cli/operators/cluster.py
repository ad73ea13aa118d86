"""`penstock cluster`, its commands for a cluster that runs: look at it, change it."""

from functools import partial
from typing import Annotated, Final

import typer

from penstock.cli.administering import exit_codes
from penstock.cli.administering.cluster_change import add_goes_on, finish_change
from penstock.cli.administering.figures import duration_text, size_text
from penstock.cli.administering.session import OperatorSession, fail, operator
from penstock.cli.administering.tables import Row, column, fact_lines, number, table_lines

app: Final = typer.Typer(
    help="Make a cluster, look at it and change it. See docs/CLUSTER.md.", no_args_is_help=True
)
root_app: Final = typer.Typer(help="Say which servers may become the root.", no_args_is_help=True)
app.add_typer(root_app, name="root")

_NOT_KNOWN: Final = -1

_COLUMNS: Final = (
    column("name", "name"),
    column("address", "address"),
    column("role", "role"),
    column("in sync", "in_sync"),
    column("may be root", "may_be_root"),
    number("lag", "lag"),
    column("lag bytes", "lag_text"),
)

Name = Annotated[str, typer.Argument(help="Name of the server.", metavar="NAME")]


@app.command("status")
@operator()
def status(session: OperatorSession) -> None:
    """Show the cluster as one of its servers sees it. No login is needed on the server's machine.

    Examples:
      penstock cluster status
      penstock cluster status --server http://10.0.0.2:15672 --json
      penstock cluster status --watch

    """
    session.repeat(partial(_show, session))


def _show(session: OperatorSession) -> None:
    row = session.api.row("cluster")
    if session.is_json:
        session.show_json(row)
        return
    session.show_lines(fact_lines(_facts(row), session.width))
    members = row.get("members")
    rows: list[Row] = [
        {**one, "lag": _known(one.get("lag_operations")), "lag_text": _lag_text(one)}
        for one in (members if isinstance(members, list) else [])
    ]
    session.show_lines(["", *table_lines(_COLUMNS, rows, session.width, session.is_terminal)])


def _known(lag: object) -> object:
    """Only the root knows how far the others are."""
    return None if lag == _NOT_KNOWN else lag


def _lag_text(member: Row) -> str:
    lag = _known(member.get("lag_bytes"))
    return "" if lag is None else size_text(lag)


def _facts(row: Row) -> list[tuple[str, object]]:
    votes = row.get("votes")
    granted, active, known = votes if isinstance(votes, list) else (0, 0, 0)
    root = f"{row['root']} at {row['root_address']}" if row.get("root") else "none"
    facts: list[tuple[str, object]] = [
        ("server", row["name"]),
        ("role", f"{row['role']} for {duration_text(row['role_since_ms'])}: {row['reason']}"),
        ("root", root),
        ("expected root", row["expected_root"] or "none"),
        ("epoch", row["epoch"]),
        ("committed", row["committed"]),
        ("votes", f"{granted} granted, {active} active, {known} known"),
    ]
    if row["lease_ms"]:
        facts.append(("lease", f"{row['lease_ms']} ms left"))
    change = row.get("change")
    addition = row.get("addition")
    if isinstance(change, dict):
        facts.append(("last change", _told(change)))
    if isinstance(addition, dict) and addition != change:
        facts.append(("last addition", _told(addition)))
    return facts


def _told(change: Row) -> str:
    command = f"{change['command']} {change['name']}".strip()
    return f"{command}: {change['state']} {change['text']}".strip()


@app.command("add")
@operator()
def add(
    session: OperatorSession,
    member: Annotated[
        str, typer.Argument(help="Name and address of the server.", metavar="NAME=HOST:PORT")
    ],
) -> None:
    """Add a server, which must have been formatted with the same key and started.

    It catches up first, and becomes a member then. One that is not heard for a minute is given up;
    `penstock cluster remove NAME` cancels the addition until then.

    Example:
      penstock cluster add d=10.0.0.4:5672

    """
    name, separator, address = member.partition("=")
    if not separator:
        raise typer.BadParameter("name the server as NAME=HOST:PORT")
    with add_goes_on(name):
        row = session.api.put("cluster", "members", name, body={"address": address})
        finish_change(session, row, f"{name!r} is a member of the cluster")


@app.command("remove")
@operator()
def remove(session: OperatorSession, name: Name) -> None:
    """Remove a server from the cluster, or cancel its addition.

    Example:
      penstock cluster remove d

    """
    row = session.api.delete("cluster", "members", name)
    finish_change(session, row, f"{name!r} is not a member of the cluster any more")


@app.command("replace")
@operator()
def replace(session: OperatorSession, name: Name) -> None:
    """Accept the new data directory of a server that lost its old one.

    Format it with the same name, members and key, start it, and then call this.

    Example:
      penstock cluster replace b

    """
    row = session.api.post("cluster", "members", name, "replace", body={})
    finish_change(session, row, f"{name!r} is known with its new data directory, and catches up")


@app.command("hand-over")
@operator()
def hand_over(
    session: OperatorSession,
    name: Annotated[
        str,
        typer.Argument(help="Server that takes over. Default: the most senior.", metavar="[NAME]"),
    ] = "",
) -> None:
    """Let another server become the root, for example before an upgrade. Ask the root for it.

    Examples:
      penstock cluster hand-over
      penstock cluster hand-over b

    """
    row = session.api.post("cluster", "hand-over", body={"name": name} if name else {})
    heir = row.get("name") if isinstance(row, dict) else name
    finish_change(session, row, f"{heir!r} is the root")


@root_app.command("enable")
@operator()
def enable_root(session: OperatorSession, name: Name) -> None:
    """Let a server become the root.

    Example:
      penstock cluster root enable c

    """
    row = session.api.put("cluster", "members", name, "root", body={"enabled": True})
    finish_change(session, row, f"{name!r} may become the root")


@root_app.command("disable")
@operator()
def disable_root(session: OperatorSession, name: Name) -> None:
    """Never let a server become the root; it still keeps everything. A root hands over.

    Example:
      penstock cluster root disable c

    """
    row = session.api.put("cluster", "members", name, "root", body={"enabled": False})
    finish_change(session, row, f"{name!r} will not become the root")


@app.command("force-root")
@operator()
def force_root(
    session: OperatorSession,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Confirmed messages may be lost; required."),
    ] = False,
) -> None:
    """Go on with one server when a majority of the servers has lost its data for ever.

    The server becomes the only member of a new cluster. Messages that were confirmed and did not
    reach it are lost. Never use this while the others may come back.

    Example:
      penstock cluster force-root --accept-loss --server http://127.0.0.1:15672

    """
    if not accept_loss:
        fail(
            "messages that were confirmed may be lost",
            "Add --accept-loss if a majority of the servers has lost its data for ever.",
            exit_codes.WRONG_USAGE,
            session.is_json,
        )
    row = session.api.post("cluster", "force-root", body={"accept_loss": True})
    finish_change(session, row, "this server is the root of a new cluster, and its only member")
