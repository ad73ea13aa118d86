"""Operators' commands as processes against a real broker: what a script gets, what a person sees."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel as Channel

from penstock.cli.administering.tables import width_of
from tests.cli.operator_process import Operator
from tests.support.certificates import authority, signed_by
from tests.support.served import amqp_port, served_processes

LONG_NAME = "a-queue-with-a-name-that-is-longer-than-most-terminals-have-room-for-in-a-table"
COLOUR = re.compile(r"\033\[[0-9;]*[A-Za-z]")


@pytest.fixture(scope="module")
def facts() -> Iterator[dict[str, str]]:
    with served_processes() as served:
        yield served.ready("--host=127.0.0.1", "--http-port=0", "--memory")


@pytest.fixture
def operator(facts: dict[str, str], tmp_path: Path) -> Operator:
    return Operator(f"http://{facts['http']}", tmp_path)


@pytest.fixture
def channel(facts: dict[str, str]) -> Iterator[Channel]:
    parameters = pika.ConnectionParameters("127.0.0.1", amqp_port(facts))
    with pika.BlockingConnection(parameters) as connection:
        yield connection.channel()


def test_a_healthy_broker_is_healthy(operator: Operator) -> None:
    assert "healthy" in operator.done("status")
    answer = operator.json("status")
    assert isinstance(answer, dict)
    assert answer["healthy"] is True and answer["alarms"] == []


def test_queues_are_listed_with_their_messages(operator: Operator, channel: Channel) -> None:
    channel.queue_declare("listed")
    channel.confirm_delivery()
    channel.basic_publish("", "listed", b"one")
    text = operator.done("queues", "--name", "listed")
    assert text.splitlines()[0].split()[:3] == ["name", "ready", "unacked"]
    assert text.splitlines()[1].split()[:3] == ["listed", "1", "0"]
    [row] = operator.rows("queues", "--name", "listed")
    assert row["messages_ready"] == 1
    shown = operator.json("queues", "show", "listed")
    assert isinstance(shown, dict) and shown["name"] == "listed"


@pytest.mark.parametrize(
    "name",
    ["overview", "exchanges", "bindings", "connections", "channels", "consumers", "vhosts"],
)
def test_a_list_is_text_or_json(name: str, operator: Operator) -> None:
    assert operator.done(name)
    operator.json(name)


@pytest.mark.parametrize("name", ["streams", "cursors", "leases", "sinks"])
def test_streams_and_batches_are_listed(name: str, operator: Operator, channel: Channel) -> None:
    channel.queue_declare("events", durable=True, arguments={"x-queue-type": "stream"})
    rows = operator.rows(name)
    assert name != "streams" or [row["name"] for row in rows] == ["events"]


def test_messages_are_peeked_at_moved_and_explained(operator: Operator, channel: Channel) -> None:
    for queue in ("dead", "alive"):
        channel.queue_declare(queue)
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", "dead", b"body of it")
    assert operator.done("peek", "dead", "-n", "2").count("body of it") == 2
    assert "more: --offset" in operator.done("peek", "dead", "-n", "2")
    assert operator.done("move", "dead", "alive", "-n", "2").strip() == "2 messages moved"
    assert channel.queue_declare("alive", passive=True).method.message_count == 2
    explained = operator.done("explain", "", "alive")
    assert "enqueued" in explained and "queue alive" in explained


def test_arguments_of_a_queue_change_in_place(operator: Operator, channel: Channel) -> None:
    channel.queue_declare("changed")
    operator.done("queues", "set", "changed", "-a", "x-max-length=5")
    [row] = operator.rows("queues", "--name", "changed")
    assert row["arguments"] == {"x-max-length": 5}


def test_the_log_level_is_shown_and_set(operator: Operator) -> None:
    assert operator.json("log-level") == {"level": "info"}
    operator.done("log-level", "debug")
    assert operator.json("log-level") == {"level": "debug"}
    operator.done("log-level", "info")
    assert operator.run("log-level", "loud").returncode == 2


def test_exit_codes_say_what_went_wrong(operator: Operator, tmp_path: Path) -> None:
    missing = operator.run("queues", "show", "nonesuch")
    assert missing.returncode == 5 and "nonesuch" in missing.stderr
    stranger = operator.run("queues", "--user", "stranger")
    assert stranger.returncode == 4 and "PENSTOCK_PASSWORD" in stranger.stderr
    assert operator.run("queues", "--nonesuch").returncode == 2
    assert operator.run("queues", "--server", "ftp://x").returncode == 2
    refused = operator.run("peek", "nonesuch", "--selector", "((", "--json")
    assert refused.returncode in {1, 5} and '"exit_code"' in refused.stderr
    nobody = Operator("http://127.0.0.1:1", tmp_path).run("status")
    assert nobody.returncode == 3 and "penstock serve" in nobody.stderr


def test_a_profile_that_others_can_read_is_refused(operator: Operator, tmp_path: Path) -> None:
    folder = tmp_path / "penstock"
    folder.mkdir()
    (folder / "profile.toml").write_text("[a]\n", "utf-8")
    (folder / "profile.toml").chmod(0o644)
    result = operator.run("status")
    assert result.returncode == 2 and "chmod 600" in result.stderr


def test_the_amqp_port_is_told_from_the_http_port(facts: dict[str, str], tmp_path: Path) -> None:
    result = Operator(f"http://{facts['amqp']}", tmp_path).run("status")
    assert result.returncode == 3 and "HTTP port" in result.stderr


def test_over_https_with_the_authority(tmp_path: Path) -> None:
    ours = authority(tmp_path, "ours")
    own = signed_by(ours, tmp_path, "server")
    file = tmp_path / "penstock.toml"
    text = f'[http]\ntls_certificate = "{own.file}"\ntls_key = "{own.key}"\n'
    file.write_text(text, "utf-8")
    with served_processes() as served:
        facts = served.ready(f"--config={file}", "--host=127.0.0.1", "--http-port=0", "--memory")
        port = facts["http"].rpartition(":")[2]
        operator = Operator(f"https://localhost:{port}", tmp_path)
        assert "healthy" in operator.done("status", "--ca", str(ours.file))
        untrusted = operator.run("status")
        assert untrusted.returncode == 3 and "--ca FILE" in untrusted.stderr


def on_terminal(operator: Operator, columns: int, *words: str) -> str:
    """What a person sees on a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {key: operator.environment[key] for key in operator.environment}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
    )
    os.close(theirs)
    octets = b""
    try:
        while piece := os.read(ours, 65536):
            octets += piece
    except OSError:
        # The other end is closed.
        pass
    os.close(ours)
    assert process.wait() == 0
    return COLOUR.sub("", octets.decode()).replace("\r\n", "\n")


def test_a_table_fits_the_terminal(operator: Operator, channel: Channel) -> None:
    channel.queue_declare(LONG_NAME)
    lines = on_terminal(operator, 60, "queues").splitlines()
    *table, note = lines
    assert all(width_of(line) <= 60 for line in table)
    assert any("…" in line for line in table)
    assert note.startswith("(not shown")
    assert LONG_NAME in operator.done("queues"), "nothing is cut in a pipe"


def test_watch_repeats_until_it_is_interrupted(operator: Operator) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "vhosts", "--watch", "0.2"],
        stdout=subprocess.PIPE,
        env=operator.environment,
        text=True,
    )
    assert process.stdout is not None
    headings = 0
    while headings < 2:
        headings += process.stdout.readline().startswith("name")
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 0
