"""`penstock ha`: replication between servers, for operators."""

from typing import Annotated, Final

import typer

from penstock.cli.administering.cluster_change import finish_change
from penstock.cli.administering.session import OperatorSession, operator

app: Final = typer.Typer(
    help="Look at replication, and promote a backup. See docs/CLUSTER.md.", no_args_is_help=True
)


@app.callback()
def main() -> None:
    """Look at replication, and promote a backup. See docs/CLUSTER.md."""


@app.command("promote")
@operator()
def promote(
    session: OperatorSession,
    name: Annotated[str, typer.Argument(help="Backup that becomes the primary.", metavar="NAME")],
) -> None:
    """Let a backup become the primary: `penstock cluster hand-over NAME`. Ask the present primary.

    Example:
      penstock ha promote b

    """
    row = session.api.post("cluster", "hand-over", body={"name": name})
    finish_change(session, row, f"{name!r} is the root")
