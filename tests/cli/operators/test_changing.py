"""Operators' commands that change something, as processes against a real broker."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from tests.cli.operator_process import Operator
from tests.support.served import amqp_port, served_processes


@pytest.fixture(scope="module")
def facts() -> Iterator[dict[str, str]]:
    with served_processes() as served:
        yield served.ready("--host=127.0.0.1", "--http-port=0", "--memory")


@pytest.fixture
def operator(facts: dict[str, str], tmp_path: Path) -> Operator:
    return Operator(f"http://{facts['http']}", tmp_path)


def test_a_queue_an_exchange_and_a_binding_come_and_go(operator: Operator) -> None:
    operator.done("queues", "declare", "jobs", "-a", "x-max-length=10")
    conflict = operator.run("queues", "declare", "jobs")
    assert conflict.returncode == 1 and "x-max-length" in conflict.stderr
    operator.done("exchanges", "declare", "orders", "--type", "topic")
    operator.done("bindings", "add", "orders", "jobs", "--key", "order.#")
    assert operator.done("publish", "orders", "order.new", "hello", "-H", "a=1") == "published\n"
    lost = operator.run("publish", "orders", "nowhere", "hello")
    assert lost.returncode == 1 and "penstock explain" in lost.stderr
    assert "hello" in operator.done("get", "jobs")
    assert operator.done("get", "jobs") == "(no messages)\n"
    operator.done("publish", "", "jobs", given="from standard input")
    operator.done("purge", "jobs")
    assert operator.done("get", "jobs") == "(no messages)\n"
    operator.done("bindings", "delete", "orders", "jobs", "--key", "order.#")
    operator.done("exchanges", "delete", "orders")
    operator.done("queues", "delete", "jobs", "--if-empty", "--if-unused")
    assert operator.run("queues", "delete", "jobs").returncode == 5


def test_a_user_is_added_and_can_log_in_and_no_password_is_shown(
    operator: Operator, facts: dict[str, str], tmp_path: Path
) -> None:
    said = operator.done("users", "add", "ann", "--tags", "monitoring", given="secret-1\n")
    assert "secret-1" not in said
    operator.done("permissions", "set", "ann", ".*", ".*", ".*")
    operator.done("permissions", "topic-set", "ann", "amq.topic", "^a", ".*")
    assert [row["exchange"] for row in operator.rows("permissions", "topics")] == ["amq.topic"]
    login = pika.PlainCredentials("ann", "secret-1")
    parameters = pika.ConnectionParameters("127.0.0.1", amqp_port(facts), credentials=login)
    with pika.BlockingConnection(parameters):
        pass
    file = tmp_path / "password"
    file.write_text("secret-2\n", "utf-8")
    operator.done("users", "password", "ann", "--password-file", str(file))
    ann = Operator(operator.server, tmp_path, PENSTOCK_USER="ann", PENSTOCK_PASSWORD="secret-2")
    ann.done("overview")
    assert ann.run("users", "add", "bob", given="x\n").returncode == 6
    operator.done("users", "tags", "ann", "management")
    assert "hash" not in json.dumps(operator.rows("users")).replace("hashing", "")
    operator.done("limits", "set", "max-channels", "7", "--of-user", "ann")
    assert operator.done("limits").splitlines()[1].split() == ["user", "ann", "-", "7", "-"]
    operator.done("users", "delete", "ann")
    assert operator.run("users", "delete", "ann").returncode == 5


def test_virtual_hosts_policies_and_parameters_come_and_go(operator: Operator) -> None:
    operator.done("vhosts", "add", "orders", "--description", "all about orders")
    operator.done("limits", "set", "max-queues", "7", "--of-vhost", "orders")
    operator.done("limits", "clear", "max-queues", "--of-vhost", "orders")
    operator.done("policies", "set", "short", "^tmp", "max-length=10", "--vhost", "orders")
    [policy] = operator.rows("policies", "--vhost", "orders")
    assert policy["definition"] == {"max-length": 10}
    operator.done("policies", "clear", "short", "--vhost", "orders")
    operator.done("policies", "set", "bound", ".*", '{"max-length": 9}', "--operator")
    assert [row["name"] for row in operator.rows("policies", "--operator")] == ["bound"]
    operator.done("policies", "clear", "bound", "--operator")
    operator.done("parameters", "set-global", "motd", "hello")
    assert {"name": "motd", "value": "hello"} in operator.rows("parameters", "--global")
    operator.done("parameters", "clear-global", "motd")
    operator.done("vhosts", "delete", "orders")


def test_definitions_are_exported_and_imported(operator: Operator, tmp_path: Path) -> None:
    operator.done("queues", "declare", "kept")
    file = tmp_path / "broker.json"
    operator.done("definitions", "export", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    operator.done("queues", "delete", "kept")
    assert "queues" in operator.done("definitions", "import", str(file))
    assert [row["name"] for row in operator.rows("queues")] == ["kept"]
    operator.done("queues", "delete", "kept")
    file.write_text("{", "utf-8")
    assert operator.run("definitions", "import", str(file)).returncode == 2


def test_a_connection_is_closed(operator: Operator, facts: dict[str, str]) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", amqp_port(facts))
    connection = pika.BlockingConnection(parameters)
    [row] = operator.rows("connections")
    operator.done("close", str(row["name"]), "--reason", "maintenance")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="maintenance"):
        connection.process_data_events(time_limit=60)
