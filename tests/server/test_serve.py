"""`penstock serve` as a process: how it starts, what it says, how it ends."""

import signal
import socket
from pathlib import Path

import pika
import pika.exceptions
import pytest

from tests.server.opened import pika_connection
from tests.server.tls_client import opened
from tests.support.identities import Identities
from tests.support.served import END_SECONDS, Served, amqp_port, launch, ready_facts


def test_it_says_one_line_when_it_is_ready_and_serves(served: Served) -> None:
    facts = served.ready()
    assert list(facts)[:3] == ["amqp", "http", "pid"]
    assert set(facts) <= {"amqp", "http", "pid", "amqp_also", "http_also"}
    host, _, port = facts["amqp"].rpartition(":")
    assert host == "127.0.0.1"
    connection = pika_connection(f"amqp://127.0.0.1:{port}")
    connection.channel().queue_declare("q")
    connection.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_after_telling_its_clients(served: Served, number: signal.Signals) -> None:
    connection = pika_connection(f"amqp://127.0.0.1:{served.port()}")
    served.latest.send_signal(number)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="shutdown") as error:
        connection.process_data_events(5)
    assert error.value.reply_code == 320
    assert served.latest.wait(10) == 0


def test_a_client_that_does_not_answer_cannot_stop_the_stop(served: Served) -> None:
    silent = socket.create_connection(("127.0.0.1", served.port()))
    served.latest.terminate()
    assert served.latest.wait(15) == 0
    silent.close()


def test_a_taken_port_is_said_clearly(served: Served) -> None:
    port = served.port()
    code, errors = served.refused("--port", str(port))
    assert code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in errors
    assert "--port 0" in errors


def test_a_user_without_a_home_has_to_name_the_data_directory(tmp_path: Path) -> None:
    homeless = {"XDG_STATE_HOME": "~no-such-user/state"}
    process = launch("--port=5672", environment=homeless)
    _, errors = process.communicate(timeout=END_SECONDS)
    assert process.returncode == 2
    assert "Name one with --data DIR" in errors
    named = launch("--port=0", f"--data={tmp_path / 'data'}", environment=homeless)
    ready_facts(named)
    named.terminate()
    named.communicate(timeout=END_SECONDS)
    assert named.returncode == 0


def test_a_configuration_file_sets_what_options_do_not(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[listen]\nport = 0\n[limits]\nframe_bytes = 8192\nheartbeat_seconds = 7\n")
    port = amqp_port(ready_facts(served.launch("--config", str(file))))
    parameters = pika.ConnectionParameters("127.0.0.1", port, heartbeat=None)
    connection = pika.BlockingConnection(parameters)
    assert connection._impl.params.frame_max == 8192
    assert connection._impl.params.heartbeat == 7
    connection.close()


def test_every_mistake_of_a_configuration_file_is_named(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[listen]\nport = "http"\n[limits]\nconections = 3\n')
    code, errors = served.refused("--config", str(file))
    assert code == 2
    assert "listen.port: Input should be a valid integer" in errors
    assert "limits.conections: unknown key" in errors


def test_a_missing_configuration_file_is_said_clearly(served: Served, tmp_path: Path) -> None:
    code, errors = served.refused("--config", str(tmp_path / "nowhere.toml"))
    assert code == 2
    assert "cannot read the configuration file" in errors


def test_tls_can_be_beside_the_plain_port_or_instead_of_it(
    served: Served, identities: Identities
) -> None:
    server = identities.server
    files = ("--tls-cert", str(server.file), "--tls-key", str(server.key), "--tls-port=0")
    both = served.ready(*files)
    assert list(both)[:3] == ["amqp", "amqps", "http"]
    alone = served.ready(*files, "--no-plain")
    assert "amqp" not in alone
    for facts in (both, alone):
        opened(identities.context(), int(facts["amqps"].rpartition(":")[2])).socket.close()


def test_the_file_and_the_options_of_tls_are_put_together(
    served: Served, identities: Identities, tmp_path: Path
) -> None:
    file = tmp_path / "penstock.toml"
    server = identities.server
    file.write_text(
        f'[listen]\nplain = false\n[tls]\nport = 0\ncertificate = "{identities.client.file}"\n'
        f'key = "{identities.client.key}"\n'
    )
    override = ("--tls-cert", str(server.file), "--tls-key", str(server.key))
    facts = served.ready(
        "--config", str(file), *override, "--tls-client-ca", str(identities.ours.file)
    )
    port = int(facts["amqps"].rpartition(":")[2])
    opened(identities.context(identities.client), port).socket.close()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--no-plain"], "Name the certificate with --tls-cert FILE"),
        (["--tls-port=0"], "--tls-port needs --tls-cert FILE"),
        (["--tls-key=nowhere.pem"], "needs tls.certificate"),
        (["--tls-client-ca=nowhere.pem"], "needs tls.certificate"),
        (["--tls-cert=nowhere.pem"], "cannot use the certificate nowhere.pem for AMQP"),
    ],
)
def test_tls_that_cannot_be_had_is_said(served: Served, options: list[str], told: str) -> None:
    code, errors = served.refused("--port=0", *options)
    assert code == 2
    assert told in " ".join(errors.replace("│", " ").split())


def test_a_taken_tls_port_is_said_with_what_to_do(served: Served, identities: Identities) -> None:
    server = identities.server
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        files = ("--tls-cert", str(server.file), "--tls-key", str(server.key))
        code, errors = served.refused("--port=0", *files, "--tls-port", str(port))
    assert code == 1
    assert f"cannot listen on 127.0.0.1:{port} for TLS" in errors
    assert "--tls-port N" in errors
