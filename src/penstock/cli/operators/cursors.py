"""`penstock cursors`: where the named readers of streams are."""

from typing import Annotated

import typer

from penstock.cli.administering.arguments import Confirmed, confirm
from penstock.cli.administering.groups import listing_group
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Row, column, number
from penstock.cli.operators.streams import stream_rows

_COLUMNS = (
    column("stream", "stream"),
    column("cursor", "name"),
    number("offset", "offset"),
    number("lag", "lag"),
    column("vhost", "vhost"),
)


def list_all(
    session: OperatorSession,
    stream: Annotated[
        str | None, typer.Option(help="Only those of this stream.", metavar="NAME")
    ] = None,
) -> None:
    """List the cursors of streams, and how far each lags behind; with a verb, change one.

    Examples:
      penstock cursors --watch
      penstock cursors set events report 4096
      penstock cursors delete events report

    """
    session.show_table(_COLUMNS, lambda: _rows(session, stream))


app = listing_group(list_all, has_vhost=True)


def _rows(session: OperatorSession, wanted: str | None) -> list[Row]:
    rows: list[Row] = []
    for stream in stream_rows(session):
        if stream.get("kind") != "stream" or wanted not in {None, stream["name"]}:
            continue
        vhost, name = str(stream["vhost"]), str(stream["name"])
        # The segments are not of interest here: none lies behind the end.
        facts = session.api.row("streams", vhost, name, from_offset=stream["safe_end_offset"])
        cursors = facts.get("cursors")
        for cursor in cursors if isinstance(cursors, list) else []:
            rows.append({"vhost": vhost, "stream": name, **cursor})
    return rows


@app.command("set")
@operator(has_vhost=True)
def set_cursor(
    session: OperatorSession,
    stream: str,
    cursor: str,
    offset: Annotated[int, typer.Argument(help="Where its reader continues.", min=0)],
) -> None:
    """Set the offset at which a named reader continues.

    Example:
      penstock cursors set events report 4096

    """
    session.api.put("streams", session.vhost, stream, "cursors", cursor, body={"offset": offset})
    session.done(f"cursor {cursor!r} of {stream!r} set to {offset}", cursor=cursor, offset=offset)


@app.command("delete")
@operator(has_vhost=True)
def delete(session: OperatorSession, stream: str, cursor: str, yes: Confirmed = False) -> None:
    """Delete a cursor: its reader begins anew.

    Example:
      penstock cursors delete events report

    """
    confirm(f"Delete the cursor {cursor!r} of {stream!r}?", yes)
    session.api.delete("streams", session.vhost, stream, "cursors", cursor)
    session.done(f"cursor {cursor!r} of {stream!r} deleted", cursor=cursor)
