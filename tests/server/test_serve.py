"""`penstock serve` as a process: how it starts, what it says, how it ends."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.server.opened import pika_connection


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def serve(started: list[subprocess.Popen[str]], *options: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "serve", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
    )
    started.append(process)
    return process


def ready_port(process: subprocess.Popen[str]) -> int:
    """From the line that tells that it serves."""
    assert process.stdout is not None
    line = process.stdout.readline()
    words = line.split()
    assert words[:2] == ["penstock", "ready"], (line, process.poll())
    facts = dict(word.split("=") for word in words[2:])
    assert set(facts) == {"amqp", "http", "pid"}
    assert int(facts["pid"]) == process.pid
    host, _, port = facts["amqp"].rpartition(":")
    assert host == "127.0.0.1"
    return int(port)


def test_it_says_one_line_when_it_is_ready_and_serves(
    started: list[subprocess.Popen[str]],
) -> None:
    port = ready_port(serve(started, "--port", "0"))
    connection = pika_connection(f"amqp://127.0.0.1:{port}")
    connection.channel().queue_declare("q")
    connection.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_after_telling_its_clients(
    started: list[subprocess.Popen[str]], number: signal.Signals
) -> None:
    process = serve(started, "--port", "0")
    port = ready_port(process)
    connection = pika_connection(f"amqp://127.0.0.1:{port}")
    process.send_signal(number)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="shutdown") as error:
        connection.process_data_events(5)
    assert error.value.reply_code == 320
    assert process.wait(10) == 0


def test_a_client_that_does_not_answer_cannot_stop_the_stop(
    started: list[subprocess.Popen[str]],
) -> None:
    process = serve(started, "--port", "0")
    silent = socket.create_connection(("127.0.0.1", ready_port(process)))
    process.terminate()
    assert process.wait(15) == 0
    silent.close()


def test_a_taken_port_is_said_clearly(started: list[subprocess.Popen[str]]) -> None:
    port = ready_port(serve(started, "--port", "0"))
    second = serve(started, "--port", str(port))
    _, errors = second.communicate(timeout=20)
    assert second.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in errors
    assert "--port 0" in errors
    assert "Traceback" not in errors


def test_a_configuration_file_sets_what_options_do_not(
    started: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[listen]\nport = 0\n[limits]\nframe_bytes = 8192\nheartbeat_seconds = 7\n")
    port = ready_port(serve(started, "--config", str(file)))
    parameters = pika.ConnectionParameters("127.0.0.1", port, heartbeat=None)
    connection = pika.BlockingConnection(parameters)
    assert connection._impl.params.frame_max == 8192
    assert connection._impl.params.heartbeat == 7
    connection.close()


def test_every_mistake_of_a_configuration_file_is_named(
    started: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[listen]\nport = "http"\n[limits]\nconections = 3\n')
    process = serve(started, "--config", str(file))
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 2
    assert "listen.port: Input should be a valid integer" in errors
    assert "limits.conections: no such key" in errors


def test_a_missing_configuration_file_is_said_clearly(
    started: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = serve(started, "--config", str(tmp_path / "nowhere.toml"))
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 2
    assert "cannot read the configuration file" in errors
