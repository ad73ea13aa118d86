"""A command with verbs: alone it lists, `penstock queues`; with a verb it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from penstock.cli.administering.session import operator

if TYPE_CHECKING:
    from collections.abc import Callable


def listing_group(function: Callable[..., None], has_vhost: bool = False) -> typer.Typer:
    """The function lists; its docstring is the help of the group."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.callback(invoke_without_command=True)(operator(has_vhost)(function))
    return app
