"""`penstock pipeline`: the data jobs, on Spark. One module per job, imported when it is called."""

from typing import Final

import typer

from penstock.cli import (
    pipeline_archive,
    pipeline_audit,
    pipeline_capacity,
    pipeline_flow,
    pipeline_rehearse,
    pipeline_replay,
)

app: Final = typer.Typer(
    help="Spark jobs: audit ledgers, measure flow, plan capacity, archive and replay streams.",
    no_args_is_help=True,
)

app.command("audit")(pipeline_audit.command)
app.command("flow")(pipeline_flow.command)
app.command("capacity")(pipeline_capacity.command)
app.command("archive")(pipeline_archive.command)
app.command("replay")(pipeline_replay.command)
app.command("rehearse")(pipeline_rehearse.command)
