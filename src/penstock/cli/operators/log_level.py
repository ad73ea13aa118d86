"""`penstock log-level`: what the broker writes to its log."""

from typing import Annotated

import typer

from penstock.cli.administering.session import OperatorSession, operator
from penstock.server.log_settings import LogLevel


@operator()
def command(
    session: OperatorSession,
    level: Annotated[LogLevel | None, typer.Argument(help="The least severe level.")] = None,
) -> None:
    """Show the log level, or set it until the broker stops or reloads another level.

    Examples:
      penstock log-level
      penstock log-level debug

    """
    if level is None:
        session.show_row(lambda: session.api.row("log-level"), lambda row: list(row.items()))
        return
    session.api.put("log-level", body={"level": level.value})
    session.done(f"log level set to {level.value}", level=level.value)
