"""`penstock config`: check a configuration, or show what would be in force."""

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False)
