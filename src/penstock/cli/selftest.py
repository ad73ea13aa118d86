"""`penstock test`: style, types, then the suite on the pure and on the compiled build, then Spark.

Every stage runs even when an earlier one failed, so that one call shows everything; the exit code
is non-zero when any stage failed. PENSTOCK_TEST_BUILDS=pure|compiled|both chooses the builds.
Without it both run, and the compiled one is left out, loudly, only where it cannot be had.
Works in a checkout of the project; an installed package contains no tests.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from penstock.builds import compiled_witness_exists

# The imported package: in src, or in the compiled copy whose files are links to src.
PACKAGE = Path(__file__).parent.parent

# src/penstock/cli/selftest.py, three folders below the checkout.
CHECKOUT = Path(__file__).resolve().parents[3]

# One more than a small machine has cores: many tests wait for timers and for processes, and with two
# workers half of the machine was idle.
PYTEST_WORKERS = "3"
# One per core: each has a Java process, which uses one.
SPARK_WORKERS = "2"

# Needs Java processes and both cores to itself, and runs nothing compiled but the broker it drives;
# so it has a stage of its own and one build.
SPARK_TESTS = "tests/spark"

BUILD_CHOICES = ("", "pure", "compiled", "both")


@dataclass(frozen=True, slots=True)
class Stage:
    """One program to run, or the verdict on it when it cannot run. Held by the list of stages."""

    name: str
    command: Sequence[str] = ()
    environment: Mapping[str, str] | None = None
    verdict: str = ""


def command(context: typer.Context) -> None:
    """Run the whole suite: ruff, mypy, and pytest on both builds. Arguments go to pytest."""
    wanted = os.environ.get("PENSTOCK_TEST_BUILDS", "")
    if wanted not in BUILD_CHOICES:
        raise typer.BadParameter("PENSTOCK_TEST_BUILDS must be pure, compiled or both")
    if not (CHECKOUT / "tests").is_dir():
        typer.echo("penstock: the tests are part of a source checkout, which this is not", err=True)
        raise typer.Exit(2)
    copy = PACKAGE.parent if compiled_witness_exists(str(PACKAGE)) else None
    why_pure = os.environ.get("PENSTOCK_WHY_PURE", "not started by ./penstock")
    stages = style_stages() + suite_stages(wanted, context.args, copy, why_pure)
    verdicts = [(stage.name, *run_stage(stage)) for stage in stages]
    typer.echo("\npenstock test:")
    for name, verdict, seconds in verdicts:
        typer.echo(f"  {name:<16} {verdict}  ({seconds:.0f} s)")
    if any(verdict.startswith("FAILED") for _, verdict, _ in verdicts):
        typer.echo("penstock test: FAILED")
        raise typer.Exit(1)
    typer.echo("penstock test: passed")


def style_stages() -> list[Stage]:
    python = [sys.executable, "-P", "-m"]
    return [
        Stage("ruff check", [*python, "ruff", "check", "--quiet", "."]),
        Stage("ruff format", [*python, "ruff", "format", "--check", "--quiet", "."]),
        Stage("mypy", [*python, "mypy"]),
    ]


def suite_stages(
    wanted: str, arguments: Sequence[str], copy: Path | None, why_pure: str
) -> list[Stage]:
    pytest = [sys.executable, "-P", "-m", "pytest"]
    # A Java process per worker, so whole files stay together; the longest come first.
    spark = [*pytest, "-n", SPARK_WORKERS, "--dist", "loadfile", "--no-loadscope-reorder"]
    spark.append(SPARK_TESTS)
    pytest += ["-n", PYTEST_WORKERS, "--dist", "worksteal"]
    if not arguments:
        arguments = [f"--ignore={SPARK_TESTS}"]
    else:
        spark = []
    stages: list[Stage] = []
    if wanted != "compiled":
        environment = {"PENSTOCK_PURE": "1", "PYTHONPATH": str(CHECKOUT / "src")}
        stages.append(Stage("pytest pure", [*pytest, *arguments], environment))
    if wanted == "pure":
        if spark:
            stages.append(Stage("pytest spark", spark, environment))
        return stages
    if copy is not None:
        environment = {"PENSTOCK_REQUIRE_COMPILED": "1", "PYTHONPATH": str(copy)}
        stages.append(Stage("pytest compiled", [*pytest, *arguments], environment))
    else:
        # The launcher's text for a compiler that exists and failed; see tools/launch.py.
        lost = wanted != "" or why_pure.startswith("compilation failed")
        verdict = f"{'FAILED' if lost else 'SKIPPED'}: no compiled build, {why_pure}"
        stages.append(Stage("pytest compiled", verdict=verdict))
    if spark:
        path = CHECKOUT / "src" if copy is None else copy
        stages.append(Stage("pytest spark", spark, {"PYTHONPATH": str(path)}))
    return stages


def run_stage(stage: Stage) -> tuple[str, float]:
    """The stage's short verdict, and its seconds."""
    if stage.verdict:
        return stage.verdict, 0.0
    typer.echo(f"\npenstock test: {stage.name}")
    switches = {"PENSTOCK_PURE", "PENSTOCK_REQUIRE_COMPILED", "PENSTOCK_WHY_PURE", "PYTHONPATH"}
    environment = {name: value for name, value in os.environ.items() if name not in switches}
    environment.update(stage.environment or {})
    begun = time.monotonic()
    result = subprocess.run(stage.command, cwd=CHECKOUT, env=environment, check=False)
    verdict = "passed" if result.returncode == 0 else f"FAILED (exit code {result.returncode})"
    return verdict, time.monotonic() - begun
