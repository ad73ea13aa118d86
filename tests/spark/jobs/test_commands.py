"""The jobs of `penstock pipeline` as commands: real processes, a real Spark, a real broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bench.synthetic_ledger import Fault, Traffic, write_server
from penstock.client import blocking
from penstock.client.calls import declare_queue
from penstock.formats import ledger_records as records

SECONDS_MAX = 300


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


def wait_for_routes(data: Path, count: int) -> None:
    """Counts of routes follow once a second; a broker that is killed takes the last ones along."""
    ends = time.monotonic() + SECONDS_MAX
    while routed(data) != count:
        assert time.monotonic() < ends, (routed(data), count)
        time.sleep(0.05)


def routed(data: Path) -> int:
    found = 0
    for path in (data / "ledger").glob("*.led"):
        octets = path.read_bytes()
        at = records.RECORD_SIZE
        while at + records.RECORD_SIZE <= len(octets):
            _, event, _, _, _, _, count, _ = records.RECORD.unpack_from(octets, at)
            at += records.RECORD_SIZE
            if event == records.NAME:
                at += count + -count % records.RECORD_SIZE
            elif event == records.ROUTED:
                found += count
    return found


@pytest.mark.slow
@pytest.mark.timeout(2 * SECONDS_MAX)
def test_ledgers_of_a_broker_that_was_killed_and_of_its_clients_agree(tmp_path: Path) -> None:
    server = Server(tmp_path / "server")
    clients = ("--ledger", str(tmp_path / "clients"))
    durable = ("--mode", "durable", "--queue", "orders", *clients)
    try:
        load(server, *durable, "--messages", "3000")
        load(server, *durable, "--messages", "700", "--consumers", "0")
        wait_for_routes(tmp_path / "server", 3700)
        server.kill()
        server.start()
        load(server, "--messages", "500", *clients)
        wait_for_routes(tmp_path / "server", 4200)
        live = followed(tmp_path / "server")
    finally:
        server.kill()
    code, out, errors = pipeline(
        "audit", str(tmp_path / "server"), str(tmp_path / "clients"), "--json"
    )
    assert code == 0, errors
    assert errors == ""
    found: dict[str, Any] = json.loads(out)
    (orders,) = [queue for queue in found["queues"] if queue["queue"] == "orders"]
    assert (orders["enqueued"], orders["confirmed"], orders["received"]) == (3700, 3700, 3000)
    assert (orders["missing_confirmed"], orders["still_queued"], orders["lost"]) == (700, 700, 0)
    # Each by its name, not by their number.
    assert (orders["explained_identified"], orders["lost_identified"]) == (700, 0)
    (other,) = [queue for queue in found["queues"] if queue["queue"] != "orders"]
    assert (other["confirmed"], other["received"], other["acknowledged"]) == (500, 500, 500)
    assert found["restarts"] == {"server": 1, "clients": 0} or found["restarts"] == {"server": 1}
    totals = found["totals"]
    assert [totals[name] for name in ("lost", "duplicated_unflagged", "phantom")] == [0, 0, 0]
    # However long ago they came.
    assert {q["queue"]: q["lag"] for q in live["queues"]}["orders"] == 700
    code, out, errors = pipeline("flow", str(tmp_path / "server"), "--json")
    assert code == 0, errors
    flow = json.loads(out)
    assert {q["queue"]: q["lag"] for q in flow["queues"]}["orders"] == 700
    (exchange,) = flow["exchanges"]
    assert (exchange["exchange"], exchange["published"]) == ("", 4200)
    topics = {topic["key"]: topic["published"] for topic in flow["hot_topics"]}
    assert topics.pop("orders") == 3700
    assert list(topics.values()) == [500]


def followed(data: Path) -> dict[str, Any]:
    """One look of `flow --follow`, and Ctrl-C."""
    command = ("pipeline", "flow", str(data), "--follow", "--every", "0.5", "--json")
    with subprocess.Popen(
        [sys.executable, "-m", "penstock", *command], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        found: dict[str, Any] = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 0
    return found


@pytest.mark.slow
@pytest.mark.timeout(2 * SECONDS_MAX)
def test_a_rehearsal_is_archived_and_replayed_by_commands(tmp_path: Path) -> None:
    """From end to end; then its archive once more, into a queue of another broker."""
    work = tmp_path / "work"
    code, out, errors = pipeline("rehearse", "--messages", "3000", "--folder", str(work), "--json")
    assert code == 0, errors
    found = json.loads(out)
    names = ("confirmed", "archived", "archived_distinct", "enqueued")
    assert [found[name] for name in names] == [3000] * len(names)
    assert found["is_fine"]
    server = Server(tmp_path / "server")
    try:
        load(server, "--mode", "durable", "--queue", "again", "--messages", "1")
        replay = ("replay", str(work / "archive"), "--uri", server.uri)
        code, out, errors = pipeline(
            *replay, "--exchange", "amq.default", "--routing-key", "again", "--json"
        )
        assert code == 0, errors
        assert json.loads(out) == {"messages": 3000, "published": True}
        with blocking.connect(server.uri) as connection:
            declared = connection.channel().call(declare_queue("again", passive=True))
            assert declared.message_count == 3000
    finally:
        server.kill()
    code, _, errors = pipeline("replay", str(tmp_path / "nowhere"), "--dry-run")
    assert code == 2
    assert "is not an archive" in " ".join(errors.split())
    assert "Traceback" not in errors


@pytest.mark.timeout(SECONDS_MAX)
def test_a_rehearsal_that_is_told_to_end_leaves_nothing_behind(tmp_path: Path) -> None:
    command = ("pipeline", "rehearse", "--messages", "1000000000", "--folder", str(tmp_path / "w"))
    with subprocess.Popen(
        [sys.executable, "-m", "penstock", *command], stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("publishing"):
                break
        begun = children_of(process.pid)
        assert begun
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
    assert process.returncode == 128 + signal.SIGTERM
    # What tracks the resources of its processes ends by itself, a moment later.
    ends = time.monotonic() + SECONDS_MAX
    while [pid for pid in begun if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < ends, begun
        time.sleep(0.05)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
@pytest.mark.timeout(SECONDS_MAX)
def test_an_archive_of_a_broker_that_is_not_there_is_refused(tmp_path: Path) -> None:
    code, _, errors = pipeline(
        "archive", str(tmp_path / "lake"), "--stream", "s", "--uri", "http://127.0.0.1:1/"
    )
    assert code == 2
    assert "127.0.0.1:1" in errors
    assert "Traceback" not in errors


@pytest.mark.slow
@pytest.mark.timeout(SECONDS_MAX)
def test_capacity_is_computed_and_drawn(tmp_path: Path) -> None:
    plot = tmp_path / "capacity.png"
    code, out, errors = pipeline("capacity", "--plot", str(plot))
    assert code == 0, errors
    assert "1,440,000 /s" in out
    assert "…" not in out
    assert plot.read_bytes().startswith(b"\x89PNG")
