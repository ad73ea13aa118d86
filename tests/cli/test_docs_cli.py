"""docs/CLI.md is true: the commands that it names exist, and so do the exit codes."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from penstock.cli.administering.exit_codes import MEANINGS
from penstock.cli.main import COMMANDS, DEVELOPING, build_app

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "CLI.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`penstock ([a-z][\w-]*)(?: (\w[\w-]*))?((?: --[\w-]+)*)`", PAGE)))


def problem_with(name: str, verb: str, options: str) -> str:
    """What is wrong with a command that a page names; nothing if it exists."""
    if name not in COMMANDS:
        return f"there is no command {name}"
    found = get_command(build_app([name]))
    command = getattr(found, "commands", {})[name]
    verbs = getattr(command, "commands", {})
    if verb and verbs:
        if verb not in verbs:
            return f"{name} has no verb {verb}"
        command = verbs[verb]
    known = {option for parameter in command.params for option in parameter.opts}
    missing = set(options.split()) - known
    return f"{name} {verb} has no option {missing}" if missing else ""


@pytest.mark.parametrize(("name", "verb", "options"), NAMED)
def test_a_command_that_the_page_names_exists(name: str, verb: str, options: str) -> None:
    assert problem_with(name, verb, options) == ""


def test_the_table_names_every_operators_command() -> None:
    operators = {name for name in COMMANDS if COMMANDS[name].panel != DEVELOPING}
    named = {name for name, _, _ in NAMED}
    assert operators - named <= {"serve", "store"}


@pytest.mark.parametrize("planted", [("nix", "", ""), ("users", "nix", ""), ("users", "", " --x")])
def test_a_planted_wrong_command_is_found(planted: tuple[str, str, str]) -> None:
    assert problem_with(*planted)


def test_the_exit_codes_are_those_of_the_commands() -> None:
    rows = dict(re.findall(r"^\| (\d) \| (.*) \|$", PAGE, re.MULTILINE))
    assert {int(code): text for code, text in rows.items()} == MEANINGS
