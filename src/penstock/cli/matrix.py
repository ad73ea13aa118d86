"""`penstock matrix`: the tests of the data source on other versions of Spark.

`penstock test` runs them on the version of constraints.txt. Here each version gets an environment
of its own in .penstock, made once, with every other package at the version of constraints.txt.
Works in a checkout of the project; an installed package contains no tests.
"""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from penstock.cli.selftest import CHECKOUT, PACKAGE, SPARK_TESTS

STATE: Final = CHECKOUT / ".penstock"
VERSIONS: Final = ("4.0", "4.1", "4.2")
_VERSION: Final = re.compile(r"\d+\.\d+(\.\d+)?")
# Packages whose versions depend on Spark's.
PACKAGES_OF_SPARK: Final = ("pyspark==", "py4j==")


# Runs a program with its output appended to a log; returns its exit code.
Runner = Callable[[Sequence[str], Path], int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one version of Spark. Held by the table at the end."""

    version: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    trouble: str = ""


def command(
    versions: Annotated[
        list[str] | None, typer.Argument(help="Versions of Spark, such as 4.1 or 4.1.1.")
    ] = None,
    tests: Annotated[
        str, typer.Option(help="Only tests that match this pytest -k expression.")
    ] = "",
) -> None:
    """Run the tests of the Spark data source on versions of Spark (default: 4.0, 4.1 and 4.2)."""
    if not (CHECKOUT / "tests").is_dir():
        typer.echo("penstock: the tests are part of a source checkout, which this is not", err=True)
        raise typer.Exit(2)
    for version in versions or ():
        if _VERSION.fullmatch(version) is None:
            typer.echo(
                f"penstock: '{version}' is not a valid version of Spark. Use a form such as 4.1 or "
                "4.1.1; --tests selects tests",
                err=True,
            )
            raise typer.Exit(2)
    outcomes = [outcome_of(version, tests) for version in versions or VERSIONS]
    typer.echo("\n" + table_of(outcomes))
    if any(row.failed or row.trouble for row in outcomes):
        raise typer.Exit(1)


def table_of(outcomes: Sequence[Outcome]) -> str:
    lines = ["Spark     passed  failed  skipped  seconds"]
    for row in outcomes:
        figures = f"{row.passed:>6}  {row.failed:>6}  {row.skipped:>7}  {row.seconds:>7.0f}"
        lines.append(f"{row.version:<8}  {row.trouble or figures}")
    return "\n".join(lines)


def outcome_of(version: str, tests: str) -> Outcome:
    constraints = (CHECKOUT / "constraints.txt").read_text(encoding="utf-8")
    python, trouble = environment_of(version, constraints)
    if trouble:
        return Outcome(version, trouble=trouble)
    typer.echo(f"\npenstock matrix: Spark {version}")
    report = STATE / f"spark-{version}.xml"
    report.unlink(missing_ok=True)
    chosen = [f"-k={tests}"] if tests else []
    subprocess.run(
        [python, "-P", "-m", "pytest", "-q", f"--junit-xml={report}", *chosen, SPARK_TESTS],
        cwd=CHECKOUT,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        check=False,
    )
    return read_report(version, report)


def environment_of(
    version: str, constraints: str, state: Path = STATE, run: Runner | None = None
) -> tuple[str, str]:
    """The Python with this Spark; and the error, if it could not be installed."""
    folder = state / f"spark-{version}"
    python, ready = folder / "bin" / "python", folder / "penstock-ready"
    wanted_pins = without_spark(constraints)
    if ready.is_file() and ready.read_text(encoding="utf-8") == wanted_pins:
        return str(python), ""
    typer.echo(f"penstock matrix: installing Spark {version} (a minute or two) ...")
    state.mkdir(exist_ok=True)
    pins = state / f"spark-{version}.txt"
    pins.write_text(wanted_pins, encoding="utf-8")
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "-c", str(pins)]
    wanted = version if version.count(".") > 1 else f"{version}.*"
    steps = (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [*pip, "setuptools", "mypy"],
        [*pip, "--no-build-isolation", "-e", ".[test,spark]", f"pyspark=={wanted}"],
    )
    log = state / f"spark-{version}.log"
    log.unlink(missing_ok=True)
    for step in steps:
        if (run or run_logged)(step, log) != 0:
            return "", f"installation failed, see {state.name}/{log.name}"
    ready.write_text(wanted_pins, encoding="utf-8")
    return str(python), ""


def run_logged(command: Sequence[str], log: Path) -> int:
    with log.open("ab") as output:
        return subprocess.run(
            command,
            cwd=CHECKOUT,
            env={**os.environ, "PENSTOCK_PURE": "1", "PENSTOCK_REQUIRE_COMPILED": "0"},
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode


def without_spark(constraints: str) -> str:
    lines = constraints.splitlines()
    return "\n".join(line for line in lines if not line.startswith(PACKAGES_OF_SPARK)) + "\n"


def read_report(version: str, report: Path) -> Outcome:
    """What pytest counted."""
    if not report.is_file():
        return Outcome(version, trouble="pytest wrote no report")
    # Written by the process that just ended.
    root = ET.parse(report).getroot()  # noqa: S314
    suite = root.find("testsuite")
    if suite is None or int(suite.get("tests", "0")) == 0:
        return Outcome(version, trouble="no test ran")
    failed = int(suite.get("failures", "0")) + int(suite.get("errors", "0"))
    skipped = int(suite.get("skipped", "0"))
    passed = int(suite.get("tests", "0")) - failed - skipped
    return Outcome(version, passed, failed, skipped, float(suite.get("time", "0")))
