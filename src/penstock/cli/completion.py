"""`penstock completion`: the tab completion of a shell."""

from enum import Enum
from typing import Annotated

import typer

from penstock.cli.examples import shows_examples


class Shell(Enum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@shows_examples
def command(shell: Annotated[Shell, typer.Argument(help="Your shell.")]) -> None:
    """Print what makes a shell complete commands, options and names of queues, users and so on.

    Examples:
      penstock completion bash > ~/.local/share/bash-completion/completions/penstock
      penstock completion zsh > ~/.zfunc/_penstock
      penstock completion fish > ~/.config/fish/completions/penstock.fish

    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    typer.echo(
        get_completion_script(
            prog_name="penstock", complete_var="_PENSTOCK_COMPLETE", shell=shell.value
        )
    )
