"""`penstock load` as its user sees it, against a real broker."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from penstock import Broker
from penstock.cli.load import command
from penstock.client import blocking
from penstock.client.calls import declare_queue
from penstock.formats import ledger_records as form
from tests.support.identities import make_identities


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def run(*arguments: str) -> tuple[int, str, str]:
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def figures(broker: Broker, *arguments: str) -> dict[str, object]:
    code, out, errors = run("--uri", broker.url, "--json", *arguments)
    assert code == 0, errors
    found: dict[str, object] = json.loads(out)
    return found


def test_every_message_is_confirmed_delivered_and_accounted_for(broker: Broker) -> None:
    found = figures(broker, "--messages", "2000", "--size", "50")
    assert (found["published"], found["confirmed"], found["delivered"]) == (2000, 2000, 2000)
    names = ("lost", "duplicates_flagged", "duplicates_unflagged", "out_of_order", "foreign")
    assert [found[name] for name in names] == [0] * 5
    assert isinstance(found["latency_us"], dict)
    assert found["latency_us"]["p99"] > 0
    assert broker.queue_depths() == {}


def test_fanout_counts_every_queue_in_the_internal_rate(broker: Broker) -> None:
    found = figures(broker, "--mode", "fanout", "--queues", "3", "--messages", "1500")
    assert (found["confirmed"], found["delivered"], found["xsr"]) == (1500, 0, 0)
    assert isinstance(found["isr"], int)
    assert isinstance(found["publish_rate"], int)
    assert abs(found["isr"] - 3 * found["publish_rate"]) <= 3


def test_publishers_consumers_and_queues_may_differ_in_number(broker: Broker) -> None:
    found = figures(
        broker, "--publishers", "2", "--consumers", "2", "--queues", "3", "--messages", "300"
    )
    assert (found["published"], found["delivered"], found["lost"]) == (300, 900, 0)


def test_named_queues_are_used_and_kept_and_what_was_in_them_is_foreign(broker: Broker) -> None:
    arguments = ("--exchange", "amq.direct", "--routing-key", "key", "--queue", "mine")
    figures(broker, *arguments, "--messages", "5", "--consumers", "0")
    assert broker.queue_depths() == {"mine": 5}
    found = figures(broker, *arguments, "--messages", "7", "--mode", "transient")
    assert (found["delivered"], found["foreign"]) == (7, 5)
    assert broker.queue_depths() == {"mine": 0}


def test_a_rate_is_kept_and_the_table_shows_the_figures(broker: Broker) -> None:
    code, out, _ = run("--uri", broker.url, "--messages", "100", "--rate", "1000")
    assert code == 0
    for word in ("published", "ISR", "XSR", "latency", "lost"):
        assert word in out


def test_refused_publishes_are_not_lost(broker: Broker) -> None:
    broker.refuse_publishes(10)
    found = figures(broker, "--messages", "100")
    assert (found["confirmed"], found["not_promised"], found["lost"]) == (90, 10, 0)


def test_a_confirmed_message_that_never_arrives_is_a_failure(broker: Broker) -> None:
    """A queue that holds one message drops the others, and confirms them all the same."""
    with blocking.connect(broker.url) as connection, connection.channel() as channel:
        channel.call(declare_queue("tiny", arguments={"x-max-length": 1}))
    arguments = ("--queue", "tiny", "--messages", "1000", "--prefetch", "1", "--json")
    code, out, _ = run("--uri", broker.url, *arguments)
    found = json.loads(out)
    assert code == 1
    assert found["confirmed"] == 1000
    assert found["lost"] == 1000 - found["delivered"] > 0


def test_a_broker_that_cannot_be_reached_is_named_with_what_to_do() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code, _, errors = run("--uri", f"amqp://127.0.0.1:{port}")
    assert code == 3
    assert str(port) in errors
    assert "penstock serve" in errors


def test_a_refused_login_says_what_to_check(broker: Broker) -> None:
    code, _, errors = run("--uri", broker.url_for(password="wrong"))
    assert code == 3
    assert "refused the login" in errors


def test_options_that_contradict_each_other_are_refused() -> None:
    code, _, errors = run("--size", "3")
    assert code == 2
    assert "--size" in errors


def test_a_ledger_tells_what_each_client_did(broker: Broker, tmp_path: Path) -> None:
    broker.refuse_publishes(3)
    figures(
        broker, "--messages", "500", "--publishers", "2", "--queues", "2", "--ledger", str(tmp_path)
    )
    counts: dict[int, int] = {}
    for path in tmp_path.glob("*.led"):
        octets = path.read_bytes()
        at = form.RECORD_SIZE
        while at < len(octets):
            _, event, _, _, _, _, count, _ = form.RECORD.unpack_from(octets, at)
            at += form.RECORD_SIZE
            if event == form.NAME:
                at += -(-count // form.RECORD_SIZE) * form.RECORD_SIZE
            counts[event] = counts.get(event, 0) + count
    assert len(list(tmp_path.glob("*-faucet-*.led"))) == 2
    assert (counts[form.PUBLISHED], counts[form.CONFIRMED], counts[form.REFUSED]) == (500, 497, 3)
    # Each message goes to both queues.
    assert counts[form.RECEIVED] >= 2 * 497


def test_a_broker_that_asks_for_a_certificate_is_loaded_over_tls(tmp_path: Path) -> None:
    identities = make_identities(tmp_path)
    with Broker(tls=identities.mutual()) as broker:
        uri = f"amqps://guest:guest@localhost:{broker.tls_port}"
        ours = ("--uri", uri, "--json", "--messages", "500", "--ca", str(identities.ours.file))
        code, _, errors = run(*ours)
        assert code == 3
        assert "Traceback" not in errors
        shown = ("--cert", str(identities.client.file), "--key", str(identities.client.key))
        code, out, errors = run(*ours, *shown)
        assert code == 0, errors
        assert json.loads(out)["confirmed"] == 500


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--uri", "amqp://localhost", "--ca", "ca.pem"], "need an amqps:// address"),
        (["--uri", "amqps://localhost", "--key", "key.pem"], "--key needs --cert"),
    ],
)
def test_files_of_tls_that_have_no_use_are_refused(options: list[str], told: str) -> None:
    code, _, errors = run(*options)
    assert code == 2
    assert told in " ".join(errors.replace("│", " ").split())
