"""`penstock ha replicate` between processes that are killed: a source over TLS, and replicas that come with
definitions.
"""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pika
import pytest

from penstock.cli.local_servers import free_ports
from tests.server.raw_client import wait_for
from tests.support.cluster_processes import penstock
from tests.support.identities import Identities
from tests.support.served import launch, ready_facts

PASSWORD = "p@ss/w:rd"
PERSISTENT = pika.BasicProperties(delivery_mode=2)


class LastingServer:
    """A process that is killed and started again at the same ports. Ended by `make`."""

    def __init__(self, data: Path, options: tuple[str, ...]) -> None:
        self.data = data
        self.port, self._http_port = free_ports(2)
        self._options = options
        self._process: subprocess.Popen[str] | None = None

    @property
    def uri(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def start(self) -> None:
        ports = (f"--port={self.port}", f"--http-port={self._http_port}")
        process = launch(*ports, f"--data={self.data}", *self._options, errors=subprocess.DEVNULL)
        self._process = process
        ready_facts(process)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def command(self, *words: str) -> str:
        done = penstock(*words, "--server", f"http://127.0.0.1:{self._http_port}")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def await_replica(self, count: int) -> dict[str, object]:
        """Until its only replica has so many messages."""
        found: list[dict[str, object]] = []

        def is_equal() -> bool:
            found[:] = json.loads(self.command("ha", "replicas", "--json"))
            (row,) = found
            return (row["state"], row["messages"]) == ("following", count)

        wait_for(is_equal)
        return found[0]

    def taken(self) -> list[tuple[bytes, bool]]:
        """All messages of the queue, and whether they were flagged."""
        with pika.BlockingConnection(pika.URLParameters(self.uri)) as connection:
            channel = connection.channel()
            found: list[tuple[bytes, bool]] = []
            while True:
                method, _, body = channel.basic_get("jobs", auto_ack=True)
                if method is None:
                    return found
                found.append((body, method.redelivered))


Make = Callable[..., LastingServer]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    servers: list[LastingServer] = []

    def started(name: str, *options: str) -> LastingServer:
        server = LastingServer(tmp_path / name, options)
        servers.append(server)
        server.start()
        return server

    yield started
    for server in servers:
        server.kill()


def publish(parameters: pika.ConnectionParameters | pika.URLParameters, *bodies: bytes) -> None:
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("jobs", durable=True)
        channel.confirm_delivery()
        for body in bodies:
            channel.basic_publish("", "jobs", body, PERSISTENT)


def secure(identities: Identities, port: int) -> pika.ConnectionParameters:
    """Of somebody who publishes at the source, with a certificate."""
    context = ssl.create_default_context(cafile=identities.ours.file)
    context.load_cert_chain(identities.client.file, identities.client.key)
    return pika.ConnectionParameters(
        "127.0.0.1", port, ssl_options=pika.SSLOptions(context, "127.0.0.1")
    )


def test_the_command_follows_a_source_over_tls_through_kills_of_both(
    identities: Identities, make: Make, tmp_path: Path
) -> None:
    (tls_port,) = free_ports(1)
    source = make(
        "source",
        *(f"--tls-port={tls_port}", f"--tls-cert={identities.server.file}"),
        *(f"--tls-key={identities.server.key}", f"--tls-client-ca={identities.ours.file}"),
    )
    password = tmp_path / "password"
    password.write_text(f"{PASSWORD}\n")
    source.command("users", "add", "reader", "--password-file", str(password))
    source.command("permissions", "set", "reader", "^$", "^$", "jobs", "--vhost", "/")
    publish(secure(identities, tls_port), b"1", b"2")
    target = make("target")
    files = {
        "cacertfile": identities.ours.file,
        "certfile": identities.client.file,
        "keyfile": identities.client.key,
    }
    query = "&".join(f"{name}={quote(str(file))}" for name, file in files.items())
    uri = f"amqps://reader@127.0.0.1:{tls_port}/?{query}"
    replicate = ("ha", "replicate", "jobs", "--from", uri, "--password-file", str(password))
    target.command(*replicate)
    row = target.await_replica(2)
    assert str(row["source"]).startswith(f"queue 'jobs' at amqps://127.0.0.1:{tls_port}/")
    assert PASSWORD not in str(row)
    source.kill()
    source.start()
    publish(secure(identities, tls_port), b"3")
    target.await_replica(3)
    target.kill()
    publish(secure(identities, tls_port), b"4")
    target.start()
    # What it had is not fetched again.
    assert target.await_replica(4)["fetched_messages"] == 1
    assert "is released" in target.command("ha", "stop", "jobs")
    assert target.taken() == [(b"%d" % number, True) for number in range(1, 5)]


def test_a_replica_of_an_imported_file_follows_its_source_and_can_be_exported(
    make: Make, tmp_path: Path
) -> None:
    source = make("source")
    publish(pika.URLParameters(source.uri), b"1", b"2")
    value = {"uri": source.uri, "queue": "jobs"}
    row = {"vhost": "/", "component": "queue-replica", "name": "jobs", "value": value}
    file = tmp_path / "definitions.json"
    definitions = {
        "queues": [{"vhost": "/", "name": "jobs", "durable": True}],
        "parameters": [row],
    }
    file.write_text(json.dumps(definitions))
    target = make("target")
    target.command("definitions", "import", str(file))
    target.await_replica(2)
    # It is known after a restart, and importing the file again changes nothing.
    target.kill()
    publish(pika.URLParameters(source.uri), b"3")
    target.start()
    target.await_replica(3)
    target.command("definitions", "import", str(file))
    assert target.await_replica(3)["fetched_messages"] == 1
    # What one server has exported makes the same of another one, which begins with the file.
    exported = tmp_path / "exported.json"
    target.command("definitions", "export", str(exported))
    other = make("other", f"--definitions={exported}")
    assert other.await_replica(3)["fetched_messages"] == 3
    for server in (target, other):
        server.command("ha", "stop", "jobs")
        assert server.taken() == [(b"%d" % number, True) for number in range(1, 4)]
    # And the source has all of it, unflagged.
    assert source.taken() == [(b"%d" % number, False) for number in range(1, 4)]
