"""Which stages `penstock test` runs, and what it says of those it cannot."""

import sys
from pathlib import Path

import pytest

from penstock.cli.selftest import Stage, run_stage, suite_stages

COPY = Path("compiled-copy")


def names(stages: list[Stage]) -> list[str]:
    return [stage.name for stage in stages]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("", ["pytest pure", "pytest compiled", "pytest spark"]),
        ("both", ["pytest pure", "pytest compiled", "pytest spark"]),
        ("pure", ["pytest pure", "pytest spark"]),
        ("compiled", ["pytest compiled", "pytest spark"]),
    ],
)
def test_the_wanted_builds_are_the_stages(wanted: str, expected: list[str]) -> None:
    assert names(suite_stages(wanted, [], COPY, "")) == expected


def test_each_build_gets_its_switch_and_the_arguments() -> None:
    pure, compiled = suite_stages("", ["-k", "word"], COPY, "")
    assert pure.command[-2:] == compiled.command[-2:] == ["-k", "word"]
    assert pure.environment is not None
    assert pure.environment["PENSTOCK_PURE"] == "1"
    assert compiled.environment == {"PENSTOCK_REQUIRE_COMPILED": "1", "PYTHONPATH": str(COPY)}


def test_spark_runs_once_and_apart_from_both_builds() -> None:
    pure, compiled, spark = suite_stages("", [], COPY, "")
    assert pure.command[-1] == compiled.command[-1] == "--ignore=tests/spark"
    assert spark.command[-1] == "tests/spark"
    assert spark.environment == {"PYTHONPATH": str(COPY)}


@pytest.mark.parametrize(
    ("wanted", "why_pure", "verdict"),
    [
        ("", "no C compiler on the PATH", "SKIPPED"),
        ("", "compilation failed, see the log", "FAILED"),
        ("both", "no C compiler on the PATH", "FAILED"),
        ("compiled", "PENSTOCK_PURE=1", "FAILED"),
    ],
)
def test_a_missing_compiled_build_is_skipped_only_where_it_cannot_be_had(
    wanted: str, why_pure: str, verdict: str
) -> None:
    stage = suite_stages(wanted, [], None, why_pure)[-2]
    assert run_stage(stage) == (f"{verdict}: no compiled build, {why_pure}", 0.0)


@pytest.mark.parametrize(("code", "verdict"), [(0, "passed"), (3, "FAILED (exit code 3)")])
def test_a_stage_fails_by_its_exit_code(code: int, verdict: str) -> None:
    stage = Stage("toy", [sys.executable, "-c", f"raise SystemExit({code})"])
    assert run_stage(stage)[0] == verdict
