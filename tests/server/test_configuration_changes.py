"""SIGHUP: the file is read again; what took effect and what did not stands in the log."""

import signal
from pathlib import Path

import pika

from tests.server.raw_client import wait_for
from tests.support.served import amqp_port, launch, ready_facts


def proposed_heartbeat(port: int) -> int:
    """What the broker proposes to a new connection."""
    found: list[int] = []

    def decide(connection: object, proposed: int) -> int:
        found.append(proposed)
        return proposed

    parameters = pika.ConnectionParameters("127.0.0.1", port, heartbeat=decide)
    with pika.BlockingConnection(parameters):
        pass
    return found[0]


def test_sighup_changes_what_can_change_and_names_the_rest(tmp_path: Path) -> None:
    file, log = tmp_path / "penstock.toml", tmp_path / "log"
    file.write_text("[limits]\nheartbeat_seconds = 30\n", "utf-8")
    with log.open("w") as errors:
        process = launch(
            f"--config={file}",
            "--port=0",
            "--host=127.0.0.1",
            "--memory",
            "--no-http",
            errors=errors,
            environment={"PENSTOCK_LIMITS_CHANNELS_PER_CONNECTION": "17"},
        )
    try:
        port = amqp_port(ready_facts(process))
        kept = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        assert proposed_heartbeat(port) == 30
        file.write_text(
            "[limits]\nheartbeat_seconds = 20\nconnections = 9\n[log]\nformat = 'json'\n"
            "[amqp10]\ncreate_queues = false\n[listen]\nport = 1\n",
            "utf-8",
        )
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: "configuration changes that need a restart" in log.read_text())
        wait_for(lambda: '"event": "reloaded"' in log.read_text())
        text = log.read_text()
        assert "limits.heartbeat_seconds" in text and "log.format" in text
        assert "amqp10.create_queues" in text
        # An option says so.
        assert "listen.port" not in text
        assert proposed_heartbeat(port) == 20
        file.write_text("[limits]\nheartbeat_seconds = 'often'\nnonesuch = 1\n", "utf-8")
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: "cannot reload the configuration" in log.read_text())
        assert "limits.nonesuch" in log.read_text()
        assert proposed_heartbeat(port) == 20
        assert kept.is_open
        kept.close()
    finally:
        process.kill()
        process.communicate()
