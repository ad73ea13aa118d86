"""RabbitMQ's `rabbitmqadmin`, as Debian's package of RabbitMQ brings it, unmodified."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.management import Traffic, traffic

INSTALLED = sorted(
    Path("/usr/lib/rabbitmq/lib").glob("*/plugins/rabbitmq_management-*/priv/www/cli/rabbitmqadmin")
)
# A loaded machine starts interpreters slowly.
SECONDS = 60


@pytest.fixture(scope="module")
def script() -> Path:
    found = shutil.which("rabbitmqadmin")
    if found is not None:
        return Path(found)
    if not INSTALLED:
        pytest.skip("rabbitmqadmin is not installed (Debian: apt-get install rabbitmq-server)")
    return INSTALLED[-1]


@pytest.fixture(scope="module")
def going() -> Iterator[Traffic]:
    with traffic() as running:
        yield running


class Admin:
    """Runs one command after the other. Held by a test."""

    def __init__(self, script: Path, going: Traffic) -> None:
        self._command = [
            sys.executable,
            str(script),
            "--host",
            going.broker.host,
            "--port",
            str(going.broker.http_port),
        ]

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._command, *arguments],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def rows(self, *arguments: str) -> list[dict[str, object]]:
        found = json.loads(self.run("--format", "raw_json", *arguments))
        assert isinstance(found, list)
        return found


@pytest.fixture
def admin(script: Path, going: Traffic) -> Admin:
    return Admin(script, going)


def test_the_overview(admin: Admin) -> None:
    table = admin.run("show", "overview")
    assert "rabbitmq_version" in table and "queue_totals.messages" in table


def test_everything_that_can_be_listed_has_a_table(admin: Admin) -> None:
    for kind in (
        "connections",
        "channels",
        "consumers",
        "exchanges",
        "queues",
        "bindings",
        "vhosts",
        "nodes",
    ):
        table = admin.run("list", kind)
        assert "No items" not in table, kind
        assert table.startswith("+-"), kind
        # All columns there are, each value on a line of its own.
        assert ":" in admin.run("--format", "long", "--depth", "5", "list", kind), kind


def test_the_columns_of_queues(admin: Admin) -> None:
    (queue,) = admin.rows("list", "queues", "name", "messages", "message_stats.publish", "node")
    assert (queue["name"], queue["messages"]) == ("work", 3)
    assert queue["message_stats"] == {"publish": 3}


def test_lists_of_one_virtual_host_and_in_an_order(admin: Admin) -> None:
    assert [row["name"] for row in admin.rows("--vhost", "/", "list", "queues", "name")] == ["work"]
    ordered = admin.rows("--sort", "name", "--sort-reverse", "list", "exchanges", "name")
    names = [str(row["name"]) for row in ordered]
    assert names == sorted(names, reverse=True)


def test_connections_and_their_channels(admin: Admin, going: Traffic) -> None:
    (connection,) = admin.rows("list", "connections", "name", "user", "channels", "state")
    assert (connection["user"], connection["channels"]) == ("guest", 1)
    (channel,) = admin.rows("list", "channels", "name")
    assert channel["name"] == f"{connection['name']} (1)"
    assert str(connection["name"]).endswith(f":{going.broker.port}")
