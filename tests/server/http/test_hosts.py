"""By which names the server may be addressed: a page cannot have its own name lead here."""

import socket
from pathlib import Path

import pytest

from penstock import Broker
from penstock.server.http.hosts import Hosts, host_names
from tests.server.http.asking import Pages, problem
from tests.server.http.raw_requests import (
    LOGIN,
    answer_to,
    port_of,
    request,
    websocket_request,
)
from tests.support.served import Served


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:15672",
        "localhost.:15672",
        "app.localhost",
        "127.0.0.1:15672",
        "127.1.2.3",
        "[::1]:15672",
        "[fe80::1%eth0]:15672",
        "192.0.2.7:80",
        "broker.example:15672",
        "Broker.Example.",
        socket.gethostname(),
    ],
)
def test_our_names_and_every_address_are_served(host: str) -> None:
    hosts = Hosts(host_names("broker.example"), ())
    assert hosts.objection({"host": host}) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:15672",
        "localhost.evil.example",
        "notlocalhost",
        "",
        "[",
        ":",
        "[::1].evil.example",
        "[::1]evil.example:15672",
        "[127.0.0.1.evil.example]",
        "[broker.example]",
        "127.0.0.1%evil.example",
        "127.0.0.1%25evil.example:80",
        "localhost:evil.example",
        "127.0.0.1:80:evil.example",
        ".localhost",
        "evil.example/.localhost",
        "evil.example#.localhost",
        "evil.example@localhost",
        "::1",
    ],
)
def test_other_names_are_not(host: str) -> None:
    found = Hosts(host_names("broker.example"), ()).objection({"host": host})
    assert found is not None
    assert found.status == 421
    assert "http.allowed_hosts" in found.what_to_do


def test_a_star_allows_every_name() -> None:
    assert Hosts(host_names("*"), ()).objection({"host": "evil.example"}) is None


def test_a_rebound_name_reaches_neither_pages_nor_the_websocket(broker: Broker) -> None:
    """The browser takes the page and the server for one place: Origin and Host agree."""
    port = port_of(broker)
    said = answer_to(port, b"GET / HTTP/1.1\r\nHost: evil.example:%d\r\n" % port + LOGIN + b"\r\n")
    assert said.startswith(b"HTTP/1.1 421 ")
    host = b"evil.example:%d" % port
    said = answer_to(port, websocket_request(host=host, headers=b"Origin: http://%b\r\n" % host))
    assert said.startswith(b"HTTP/1.1 421 ")
    assert broker.connection_count == 0


def test_health_is_answered_whoever_is_addressed(broker: Broker) -> None:
    said = answer_to(port_of(broker), b"GET /health/live HTTP/1.1\r\nHost: evil.example\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 200 ")


def test_a_page_of_elsewhere_changes_nothing(pages: Pages) -> None:
    """A browser sends along the password that somebody typed for this server."""
    lease = b'{"owner": "a", "number": 1}'
    path = "/api/leases/%2F/q"
    for origin in ("http://evil.example", "null", "http://["):
        problem(pages.ask("POST", path, lease, {"Origin": origin}), 403)
    # Of its own pages only the queue is missing.
    own = {"Origin": pages.broker.http_url}
    problem(pages.ask("POST", path, lease, own), 404)
    assert pages.ask("GET", "/metrics", headers={"Origin": "null"}).status_code == 200


def test_names_and_origins_come_from_the_configuration(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(
        '[http]\nallowed_hosts = ["broker.example"]\nwebsocket_origins = ["http://app.example"]\n'
    )
    facts = served.ready("--memory", "--config", str(file))
    port = int(facts["http"].rpartition(":")[2])
    said = answer_to(port, b"GET / HTTP/1.1\r\nHost: broker.example\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 200 ")
    assert answer_to(port, b"GET / HTTP/1.1\r\nHost: x.example\r\n\r\n").startswith(b"HTTP/1.1 421")
    allowed = websocket_request(headers=b"Origin: http://app.example\r\n")
    assert answer_to(port, allowed).startswith(b"HTTP/1.1 101 ")
    other = websocket_request(headers=b"Origin: http://b.example\r\n")
    assert answer_to(port, other).startswith(b"HTTP/1.1 403 ")
    assert answer_to(port, request(b"GET /")).startswith(b"HTTP/1.1 200 ")
