"""`penstock cluster` on the command line."""

from __future__ import annotations

import hashlib
import os
import shlex
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.client import blocking
from penstock.client.calls import declare_queue
from penstock.client.errors import ClientError
from tests.support.cluster_processes import (
    KEY,
    ClusterProcesses,
    cluster_processes,
    eventually,
    penstock,
)
from tests.support.served import END_SECONDS, served_processes


def test_format_copies_the_key_and_prints_its_digest(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path)
    done = cluster.format("b")
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256(KEY.strip()).hexdigest() in done.stdout
    copied = cluster["b"].data / "cluster" / "key"
    assert stat.S_IMODE(copied.stat().st_mode) == 0o600
    again = cluster.format("b")
    assert again.returncode == 2
    assert "is the data directory of a cluster member already" in again.stderr


@pytest.mark.parametrize(("names", "is_warned"), [("ab", True), ("abc", False)])
def test_format_warns_of_a_cluster_that_does_not_survive_a_loss(
    names: str, is_warned: bool, tmp_path: Path
) -> None:
    done = ClusterProcesses(tmp_path, names).format("a")
    assert done.returncode == 0
    assert ("stops when one of them is lost" in done.stderr) == is_warned


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--name", "z", "--member", "a=127.0.0.1:1"], "'z' is not among the members"),
        (["--name", "a"], "at least one member"),
        (["--name", "a", "--member", "a"], "is not a valid member"),
        (["--name", "a", "--member", "a=127.0.0.1"], "is not a valid address"),
        (["--name", "a", "--member", "a=http://h:1"], "use amqps:// for TLS, or no scheme"),
        (["--name", "a", "--member", "a=h:1", "--member", "b=h:1"], "have the same address"),
        (["--name", "a", "--member", "a=h:1", "--member", "a=h:2"], "two members are named 'a'"),
        (["--name", "a", "--member", "a=h:1", "--cluster-id", "12"], "is not a valid cluster id"),
    ],
)
def test_format_refuses_members_that_are_not_valid(
    words: list[str], reason: str, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_bytes(KEY)
    data = tmp_path / "data"
    done = penstock("cluster", "format", "--data", str(data), "--key-file", str(key), *words)
    assert (done.returncode, reason in done.stderr) == (2, True), done.stderr
    assert not data.exists()


def test_a_member_listens_on_its_address_and_nowhere_else(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path, "a")
    assert cluster.format("a").returncode == 0
    with served_processes() as served:
        for option in ("--port=1", "--host=127.0.0.2"):
            code, errors = served.refused("--data", str(cluster["a"].data), option)
            assert code == 2
            assert cluster.address("a") in errors


def test_a_data_directory_of_a_single_server_cannot_be_formatted(tmp_path: Path) -> None:
    cluster = ClusterProcesses(tmp_path, "a")
    with served_processes() as served:
        served.ready("--data", str(cluster["a"].data), "--no-http")
        served.latest.send_signal(signal.SIGTERM)
        served.latest.communicate(timeout=END_SECONDS)
    done = cluster.format("a")
    assert (done.returncode, "is not empty" in done.stderr) == (2, True), done.stderr


def test_status_is_shown_for_people_and_for_programs(tmp_path: Path) -> None:
    with cluster_processes(tmp_path, "a") as cluster:
        root = cluster.root()
        shown = penstock("cluster", "status", "--server", root.http)
        assert shown.returncode == 0, shown.stderr
        assert "active" in shown.stdout
        assert cluster.address("a") in shown.stdout
        replication = penstock("ha", "status", "--server", root.http)
        assert replication.returncode == 0, replication.stderr
        assert "primary" in replication.stdout
        assert "became the root of epoch" in replication.stdout
        assert penstock("ha", "queues", "--server", root.http).returncode == 0
        with served_processes() as served:
            facts = served.ready("--memory")
            alone = penstock("cluster", "status", "--server", f"http://{facts['http']}", "--json")
            assert alone.returncode == 5
            assert "is not a member of a cluster" in alone.stderr


def test_up_runs_a_whole_cluster_until_it_is_interrupted(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "penstock", "cluster", "up", "--data", str(tmp_path / "up")]
    for _ in range(2):
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(6)]
            uri = next(line.split()[1] for line in lines if line.startswith("clients: "))
            pids = [int(line.split("pid=")[1].split()[0]) for line in lines[:3]]
            blocking.connect(uri).close()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=END_SECONDS)
            assert process.returncode == 0
        for pid in pids:
            eventually("the server has ended", lambda: not _is_there(pid))  # noqa: B023
    other = subprocess.run([*words, "--servers", "5"], capture_output=True, text=True, check=False)
    assert other.returncode == 1
    assert "holds a cluster of 3 servers" in other.stdout


def test_up_with_ledgers_says_how_they_are_audited_and_what_ends_with_it() -> None:
    words = [sys.executable, "-m", "penstock", "cluster", "up", "--ledger"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(7)]
        (audit,) = [line for line in lines if line.startswith("audit: ")]
        folders = [Path(word) for word in shlex.split(audit)[4:]]
        assert [folder.name for folder in folders] == ["a", "b", "c"]
        assert all(list((folder / "ledger").iterdir()) for folder in folders)
        assert f"removes {folders[0].parent}" in lines[-1]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=END_SECONDS)
    assert not folders[0].parent.exists()


CHAOS = """
import sys
from penstock.cli.cluster_up import Chaos, ClusterUp
chaos = Chaos(between_seconds=(0.2, 1), away_seconds=(0.1, 1))
sys.exit(ClusterUp(3, None, chaos, lambda line: print(line, flush=True)).run())
"""


def test_chaos_kills_and_restarts_servers_while_clients_are_served() -> None:
    command = [sys.executable, "-c", CHAOS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(6)]
            uri = next(line.split()[1] for line in lines if line.startswith("clients: "))
            for word in ("killing", "restarted", "killing", "restarted"):
                line = process.stdout.readline()
                assert f" {word} " in line, line
                eventually("a client is served", lambda: _is_served(uri))
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=END_SECONDS)
        assert process.returncode == 0


def _is_served(uri: str) -> bool:
    """Whether a durable queue is declared, which needs the root and one of the others."""
    try:
        with blocking.connect(uri) as connection, connection.channel() as channel:
            channel.call(declare_queue("q", durable=True))
    except ClientError:
        return False
    return True


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
