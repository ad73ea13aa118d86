"""The command table: what is imported for which call."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from penstock.cli.main import COMMANDS, build_app

IMPORTED = """
import sys
from penstock.cli.main import build_app
build_app(sys.argv[1:])
print(*sorted(name for name in sys.modules if name.startswith("penstock.cli.")))
"""


def modules_imported_for(*arguments: str) -> list[str]:
    output = subprocess.check_output(
        [sys.executable, "-P", "-c", IMPORTED, *arguments], env=os.environ, text=True
    )
    return output.split()


def test_help_names_every_subcommand_and_imports_none() -> None:
    result = CliRunner().invoke(build_app(["--help"]), ["--help"])
    assert result.exit_code == 0
    for name, row in COMMANDS.items():
        assert name in result.output
        assert row.summary in result.output
    assert modules_imported_for("--help") == ["penstock.cli.main"]


def test_only_the_called_subcommand_is_imported() -> None:
    assert modules_imported_for("version") == ["penstock.cli.main", "penstock.cli.version"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_subcommand_of_the_table_shows_its_help(name: str) -> None:
    result = CliRunner().invoke(build_app([name]), [name, "--help"])
    assert result.exit_code == 0, result.output


def test_version_names_version_build_and_python() -> None:
    result = CliRunner().invoke(build_app(["version"]), ["version"])
    assert result.exit_code == 0
    assert result.output.startswith("penstock ")
    assert "compiled" in result.output or "pure" in result.output
    assert "Python" in result.output
