"""`penstock leases`: which batch jobs hold messages of queues."""

from typing import Annotated

import typer

from penstock.cli.administering.arguments import Confirmed, confirm
from penstock.cli.administering.figures import size_text
from penstock.cli.administering.groups import listing_group
from penstock.cli.administering.session import OperatorSession, operator
from penstock.cli.administering.tables import Column, Row, column, number

_COLUMNS = (
    column("queue", "queue"),
    column("owner", "owner"),
    number("number", "number"),
    number("messages", "messages"),
    Column("bytes", lambda row: size_text(row.get("octets")), True),
    number("expires at", "expires_at"),
    column("vhost", "vhost"),
)

Number = Annotated[int, typer.Argument(help="Number of the lease.")]


def list_all(session: OperatorSession) -> None:
    """List leases; with a verb, settle or return one.

    Examples:
      penstock leases
      penstock leases return orders report 4
      penstock leases settle orders report 4

    """
    session.show_table(_COLUMNS, lambda: _rows(session))


app = listing_group(list_all, has_vhost=True)


def _rows(session: OperatorSession) -> list[Row]:
    rows: list[Row] = []
    for vhost in session.vhosts():
        leases = session.api.row("leases", vhost).get("leases")
        for lease in leases if isinstance(leases, list) else []:
            rows.append({"vhost": vhost, **lease})
    return rows


@app.command("settle")
@operator(has_vhost=True)
def settle(
    session: OperatorSession, queue: str, owner: str, number: Number, yes: Confirmed = False
) -> None:
    """Settle a lease and all before it: their messages are gone.

    Example:
      penstock leases settle orders report 4

    """
    confirm(f"Settle lease {number} of {owner!r} on {queue!r}, and all before it?", yes)
    answer = session.api.delete("leases", session.vhost, queue, owner, str(number))
    count = answer.get("settled") if isinstance(answer, dict) else None
    session.done(f"{count} messages settled", settled=count)


@app.command("return")
@operator(has_vhost=True)
def give_back(session: OperatorSession, queue: str, owner: str, number: Number) -> None:
    """Return the messages of a lease to their queue.

    Example:
      penstock leases return orders report 4

    """
    answer = session.api.post("leases", session.vhost, queue, owner, str(number), "return", body={})
    count = answer.get("returned") if isinstance(answer, dict) else None
    session.done(f"{count} messages returned", returned=count)
