"""What RabbitMQ's own `rabbitmqadmin`, unmodified, changes over the management API."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pika
import pika.exceptions
import pytest

from penstock import Broker

INSTALLED = sorted(
    Path("/usr/lib/rabbitmq/lib").glob("*/plugins/rabbitmq_management-*/priv/www/cli/rabbitmqadmin")
)
# A loaded machine starts interpreters slowly.
SECONDS = 60

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def script() -> Path:
    found = shutil.which("rabbitmqadmin")
    if found is not None:
        return Path(found)
    if not INSTALLED:
        pytest.skip("rabbitmqadmin is not installed (Debian: apt-get install rabbitmq-server)")
    return INSTALLED[-1]


@pytest.fixture(scope="module")
def administered() -> Iterator[Broker]:
    with Broker(http=True) as running:
        yield running


class Admin:
    """Runs one command after the other. Held by a test."""

    def __init__(self, script: Path, broker: Broker) -> None:
        self.broker = broker
        self._command = [sys.executable, str(script), "-P", str(broker.http_port)]

    def run(self, *arguments: str) -> str:
        done = self.attempt(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def attempt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *arguments],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def ask(self, path: str) -> httpx.Response:
        return httpx.get(
            f"{self.broker.http_url}/api/{path}", auth=("guest", "guest"), timeout=SECONDS
        )


@pytest.fixture
def admin(script: Path, administered: Broker) -> Admin:
    return Admin(script, administered)


def test_declares_publishes_gets_purges_and_deletes(admin: Admin) -> None:
    assert "exchange declared" in admin.run("declare", "exchange", "name=ra.e", "type=topic")
    assert "queue declared" in admin.run("declare", "queue", "name=ra.q", "durable=true")
    declared = admin.run("declare", "binding", "source=ra.e", "destination=ra.q", "routing_key=a.#")
    assert "binding declared" in declared
    published = admin.run("publish", "exchange=ra.e", "routing_key=a.b", "payload=hello")
    assert "Message published" in published
    assert "NOT routed" in admin.run("publish", "exchange=ra.e", "routing_key=x", "payload=lost")

    got = admin.run("-f", "raw_json", "get", "queue=ra.q", "ackmode=ack_requeue_true", "count=5")
    assert [message["payload"] for message in json.loads(got)] == ["hello"]
    assert admin.broker.queue_depths()["ra.q"] == 1
    assert "hello" in admin.run("get", "queue=ra.q", "ackmode=ack_requeue_false")
    assert admin.broker.queue_depths()["ra.q"] == 0

    admin.run("publish", "routing_key=ra.q", "payload=again")
    assert "queue purged" in admin.run("purge", "queue", "name=ra.q")
    assert admin.broker.queue_depths()["ra.q"] == 0
    admin.run(
        "delete", "binding", "source=ra.e", "destination=ra.q", "destination_type=queue",
        "properties_key=a.%23",
    )  # fmt: skip
    admin.run("delete", "queue", "name=ra.q")
    admin.run("delete", "exchange", "name=ra.e")
    assert "ra.q" not in admin.broker.queue_depths()


def test_administers_vhosts_users_permissions_and_policies(admin: Admin) -> None:
    admin.run("declare", "vhost", "name=ra.v")
    admin.run("declare", "user", "name=ra.u", "password=secret", "tags=management")
    admin.run(
        "declare", "permission", "vhost=ra.v", "user=ra.u", "configure=.*", "write=.*", "read=.*"
    )
    admin.run(
        "--vhost", "ra.v", "declare", "policy", "name=ra.p", "pattern=^a",
        'definition={"max-length":5}', "priority=3", "apply-to=queues",
    )  # fmt: skip
    admin.run(
        "--vhost", "ra.v", "declare", "operator_policy", "name=ra.o", "pattern=^a",
        'definition={"max-length":3}',
    )  # fmt: skip
    admin.run("declare", "vhost_limit", "vhost=ra.v", "name=max-queues", "value=8")
    assert admin.ask("policies/ra.v/ra.p").json()["definition"] == {"max-length": 5}
    assert admin.ask("operator-policies/ra.v/ra.o").json()["priority"] == 0
    assert admin.ask("vhost-limits/ra.v").json()[0]["value"] == {"max-queues": 8}

    # The user that it made can log in and declare.
    url = admin.broker.url_for("ra.u", "secret", "ra.v")
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        connection.channel().queue_declare("abc")

    admin.run("delete", "vhost_limit", "vhost=ra.v", "name=max-queues")
    admin.run("--vhost", "ra.v", "delete", "operator_policy", "name=ra.o")
    admin.run("--vhost", "ra.v", "delete", "policy", "name=ra.p")
    admin.run("delete", "permission", "vhost=ra.v", "user=ra.u")
    admin.run("delete", "user", "name=ra.u")
    admin.run("delete", "vhost", "name=ra.v")
    assert admin.ask("users/ra.u").status_code == 404
    assert admin.ask("definitions/ra.v").status_code == 404


def test_exports_and_imports_definitions(admin: Admin, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    admin.run("declare", "vhost", "name=ra.x")
    admin.run("--vhost", "ra.x", "declare", "queue", "name=kept", "durable=true")
    admin.run("--vhost", "ra.x", "export", str(file))
    assert [row["name"] for row in json.loads(file.read_text())["queues"]] == ["kept"]

    admin.run("--vhost", "ra.x", "delete", "queue", "name=kept")
    assert admin.broker.queue_depths("ra.x") == {}
    assert "Uploaded definitions" in admin.run("--vhost", "ra.x", "import", str(file))
    assert admin.broker.queue_depths("ra.x") == {"kept": 0}

    file.write_text('{"queues": [{"name": "half"}]}')
    refused = admin.attempt("--vhost", "ra.x", "import", str(file))
    assert refused.returncode != 0 and "queues[0]" in refused.stdout + refused.stderr
    assert "half" not in admin.broker.queue_depths("ra.x")


def test_closes_a_connection_by_its_name(admin: Admin) -> None:
    parameters = pika.URLParameters(admin.broker.url)
    connection = pika.BlockingConnection(parameters)
    host, port = connection._impl._transport._sock.getsockname()
    name = f"{host}:{port} -> {admin.broker.host}:{admin.broker.port}"
    assert "connection closed" in admin.run("close", "connection", f"name={name}")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        connection.process_data_events(time_limit=SECONDS)
    assert caught.value.reply_code == 320
    assert "Closed via management plugin" in caught.value.reply_text


def test_a_wrong_password_is_told(admin: Admin) -> None:
    refused = admin.attempt("-u", "guest", "-p", "wrong", "declare", "queue", "name=never")
    assert refused.returncode != 0 and "Access refused" in refused.stdout + refused.stderr
