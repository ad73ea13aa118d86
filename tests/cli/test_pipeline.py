"""`penstock pipeline` as its user sees it."""

from __future__ import annotations

import io
import socket
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from bench.synthetic_ledger import Traffic, write_server
from penstock.cli.pipeline import app
from penstock.cli.pipeline_audit import FAILURES, tables
from penstock.cli.pipeline_session import check_master, need_spark, told_by_spark
from penstock.spark.jobs import verdict

SECONDS_MAX = 300


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2
    return " ".join(result.output.split())


def test_every_job_explains_itself() -> None:
    for job in ("audit", "flow", "capacity", "archive", "replay", "rehearse"):
        result = CliRunner().invoke(app, [job, "--help"])
        assert result.exit_code == 0
        assert "--master" in result.output


def test_a_directory_without_a_ledger_is_named_before_spark_starts(tmp_path: Path) -> None:
    for job in ("audit", "flow"):
        said = refused(job, str(tmp_path))
        assert "contains no ledger" in said
        assert "--ledger" in said


def test_a_plot_that_cannot_be_drawn_is_refused_before_spark_starts(tmp_path: Path) -> None:
    said = refused("capacity", "--plot", str(tmp_path / "plot.gif"))
    assert ".png or an .html" in said
    assert "directory does not exist" in refused(
        "capacity", "--plot", str(tmp_path / "no" / "p.png")
    )


def test_a_master_that_is_none_is_refused_before_java_starts(tmp_path: Path) -> None:
    write_server(tmp_path / "a", Traffic(messages=10))
    for job in (("audit", str(tmp_path / "a")), ("capacity",)):
        said = refused(*job, "--master", "my-cluster:7077")
        assert "--master my-cluster:7077 is not a valid Spark master" in said
        assert "spark://HOST:7077" in said


def test_a_spark_that_does_not_answer_is_told_within_seconds() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        # One of several that listens is enough.
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    said = refused("capacity", "--master", f"spark://127.0.0.1:{port}")
    assert f"--master spark://127.0.0.1:{port}: cannot connect" in said


def test_a_replay_to_a_broker_that_does_not_answer_is_refused_before_spark_starts(
    tmp_path: Path,
) -> None:
    said = refused("replay", str(tmp_path), "--uri", "amqp://127.0.0.1:1")
    assert "The broker cannot be reached over AMQP" in said
    assert "127.0.0.1:1" in said


def test_a_folder_with_something_in_it_is_no_place_for_a_rehearsal(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("dear")
    assert "is not empty" in refused("rehearse", "--folder", str(tmp_path))
    assert (tmp_path / "mine").read_text() == "dear"


def test_figures_of_an_audit_are_whole_whatever_the_width_of_the_terminal() -> None:
    rows = [([name, *["1,234,567,890"] * 11], 0) for name in ("a", "b", "c", "d")]
    for width, lines in ((80, 2 * 11), (200, 4)):
        console = Console(width=width, record=True, file=io.StringIO())
        for table in tables(rows, width):
            console.print(table)
        text = console.export_text()
        assert text.count("1,234,567,890") == 4 * 11
        assert len([line for line in text.splitlines() if "1,234,567,890" in line]) == lines


def test_an_unknown_failure_is_refused_and_all_are_known(tmp_path: Path) -> None:
    said = refused("audit", str(tmp_path), "--fail-on", "lost,forgotten")
    assert "'forgotten' is not valid" in said
    assert FAILURES == verdict.FAILURES


def test_a_missing_package_is_named_with_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        need_spark(("json", "no_such_package"))
    assert ended.value.exit_code == 2
    said = capsys.readouterr().err
    assert "missing packages: no_such_package" in said
    assert "pip install 'penstock[spark]'" in said


def test_of_what_spark_says_only_our_sentence_is_shown() -> None:
    text = "An error\n  at x\npenstock.spark.errors.BrokerUnreachable: nobody answers\n"
    assert told_by_spark(text) == "nobody answers"
    assert told_by_spark("one\ntwo") == "one\ntwo"
