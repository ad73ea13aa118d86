"""The `penstock` command: one module per subcommand, imported only when it is the one called.

Starting a broker must not import the load generator, and `--help` must import neither. So the
table below knows each subcommand's module and one line of help, and only the named module is
imported. A subcommand's module has a function `command` with Typer annotations, whose docstring is
the long help, or an `app` of further subcommands.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final

import typer

# Headings of `penstock --help`.
RUNNING: Final = "Run a broker"
LOOKING: Final = "Operate a broker: look"
CHANGING: Final = "Operate a broker: change"
MESSAGES: Final = "Operate a broker: messages"
DEVELOPING: Final = "Develop and measure"

_SECONDS: Final = re.compile(r"\d+(\.\d*)?|\.\d+")
# Set by the shell when somebody presses the tab key.
_COMPLETE: Final = "_PENSTOCK_COMPLETE"


@dataclass(frozen=True, slots=True)
class Subcommand:
    """A row of the table. Held by COMMANDS."""

    module: str
    summary: str
    panel: str
    passes_arguments_on: bool = False  # unknown options belong to the program it starts


def _operator(name: str, summary: str, panel: str) -> Subcommand:
    return Subcommand(f"penstock.cli.operators.{name}", summary, panel)


COMMANDS: dict[str, Subcommand] = {
    "serve": Subcommand("penstock.cli.serve", "Run a broker.", RUNNING),
    "config": Subcommand(
        "penstock.cli.config", "Check a configuration, or show what would be in force.", RUNNING
    ),
    "store": Subcommand("penstock.cli.store", "Check or salvage a data directory.", RUNNING),
    "version": Subcommand(
        "penstock.cli.version", "Print the versions of Penstock and Python, and the build.", RUNNING
    ),
    "completion": Subcommand(
        "penstock.cli.completion", "Print the tab completion for a shell.", RUNNING
    ),
    "status": _operator("status", "Show whether the broker is healthy, and the alarms.", LOOKING),
    "overview": _operator("overview", "Show totals and rates.", LOOKING),
    "connections": _operator("connections", "List connections.", LOOKING),
    "channels": _operator("channels", "List channels and sessions.", LOOKING),
    "consumers": _operator("consumers", "List consumers.", LOOKING),
    "streams": _operator("streams", "List streams, or show one.", LOOKING),
    "cursors": _operator("cursors", "List, set or delete cursors of streams.", LOOKING),
    "leases": _operator("leases", "List, settle or return leases.", LOOKING),
    "sinks": _operator("sinks", "List or delete sinks.", LOOKING),
    "cluster": Subcommand(
        "penstock.cli.cluster", "Make a cluster, look at it and change it.", CHANGING
    ),
    "ha": _operator("ha", "Look at replication, and promote a backup.", CHANGING),
    "queues": _operator("queues", "List, declare, change or delete queues.", CHANGING),
    "exchanges": _operator("exchanges", "List, declare or delete exchanges.", CHANGING),
    "bindings": _operator("bindings", "List, add or delete bindings.", CHANGING),
    "users": _operator("users", "List, add or delete users; set passwords.", CHANGING),
    "permissions": _operator("permissions", "List, set or clear permissions.", CHANGING),
    "vhosts": _operator("vhosts", "List, add or delete virtual hosts.", CHANGING),
    "policies": _operator("policies", "List, set or clear policies.", CHANGING),
    "parameters": _operator("parameters", "List, set or clear parameters.", CHANGING),
    "limits": _operator("limits", "List, set or clear limits of users and hosts.", CHANGING),
    "definitions": _operator("definitions", "Export or import definitions.", CHANGING),
    "close": _operator("close", "Close connections.", CHANGING),
    "log-level": _operator("log_level", "Show or set the log level.", CHANGING),
    "peek": _operator("peek", "Look at messages without touching them.", MESSAGES),
    "get": _operator("get", "Take messages from a queue.", MESSAGES),
    "publish": _operator("publish", "Publish a message.", MESSAGES),
    "purge": _operator("purge", "Drop the messages of a queue.", MESSAGES),
    "move": _operator("move", "Move or copy messages to another queue.", MESSAGES),
    "explain": _operator("explain", "Explain where a message would go.", MESSAGES),
    "load": Subcommand(
        "penstock.cli.load", "Generate load on a broker and measure it.", DEVELOPING
    ),
    "demo": Subcommand(
        "penstock.cli.demo",
        "Demonstrate a broker, including a crash and its recovery.",
        DEVELOPING,
    ),
    "simulate": Subcommand(
        "penstock.cli.simulate",
        "Run seeded simulations with network and disk faults.",
        DEVELOPING,
    ),
    "chaos": Subcommand(
        "penstock.cli.chaos",
        "Kill and restart servers of a cluster, and check its promises.",
        DEVELOPING,
    ),
    "pipeline": Subcommand(
        "penstock.cli.pipeline", "Run Spark jobs: audit, flow, archive and more.", DEVELOPING
    ),
    "test": Subcommand("penstock.cli.selftest", "Run the project's test suite.", DEVELOPING, True),
    "matrix": Subcommand(
        "penstock.cli.matrix", "Run the Spark tests on other versions of Spark.", DEVELOPING
    ),
}


def not_loaded() -> None:
    """A placeholder in the help for a subcommand that was not called."""


def build_app(arguments: Sequence[str], completes: bool = False) -> typer.Typer:
    """The app in which only the subcommand that `arguments` name is imported."""
    app = typer.Typer(
        name="penstock",
        help="A message broker for AMQP 0-9-1 and AMQP 1.0.",
        no_args_is_help=True,
        # With its options, which `penstock completion` stands for, only when the shell asks.
        add_completion=completes,
        pretty_exceptions_enable=False,  # plain tracebacks are easier to report
    )
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    for name, row in COMMANDS.items():
        function = not_loaded
        if name == chosen:
            module = import_module(row.module)
            if hasattr(module, "app"):
                app.add_typer(module.app, name=name, rich_help_panel=row.panel)
                continue
            function = module.command
        settings: dict[str, object] = {}
        if row.passes_arguments_on:
            settings = {"allow_extra_args": True, "ignore_unknown_options": True}
        summary = None if name == chosen else row.summary
        app.command(name, help=summary, context_settings=settings, rich_help_panel=row.panel)(
            function
        )
    return app


def with_seconds(arguments: Sequence[str], default: str = "2") -> list[str]:
    """`--watch` takes a number that may be left out, which Typer's options cannot."""
    completed: list[str] = []
    for place, word in enumerate(arguments):
        following = arguments[place + 1] if place + 1 < len(arguments) else ""
        is_bare = word == "--watch" and not _SECONDS.fullmatch(following)
        completed.append(f"--watch={default}" if is_bare else word)
    return completed


def completed_words(environment: Mapping[str, str]) -> list[str]:
    """The line that the shell wants completed, without the command's own name."""
    line = environment.get("COMP_WORDS") or environment.get("_TYPER_COMPLETE_ARGS", "")
    return line.split()[1:]


def main() -> None:
    if os.environ.get(_COMPLETE):
        build_app(completed_words(os.environ), completes=True)(prog_name="penstock")
        return
    arguments = sys.argv[1:]
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    if chosen in COMMANDS and COMMANDS[chosen].panel not in {RUNNING, DEVELOPING}:
        arguments = with_seconds(arguments)
    build_app(arguments)(arguments, prog_name="penstock")
