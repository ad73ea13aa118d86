"""Examples in the help of commands: their lines stay as they are written."""

import inspect
import re
from collections.abc import Callable
from typing import Final, TypeVar

_EXAMPLES: Final = re.compile(r"\n\n(?=Examples?:\n)")
# Tells Typer not to fill the lines of the paragraph that follows.
_AS_IT_IS: Final = "\n\n\b\n"

Command = TypeVar("Command", bound=Callable[..., None])


def shows_examples(command: Command) -> Command:
    """For a command whose docstring has a paragraph `Examples:`."""
    command.__doc__ = _EXAMPLES.sub(_AS_IT_IS, inspect.cleandoc(command.__doc__ or ""))
    return command
