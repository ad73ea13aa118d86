"""`penstock pipeline` as its user sees it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli.pipeline import app
from penstock.cli.pipeline_audit import FAILURES
from penstock.cli.pipeline_session import need_spark, told_by_spark
from penstock.spark.jobs import verdict
from penstock.spark.jobs.synthetic import Fault, Traffic, write_server

SECONDS_MAX = 300


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2
    return " ".join(result.output.split())


def pipeline(*arguments: str) -> tuple[int, str, str]:
    """In a process of its own, since a job ends its Spark session."""
    result = subprocess.run(
        [sys.executable, "-m", "penstock", "pipeline", *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return result.returncode, result.stdout, result.stderr


def test_every_job_explains_itself() -> None:
    for job in ("audit", "flow", "capacity", "archive", "replay"):
        result = CliRunner().invoke(app, [job, "--help"])
        assert result.exit_code == 0
        assert "--master" in result.output


def test_a_directory_without_a_ledger_is_named_before_spark_starts(tmp_path: Path) -> None:
    for job in ("audit", "flow"):
        said = refused(job, str(tmp_path))
        assert "holds no ledger" in said
        assert "--ledger" in said


def test_a_plot_that_cannot_be_drawn_is_refused_before_spark_starts(tmp_path: Path) -> None:
    said = refused("capacity", "--plot", str(tmp_path / "plot.gif"))
    assert ".png or .html" in said
    assert "no such directory" in refused("capacity", "--plot", str(tmp_path / "no" / "p.png"))


def test_an_unknown_failure_is_refused_and_all_are_known(tmp_path: Path) -> None:
    said = refused("audit", str(tmp_path), "--fail-on", "lost,forgotten")
    assert "there is no 'forgotten'" in said
    assert FAILURES == verdict.FAILURES


def test_a_missing_package_is_named_with_the_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        need_spark(("json", "no_such_package"))
    assert ended.value.exit_code == 2
    said = capsys.readouterr().err
    assert "no_such_package is not installed" in said
    assert "pip install 'penstock[spark]'" in said


def test_of_what_spark_says_only_our_sentence_is_shown() -> None:
    text = "An error\n  at x\npenstock.spark.errors.BrokerUnreachable: nobody answers\n"
    assert told_by_spark(text) == "nobody answers"
    assert told_by_spark("one\ntwo") == "one\ntwo"


@pytest.mark.slow
@pytest.mark.timeout(SECONDS_MAX)
def test_an_audit_fails_on_what_it_was_told_to_and_draws(tmp_path: Path) -> None:
    faults = {(0, 40): Fault.GIVEN_BACK}
    write_server(
        tmp_path / "a", Traffic(messages=1000, left=10, lost=frozenset({995}), faults=faults)
    )
    plot = tmp_path / "audit.html"
    code, out, errors = pipeline(
        "audit", str(tmp_path / "a"), "--fail-on", "lost,unflagged", "--plot", str(plot)
    )
    assert code == 1, errors
    assert "missing after restart: a: q0: position 995" in out
    assert "Found: 1 lost." in out
    assert "data:image/png;base64," in plot.read_text(encoding="utf-8")


class Server:
    """A broker with a ledger, as a process that can be killed."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._port = "0"
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "penstock", "serve", "--no-http", "--ledger"),
                *("--port", self._port, "--data", str(self._data)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("penstock ready"), line
        self._port = line.split("amqp=")[1].split()[0].rpartition(":")[2]

    @property
    def uri(self) -> str:
        return f"amqp://127.0.0.1:{self._port}"

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def load(server: Server, *arguments: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "penstock", "load", "--uri", server.uri, "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
@pytest.mark.timeout(2 * SECONDS_MAX)
def test_ledgers_of_a_broker_that_was_killed_and_of_its_clients_agree(tmp_path: Path) -> None:
    server = Server(tmp_path / "server")
    clients = ("--ledger", str(tmp_path / "clients"))
    durable = ("--mode", "durable", "--queue", "orders", *clients)
    try:
        load(server, *durable, "--messages", "3000")
        load(server, *durable, "--messages", "700", "--consumers", "0")
        server.kill()
        server.start()
        load(server, "--messages", "500", *clients)
    finally:
        server.kill()
    code, out, errors = pipeline(
        "audit", str(tmp_path / "server"), str(tmp_path / "clients"), "--json"
    )
    assert code == 0, errors
    found: dict[str, Any] = json.loads(out)
    (orders,) = [queue for queue in found["queues"] if queue["queue"] == "orders"]
    assert (orders["enqueued"], orders["confirmed"], orders["received"]) == (3700, 3700, 3000)
    assert (orders["missing_confirmed"], orders["still_queued"], orders["lost"]) == (700, 700, 0)
    (other,) = [queue for queue in found["queues"] if queue["queue"] != "orders"]
    assert (other["confirmed"], other["received"], other["acknowledged"]) == (500, 500, 500)
    assert found["restarts"] == {"server": 1, "clients": 0} or found["restarts"] == {"server": 1}
    totals = found["totals"]
    assert [totals[name] for name in ("lost", "duplicated_unflagged", "phantom")] == [0, 0, 0]
    code, out, errors = pipeline("flow", str(tmp_path / "server"), "--json")
    assert code == 0, errors
    assert {q["queue"]: q["lag"] for q in json.loads(out)["queues"]}["orders"] == 700
