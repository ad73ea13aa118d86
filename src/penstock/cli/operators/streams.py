"""`penstock streams`: list streams and show one."""

from typing import Annotated

import typer

from penstock.cli.administering.figures import size_text
from penstock.cli.administering.groups import listing_group
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Column, Row, column, number

_COLUMNS = (
    column("name", "name"),
    column("kind", "kind"),
    number("first", "first_offset"),
    number("end", "safe_end_offset"),
    Column("bytes", lambda row: size_text(row.get("bytes")), True),
    column("partition of", "partition_of"),
    column("vhost", "vhost"),
)


def list_all(session: OperatorSession) -> None:
    """List streams; `show` shows segments and cursors of one.

    Examples:
      penstock streams
      penstock streams show events

    """
    session.show_table(_COLUMNS, lambda: stream_rows(session))


app = listing_group(list_all, has_vhost=True)


def stream_rows(session: OperatorSession) -> list[Row]:
    """All streams, those in partitioned ones too."""
    rows: list[Row] = []
    for vhost in session.vhosts():
        listed = session.api.row("streams", vhost).get("streams")
        for row in listed if isinstance(listed, list) else []:
            partitions = row.pop("partitions", None)
            rows.append({"vhost": vhost, **row})
            for partition in partitions or []:
                rows.append({"vhost": vhost, "partition_of": row["name"], **partition})
    return rows


@app.command("show")
@operator(has_vhost=True)
def show(session: OperatorSession, name: Annotated[str, typer.Argument(help="Stream.")]) -> None:
    """Show offsets, retention, segments and cursors of a stream.

    Example:
      penstock streams show events --json

    """
    session.show_row(
        lambda: session.api.row("streams", session.vhost, name), lambda row: list(row.items())
    )
