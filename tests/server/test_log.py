"""The log of `penstock serve`, read from outside: what clients did, and never a secret."""

import base64
import json
import re
from pathlib import Path

import pika
import pika.exceptions
import pytest
from proton import ConnectionException
from proton.utils import BlockingConnection, LinkDetached

from penstock import Broker
from tests.server.http.raw_requests import answer_to, request
from tests.server.opened import pika_connection
from tests.support.served import END_SECONDS, Served, amqp_port

# What must not be in the log in any form.
PASSWORD = "s3cr3t-of-ann"
WRONG = "wr0ng-gue55"


class Log:
    """The lines of one process. Held by a test."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines: list[dict[str, object]] = [json.loads(line) for line in text.splitlines()]

    def of(self, event: str, **facts: object) -> dict[str, object]:
        """The one line of this event with these facts."""
        found = [
            line for line in self.lines if line["event"] == event and facts.items() <= line.items()
        ]
        assert len(found) == 1, f"{event} {facts}: {found} of\n{self.text}"
        return found[0]

    def count(self, event: str) -> int:
        return len([line for line in self.lines if line["event"] == event])


def log_of(served: Served) -> Log:
    served.latest.terminate()
    _, errors = served.latest.communicate(timeout=END_SECONDS)
    return Log(errors)


@pytest.fixture
def definitions(tmp_path: Path) -> Path:
    """A user `ann` who may do nothing but log in, and a virtual host that she may not open."""
    with Broker() as broker:
        broker.add_user("ann", PASSWORD, ("management",))
        broker.set_permissions("ann", "/", "^$", "^$", "^$")
        broker.add_vhost("closed")
        broker.set_policy("/", "short", "^short", {"max-length": 3})
        exported = broker.export_definitions()
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(exported))
    return file


def test_what_clients_of_amqp_091_do_is_in_the_log(served: Served, definitions: Path) -> None:
    facts = served.ready("--memory", "--log-format=json", "--definitions", str(definitions))
    where = facts["amqp"]
    good = pika_connection(f"amqp://ann:{PASSWORD}@{where}")
    port = good._impl._transport._sock.getsockname()[1]
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        good.channel().queue_declare("q")
    guest = pika_connection(f"amqp://guest:guest@{where}")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        guest.channel().queue_declare("nowhere", passive=True)
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika_connection(f"amqp://ann:{WRONG}@{where}")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika_connection(f"amqp://nobody:{WRONG}@{where}")
    with pytest.raises(pika.exceptions.AMQPError):
        pika_connection(f"amqp://ann:{PASSWORD}@{where}/closed")
    good.close()
    log = log_of(served)
    peer = f"127.0.0.1:{port}"
    assert log.of("definitions imported")["file"] == str(definitions)
    opened = log.of("connection opened", user="ann")
    assert opened["level"] == "info"
    assert (opened["peer"], opened["vhost"], opened["protocol"]) == (peer, "/", "AMQP 0-9-1")
    denied = log.of("access denied", user="ann", vhost="/")
    assert denied["level"] == "warning"
    assert (denied["peer"], denied["channel"]) == (peer, 1)
    assert "queue 'q' in vhost '/'" in str(denied["reason"])
    missing = log.of("channel error", user="guest")
    assert str(missing["reason"]).startswith("404 NOT_FOUND - no queue 'nowhere'")
    assert log.of("login refused", user="ann")["reason"] == "wrong password"
    assert log.of("login refused", user="nobody")["reason"] == "unknown user"
    assert "access to vhost 'closed' refused" in str(
        log.of("access denied", vhost="closed")["reason"]
    )
    assert "closed by the client" in str(log.of("connection closed", peer=peer)["reason"])
    # The broker itself ended the other one.
    forced = log.of("connection closed", user="guest")
    assert forced["level"] == "warning"
    assert "shutdown" in str(forced["reason"])
    assert_no_secret(log.text, definitions)


def test_what_clients_of_amqp_10_do_is_in_the_log(served: Served, definitions: Path) -> None:
    facts = served.ready("--memory", "--log-format=json", "--definitions", str(definitions))
    where = facts["amqp"]
    good = BlockingConnection(
        where, timeout=60, user="ann", password=PASSWORD, allowed_mechs="PLAIN"
    )
    with pytest.raises(LinkDetached):
        good.create_receiver("/queues/nowhere")
    with pytest.raises(LinkDetached):
        good.create_sender("/exchanges/amq.direct")
    with pytest.raises(ConnectionException):
        BlockingConnection(where, timeout=60, user="ann", password=WRONG, allowed_mechs="PLAIN")
    good.close()
    log = log_of(served)
    accepted = log.of("login accepted", protocol="AMQP 1.0")
    assert (accepted["user"], accepted["mechanism"]) == ("ann", "PLAIN")
    opened = log.of("connection opened", protocol="AMQP 1.0")
    assert (opened["user"], opened["vhost"]) == ("ann", "/")
    reasons = [
        str(line["reason"])
        for line in log.lines
        if line["event"] in {"link error", "access denied"} and line["peer"] == opened["peer"]
    ]
    assert len(reasons) == 2, log.text
    assert log.of("login refused", user="ann")["protocol"] == "AMQP 1.0"
    assert log.of("connection closed", peer=opened["peer"])["level"] == "info"
    assert_no_secret(log.text, definitions)


def test_what_clients_of_http_are_refused_is_in_the_log(served: Served, definitions: Path) -> None:
    facts = served.ready("--memory", "--log-format=json", "--definitions", str(definitions))
    port = int(facts["http"].rpartition(":")[2])
    for password, status in ((WRONG, 401), (PASSWORD, 403)):
        encoded = base64.b64encode(f"ann:{password}".encode())
        said = answer_to(port, request(b"GET /metrics", b"Authorization: Basic %b\r\n" % encoded))
        assert said.startswith(b"HTTP/1.1 %d " % status)
    log = log_of(served)
    refused = log.of("login refused", protocol="HTTP")
    assert refused["user"] == "ann"
    assert str(refused["peer"]).startswith("127.0.0.1:")
    denied = log.of("access denied", protocol="HTTP")
    assert (denied["user"], denied["path"]) == ("ann", "/metrics")
    assert "none of the tags" in str(denied["reason"])
    assert_no_secret(log.text, definitions)


def test_a_login_that_is_tried_again_and_again_does_not_fill_the_log(served: Served) -> None:
    """Each attempt is made from a connection of its own, and is left without waiting."""
    facts = served.ready("--memory", "--log-format=json")
    port = amqp_port(facts)
    connection = pika_connection(f"amqp://127.0.0.1:{port}")
    # Channels that fail are the quickest way to many lines.
    for _ in range(60):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            connection.channel().queue_declare("nowhere", passive=True)
    log = log_of(served)
    assert 20 <= log.count("channel error") < 60
    left_out = sum(
        int(str(line["count"])) for line in log.lines if line["event"] == "log lines suppressed"
    )
    assert log.count("channel error") + left_out == 60


@pytest.mark.parametrize(
    ("options", "levels"),
    [((), {"info", "warning"}), (("--log-level=warning",), {"warning"})],
)
def test_lines_below_the_level_are_not_written(
    served: Served, options: tuple[str, ...], levels: set[str]
) -> None:
    facts = served.ready("--memory", "--log-format=json", *options)
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika_connection(f"amqp://nobody:{WRONG}@{facts['amqp']}")
    assert {line["level"] for line in log_of(served).lines} == levels


def test_the_level_and_the_format_may_stand_in_the_file(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[log]\nlevel = "debug"\nformat = "json"\n')
    facts = served.ready("--memory", "--config", str(file))
    pika_connection(f"amqp://{facts['amqp']}").close()
    assert log_of(served).count("connection opened") == 1


def test_text_is_one_line_for_each_event(served: Served) -> None:
    facts = served.ready("--memory")
    name = "two\nlines \x1b[31m"
    parameters = pika.URLParameters(f"amqp://{facts['amqp']}")
    parameters.client_properties = {"connection_name": name}
    pika.BlockingConnection(parameters).close()
    served.latest.terminate()
    _, errors = served.latest.communicate(timeout=END_SECONDS)
    line = next(line for line in errors.splitlines() if "connection opened" in line)
    assert re.match(
        r"20\d\d-\d\d-\d\dT[\d:.]+Z info     connection opened user=guest peer=127.0.0.1:\d+ vhost=/ ",
        line,
    ), line
    assert 'name="two\\nlines \\u001b[31m"' in line
    assert "\x1b" not in errors


def assert_no_secret(text: str, definitions: Path) -> None:
    """Neither a password, nor one that was tried, nor a hash, however they are written."""
    users = json.loads(definitions.read_text())["users"]
    hashes = [user["password_hash"] for user in users]
    for secret in (PASSWORD, WRONG, *hashes):
        octets = secret.encode()
        for form in (secret, octets.hex(), base64.b64encode(octets).decode(), repr(octets)[2:-1]):
            assert form not in text
    assert "$argon2" not in text
    assert "assword_hash" not in text
