"""`penstock sinks`: batch jobs that publish, each batch once."""

from penstock.cli.administering.arguments import Confirmed, confirm
from penstock.cli.administering.figures import duration_text
from penstock.cli.administering.groups import listing_group
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Column, Row, column, number

_COLUMNS = (
    column("sink", "sink"),
    column("owner", "owner"),
    number("batch", "batch"),
    number("staged", "messages"),
    column("publishing", "is_publishing"),
    column("waits for", "waits_for"),
    Column("idle", lambda row: duration_text(row.get("idle_ms")), True),
    column("temporary", "temporary"),
    column("vhost", "vhost"),
)


def list_all(session: OperatorSession) -> None:
    """List sinks; `delete` deletes one.

    Examples:
      penstock sinks
      penstock sinks delete nightly

    """
    session.show_table(_COLUMNS, lambda: _rows(session))


app = listing_group(list_all, has_vhost=True)


def _rows(session: OperatorSession) -> list[Row]:
    rows: list[Row] = []
    for vhost in session.vhosts():
        sinks = session.api.row("sinks", vhost).get("sinks")
        for sink in sinks if isinstance(sinks, list) else []:
            rows.append({"vhost": vhost, **sink})
    return rows


@app.command("delete")
@operator(has_vhost=True)
def delete(session: OperatorSession, name: str, yes: Confirmed = False) -> None:
    """Delete a sink with what is staged; its job could publish old batches again.

    Example:
      penstock sinks delete nightly

    """
    confirm(f"Delete the sink {name!r}?", yes)
    session.api.delete("sinks", session.vhost, name)
    session.done(f"sink {name!r} deleted", sink=name)
