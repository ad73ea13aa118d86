"""`penstock version`: the version and build that run here."""

import platform

import typer

from penstock import __version__
from penstock.builds import build_mode


def command() -> None:
    """Print the version, which build runs (compiled or pure) and the Python that runs it."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    typer.echo(f"penstock {__version__} ({build_mode()}) on {python}")
