"""The steps of docs/COMING_FROM_RABBITMQ.md, with the commands that the page shows, from a real RabbitMQ
to a served Penstock and back.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest

from bench.brokers import RABBITMQ_SCRIPT, RabbitMQ
from bench.running import HOST, BrokerUnavailableError, free_port
from examples.move_from_rabbitmq import PREFETCH_COUNT
from tests.behaviour.target import ManagementAdministration
from tests.support.served import amqp_port, served_processes

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "COMING_FROM_RABBITMQ.md"
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
PATIENCE_SECONDS = 240.0
COUNT = 250
VHOST = "orders"
# So many that the program can be killed in the middle.
KILLED_COUNT = 5_000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class ManagedRabbitMQ(RabbitMQ):
    """With the management plugin, and its command line. Held by the tests of this module."""

    def __init__(self) -> None:
        self.management_port = free_port()
        super().__init__()

    def _environment(self, port_mapper_port: int) -> dict[str, str]:
        found = super()._environment(port_mapper_port)
        (self._folder / "plugins").write_text("[rabbitmq_management].\n")
        return found

    def _settings(self) -> str:
        listener = f"management.tcp.ip = {HOST}\nmanagement.tcp.port = {self.management_port}\n"
        return super()._settings() + listener

    def command_environment(self) -> dict[str, str]:
        return super()._environment(self._port_mapper_port)

    @property
    def administration(self) -> ManagementAdministration:
        return ManagementAdministration(f"http://{HOST}:{self.management_port}", "guest", "guest")

    def url(self, user: str = "admin", password: str = "secret") -> str:
        return f"amqp://{user}:{password}@{HOST}:{self.port}/{VHOST}"


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[ManagedRabbitMQ]:
    try:
        running = ManagedRabbitMQ()
    except BrokerUnavailableError as error:
        pytest.skip(str(error))
    try:
        furnish(running)
        yield running
    finally:
        running.stop()


def furnish(rabbitmq: ManagedRabbitMQ) -> None:
    """What a system has that has run for years."""
    there = rabbitmq.administration
    there.add_vhost(VHOST)
    there._send("PUT", ["users", "admin"], {"password": "secret", "tags": "administrator"})
    there.add_user("clerk", "pencil")
    there.set_permissions("admin", VHOST, ".*", ".*", ".*")
    there.set_permissions("clerk", VHOST, "", ".*", ".*")
    there.set_topic_permissions("clerk", VHOST, "events", "^order\\.", ".*")
    there.set_policy(VHOST, "dead", "^in", {"dead-letter-exchange": "dead"}, 3, "queues")
    there.set_operator_policy(VHOST, "bounded", ".*", {"max-length": 100_000})
    there._send("PUT", ["vhost-limits", VHOST, "max-queues"], {"value": 50})
    with pika.BlockingConnection(pika.URLParameters(rabbitmq.url())) as connection:
        channel = connection.channel()
        channel.exchange_declare("events", "topic", durable=True)
        channel.exchange_declare("dead", "fanout", durable=True)
        channel.exchange_declare("all", "headers", durable=True)
        channel.exchange_bind("all", "events", "order.#")
        channel.queue_declare("incoming", durable=True, arguments={"x-max-priority": 5})
        channel.queue_declare("ledger", durable=True, arguments={"x-queue-type": "quorum"})
        channel.queue_declare("buried", durable=True)
        channel.queue_bind("incoming", "events", "order.*")
        channel.queue_bind("ledger", "all", "", {"x-match": "any", "kind": "paid"})
        channel.queue_bind("buried", "dead")


def publish(url: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(COUNT):
            properties = pika.BasicProperties(
                delivery_mode=2,
                priority=number % 5,
                message_id=str(number),
                content_type="text/plain",
                user_id="admin" if number == 0 else None,
                headers={
                    "number": number,
                    "kind": "paid",
                    "CC": ["order.copy"],
                    "deep": {"a": [1]},
                },
            )
            channel.basic_publish("events", "order.new", f"{number}", properties, mandatory=True)


def taken(url: str, queue: str) -> list[tuple[str, str, int, dict[str, object], str]]:
    """All that is in the queue, as a consumer sees it; it stays there."""
    found = []
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        while (told := channel.basic_get(queue))[0] is not None:
            delivery, properties, body = told
            headers = dict(properties.headers or {})
            row = (str(properties.message_id), body.decode(), properties.priority)
            assert properties.delivery_mode == 2
            assert properties.content_type == "text/plain"
            found.append((*row, headers, str(delivery.routing_key)))
    return found


class Terminal:
    """Runs blocks of the guide with the addresses of the two brokers. Held by a test."""

    def __init__(self, rabbitmq: ManagedRabbitMQ, folder: Path) -> None:
        self._folder = folder
        self._addresses = {
            "old.example:5672": f"{HOST}:{rabbitmq.port}",
            "old.example:15672": f"{HOST}:{rabbitmq.management_port}",
            "examples/": f"{ROOT / 'examples'}/",
        }
        commands = folder / "commands"
        commands.mkdir()
        control = shlex.quote(str(RABBITMQ_SCRIPT.with_name("rabbitmqctl")))
        settings = [
            f"export {key}={shlex.quote(value)}"
            for key, value in rabbitmq.command_environment().items()
            if key != "PATH"
        ]
        self._script(commands / "rabbitmqctl", *settings, f'exec {control} "$@"')
        self._script(commands / "penstock", f'exec {sys.executable} -m penstock "$@"')
        self._script(commands / "python", f'exec {sys.executable} "$@"')
        self._environment = os.environ | {"PATH": f"{commands}:{os.environ['PATH']}"}

    def _script(self, file: Path, *lines: str) -> None:
        file.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        file.chmod(0o755)

    def knows(self, facts: dict[str, str]) -> None:
        """The new broker has started."""
        self._addresses["new.example:5672"] = f"{HOST}:{amqp_port(facts)}"
        self._addresses["new.example:15672"] = facts["http"]

    def run(self, beginning: str, **changed: str) -> str:
        """The only block that begins so; what it prints."""
        (block,) = (block for block in BLOCKS if block.startswith(beginning))
        for text, other in (self._addresses | changed).items():
            block = block.replace(text, other)
        done = subprocess.run(
            ["sh", "-e", "-c", block],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
        return done.stdout


def options_of_serve(folder: Path) -> list[str]:
    """As the guide gives them, with files of this test."""
    (block,) = (block for block in BLOCKS if block.startswith("penstock serve"))
    options = shlex.split(block)[2:]
    files = {"rabbitmq.json": folder / "rabbitmq.json", "/var/lib/penstock": folder / "data"}
    return [str(files.get(option, option)) for option in options]


def test_a_system_moves_and_comes_back(rabbitmq: ManagedRabbitMQ, tmp_path: Path) -> None:
    publish(rabbitmq.url())
    by_priority = taken(rabbitmq.url(), "incoming")
    # The header CC has made no second copy in the queue.
    assert [row[2] for row in by_priority] == sorted(n % 5 for n in range(COUNT))[::-1]
    # Not looked at there: RabbitMQ puts what a quorum queue gets back behind the others.
    by_age = sorted(by_priority, key=lambda row: int(row[0]))
    terminal = Terminal(rabbitmq, tmp_path)
    terminal.run("rabbitmqctl export_definitions")
    with served_processes() as served:
        facts = served.ready("--http-port=0", *options_of_serve(tmp_path))
        terminal.knows(facts)
        new = f"amqp://admin:secret@{HOST}:{amqp_port(facts)}/{VHOST}"
        moved = terminal.run("for queue in")
        assert f"incoming: moved {COUNT} messages" in moved
        assert f"ledger: moved {COUNT} messages" in moved
        assert "buried: moved 0 messages" in moved
        assert emptied_counts(terminal) == {"incoming": COUNT, "ledger": COUNT, "buried": 0}
        check_moved(by_priority, taken(new, "incoming"))
        check_moved(by_age, taken(new, "ledger"))
        check_rights(amqp_port(facts))
        terminal.run("penstock definitions export")
        assert (tmp_path / "penstock.json").exists()
        again = terminal.run(
            "for queue in", **{"--from": "--whither", "--to": "--from", "--whither": "--to"}
        )
        assert f"incoming: moved {COUNT} messages" in again
    check_moved(by_priority, taken(rabbitmq.url(), "incoming"))


def emptied_counts(terminal: Terminal) -> dict[str, int]:
    """What the new broker has when the old one has nothing more. RabbitMQ counts the messages of a quorum
    queue once in a while, so its list may be late.
    """
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while True:
        lists = terminal.run("rabbitmqctl -q list_queues -p orders name messages")
        old, _, new = lists.partition("[")
        if set(re.findall(r"^(\w+)\s+(\d+)$", old, re.MULTILINE)) == {
            (queue, "0") for queue in ("incoming", "ledger", "buried")
        }:
            return {row["name"]: row["messages"] for row in json.loads("[" + new)}
        assert time.monotonic() < give_up_at, old


def check_moved(
    before: list[tuple[str, str, int, dict[str, object], str]],
    after: list[tuple[str, str, int, dict[str, object], str]],
) -> None:
    """All of them in their order, with the one user that was named where the guide says."""
    assert len(after) == len(before)
    for old, new in zip(before, after, strict=True):
        headers = {key: new[3][key] for key in new[3] if not key.startswith("x-")}
        assert {key: old[3][key] for key in headers} == headers
        assert (*new[:3], new[4]) == (*old[:3], old[4])
        assert new[3].get("x-moved-user-id") == ("admin" if old[0] == "0" else None)


def check_rights(port: int) -> None:
    """The clerk has its old password, and what it may not do it may not do here."""
    clerk = f"amqp://clerk:pencil@{HOST}:{port}/{VHOST}"
    with pika.BlockingConnection(pika.URLParameters(clerk)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        # Permitted, and bound nowhere.
        channel.basic_publish("events", "order.not.bound", b"")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="access to topic 'other'"):
            channel.basic_publish("events", "other", b"")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
            connection.channel().queue_declare("new")


def test_definitions_travel_over_http_too(rabbitmq: ManagedRabbitMQ, tmp_path: Path) -> None:
    terminal = Terminal(rabbitmq, tmp_path)
    terminal.run("curl -sS -f -u admin:secret")
    with served_processes() as served:
        terminal.knows(served.ready("--http-port=0", "--memory"))
        terminal.run("curl -sS -f -u guest:guest")
        terminal.run("penstock definitions export")
    theirs = json.loads((tmp_path / "rabbitmq.json").read_text())
    ours = json.loads((tmp_path / "penstock.json").read_text())
    for kind in ("users", "vhosts", "permissions", "topic_permissions", "policies", "parameters"):
        assert names(theirs[kind]) <= names(ours[kind]), kind
    for kind in ("queues", "exchanges", "bindings"):
        assert names(theirs[kind]) == names(ours[kind]), kind


def names(rows: list[dict[str, object]]) -> set[str]:
    """What RabbitMQ and Penstock both say of each."""
    told = (
        "name",
        "vhost",
        "user",
        "source",
        "destination",
        "routing_key",
        "pattern",
        "definition",
    )
    keys = (*told, "priority", "password_hash", "tags", "configure", "write", "read", "arguments")
    return {json.dumps({key: row.get(key) for key in keys}, sort_keys=True) for row in rows}


def count_of(url: str, queue: str) -> int:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        count = connection.channel().queue_declare(queue, passive=True).method.message_count
        assert isinstance(count, int)
        return count


def test_a_move_that_is_killed_and_repeated_loses_nothing(rabbitmq: ManagedRabbitMQ) -> None:
    with pika.BlockingConnection(pika.URLParameters(rabbitmq.url())) as connection:
        channel = connection.channel()
        channel.queue_declare("killed", durable=True)
        for number in range(KILLED_COUNT):
            properties = pika.BasicProperties(
                delivery_mode=2, message_id=str(number), content_type="text/plain", priority=0
            )
            channel.basic_publish("", "killed", b"", properties)
    with served_processes() as served:
        new = f"amqp://{HOST}:{served.port('--no-http', '--memory')}/%2F"
        with pika.BlockingConnection(pika.URLParameters(new)) as connection:
            connection.channel().queue_declare("killed", durable=True)
        program = str(ROOT / "examples" / "move_from_rabbitmq.py")
        command = [sys.executable, program, "--from", rabbitmq.url(), "--to", new, "killed"]
        first = subprocess.Popen(command, stdout=subprocess.PIPE)
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while count_of(new, "killed") < KILLED_COUNT // 10:
            assert first.poll() is None, "ended before it could be killed"
            assert time.monotonic() < give_up_at
        first.kill()
        first.communicate()
        moved_before = count_of(new, "killed")
        assert moved_before < KILLED_COUNT
        subprocess.run(command, check=True, timeout=PATIENCE_SECONDS, capture_output=True)
        found = [row[0] for row in taken(new, "killed")]
        assert set(found) == {str(number) for number in range(KILLED_COUNT)}
        assert len(found) - KILLED_COUNT <= PREFETCH_COUNT
    assert count_of(rabbitmq.url(), "killed") == 0
    with pika.BlockingConnection(pika.URLParameters(rabbitmq.url())) as connection:
        connection.channel().queue_delete("killed")


def test_a_queue_that_the_new_broker_does_not_have_keeps_its_messages(
    rabbitmq: ManagedRabbitMQ, tmp_path: Path
) -> None:
    with pika.BlockingConnection(pika.URLParameters(rabbitmq.url())) as connection:
        channel = connection.channel()
        channel.queue_declare("unknown", durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "unknown", b"stay")
        with served_processes() as served:
            port = served.port("--no-http", "--memory")
            program = str(ROOT / "examples" / "move_from_rabbitmq.py")
            command = [program, "--from", rabbitmq.url(), "--to"]
            done = subprocess.run(
                [sys.executable, *command, f"amqp://{HOST}:{port}/%2F", "unknown"],
                capture_output=True,
                text=True,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
        assert done.returncode == 1
        assert done.stderr.startswith("unknown: ")
        assert "Traceback" not in done.stderr
        kept = channel.queue_delete("unknown").method.message_count
        assert kept == 1
