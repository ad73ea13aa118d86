"""`penstock matrix`: environments are made once, reports are read as they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import build_app
from penstock.cli.matrix import Outcome, environment_of, read_report, table_of, without_spark

CONSTRAINTS = "numpy==2.0\npy4j==0.10.9\npyspark==4.3.0\npyspark-extra==1\n"
PINS = "numpy==2.0\npyspark-extra==1\n"
SUITE = '<testsuites><testsuite errors="{}" failures="{}" skipped="{}" tests="{}" time="12.6" />'


class Programs:
    """Stands for whatever would be run; the step of this number fails."""

    def __init__(self, fails: int = -1) -> None:
        self.commands: list[Sequence[str]] = []
        self._fails = fails

    def __call__(self, command: Sequence[str], log: Path) -> int:
        self.commands.append(command)
        log.touch()
        if "venv" in command:
            Path(command[-1]).mkdir(exist_ok=True)
        return 1 if len(self.commands) - 1 == self._fails else 0


def test_what_comes_with_spark_is_not_pinned() -> None:
    assert without_spark(CONSTRAINTS) == PINS


@pytest.mark.parametrize(
    ("version", "wanted"), [("4.1", "pyspark==4.1.*"), ("4.1.2", "pyspark==4.1.2")]
)
def test_an_environment_is_made_once(tmp_path: Path, version: str, wanted: str) -> None:
    programs = Programs()
    python = str(tmp_path / f"spark-{version}" / "bin" / "python")
    assert environment_of(version, CONSTRAINTS, tmp_path, programs) == (python, "")
    assert programs.commands[-1][-1] == wanted
    assert (tmp_path / f"spark-{version}.txt").read_text() == PINS
    made = len(programs.commands)
    assert environment_of(version, CONSTRAINTS, tmp_path, programs) == (python, "")
    assert len(programs.commands) == made
    # Spark's own version is not the environment's business; every other one is.
    environment_of(version, CONSTRAINTS.replace("4.3.0", "4.4.0"), tmp_path, programs)
    assert len(programs.commands) == made
    environment_of(version, CONSTRAINTS.replace("2.0", "2.1"), tmp_path, programs)
    assert len(programs.commands) == 2 * made


def test_what_cannot_be_installed_is_said_and_tried_again(tmp_path: Path) -> None:
    python, trouble = environment_of("9.9", CONSTRAINTS, tmp_path, Programs(fails=2))
    assert python == ""
    assert trouble == f"installation failed, see {tmp_path.name}/spark-9.9.log"
    assert environment_of("9.9", CONSTRAINTS, tmp_path, Programs())[1] == ""


def test_a_report_is_counted(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    assert read_report("4.0", report).trouble == "pytest wrote no report"
    report.write_text(SUITE.format(0, 0, 0, 0) + "</testsuites>")
    assert read_report("4.0", report).trouble == "no test ran"
    report.write_text(SUITE.format(1, 2, 3, 16) + "</testsuites>")
    assert read_report("4.0", report) == Outcome("4.0", 10, 3, 3, 12.6)


def test_the_table_has_a_row_for_each_version() -> None:
    told = table_of([Outcome("4.0", 10, 3, 3, 12.6), Outcome("9.9", trouble="no test ran")])
    assert told.splitlines() == [
        "Spark     passed  failed  skipped  seconds",
        "4.0           10       3        3       13",
        "9.9       no test ran",
    ]


@pytest.mark.parametrize("word", ["tests/spark", "4", "four", "4.1.1.1"])
def test_what_is_no_version_is_refused_before_anything_runs(word: str) -> None:
    result = CliRunner().invoke(build_app(["matrix"]), ["matrix", "4.1", word])
    assert result.exit_code == 2
    assert f"'{word}' is not a valid version of Spark" in result.output
