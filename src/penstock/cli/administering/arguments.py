"""What people type: KEY=VALUE, JSON, names, passwords."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

# The path of the default exchange, whose name is empty.
DEFAULT_EXCHANGE: Final = "amq.default"

Arguments = Annotated[
    list[str] | None,
    typer.Option(
        "--argument",
        "-a",
        help="An argument as KEY=VALUE; can be repeated. VALUE is JSON, or else a string.",
        metavar="KEY=VALUE",
    ),
]
Confirmed = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        help="File whose first line is the password; - is standard input.", metavar="FILE"
    ),
]


def value_of(text: str) -> object:
    """JSON if it is, else the text itself: 10, true, "10", [1, 2] and reject-publish."""
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value


def table_of(pairs: Sequence[str] | None) -> dict[str, object]:
    table: dict[str, object] = {}
    for pair in pairs or ():
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE")
        table[key] = value_of(value)
    return table


def object_or_pairs(words: Sequence[str]) -> dict[str, object]:
    """A JSON object in one word, or pairs."""
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        value = value_of(words[0])
        if not isinstance(value, dict):
            raise typer.BadParameter(f"{words[0]!r} is not valid JSON")
        return value
    return table_of(words)


def confirm(question: str, is_confirmed: bool) -> None:
    """Asks a person. A script is not asked: it means what it says."""
    if is_confirmed or not sys.stdin.isatty():
        return
    typer.confirm(question, abort=True, err=True)


def password_from(file: Path | None) -> str:
    """From a file, from standard input, or typed twice without being shown."""
    if file is not None and str(file) != "-":
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"cannot read the password from {file}: {error}") from error
    elif file is not None or not sys.stdin.isatty():
        text = sys.stdin.readline()
    else:
        typed: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return typed
    password = text.partition("\n")[0].removesuffix("\r")
    if not password:
        raise typer.BadParameter(
            "the password is empty. Write it as the first line of --password-file or of standard "
            "input"
        )
    return password


def text_of_file(file: Path) -> str:
    """A file, or standard input for -."""
    if str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"cannot read {file}: {error}") from error
