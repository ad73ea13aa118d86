"""The `penstock` command: one module per subcommand, imported only when it is the one called.

Starting a broker must not pay for the load generator, and `--help` must not pay for either. So the
table below knows each subcommand's module and one line of help, and only the named module is
imported. A subcommand's module has a function `command` with Typer annotations, whose docstring is
the long help, or an `app` of further subcommands.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

import typer


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A row of the table. Held by COMMANDS."""

    module: str
    summary: str
    passes_arguments_on: bool = False  # unknown options belong to the program it starts


COMMANDS: dict[str, Subcommand] = {
    "serve": Subcommand("penstock.cli.serve", "Run a broker."),
    "load": Subcommand("penstock.cli.load", "Generate load on a broker and measure it."),
    "demo": Subcommand(
        "penstock.cli.demo", "Demonstrate a broker, including a crash and its recovery."
    ),
    "simulate": Subcommand(
        "penstock.cli.simulate", "Run seeded simulations with network and disk faults."
    ),
    "pipeline": Subcommand(
        "penstock.cli.pipeline", "Run Spark jobs: audit, flow, archive and more."
    ),
    "store": Subcommand("penstock.cli.store", "Check or salvage a data directory."),
    "test": Subcommand("penstock.cli.selftest", "Run the project's test suite.", True),
    "matrix": Subcommand("penstock.cli.matrix", "Run the Spark tests on other versions of Spark."),
    "version": Subcommand(
        "penstock.cli.version", "Print the versions of Penstock and Python, and the build."
    ),
}


def not_loaded() -> None:
    """Stands in the help for a subcommand that was not asked for."""


def build_app(arguments: Sequence[str]) -> typer.Typer:
    """The app in which only the subcommand that `arguments` name is imported."""
    app = typer.Typer(
        name="penstock",
        help="A message broker for AMQP 0-9-1 and AMQP 1.0.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,  # operators send plain tracebacks
    )
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    for name, row in COMMANDS.items():
        function = not_loaded
        if name == chosen:
            module = import_module(row.module)
            if hasattr(module, "app"):
                app.add_typer(module.app, name=name)
                continue
            function = module.command
        settings: dict[str, object] = {}
        if row.passes_arguments_on:
            settings = {"allow_extra_args": True, "ignore_unknown_options": True}
        summary = None if name == chosen else row.summary
        app.command(name, help=summary, context_settings=settings)(function)
    return app


def main() -> None:
    arguments = sys.argv[1:]
    build_app(arguments)(arguments, prog_name="penstock")
