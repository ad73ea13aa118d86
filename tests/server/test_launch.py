"""What a configuration means for the node that is started with it."""

from __future__ import annotations

import pytest

from penstock.server.http.settings import HttpConfiguration
from penstock.server.launch import Anonymous, ServerConfiguration, allows_anonymous


@pytest.mark.parametrize(
    ("host", "http_host", "allowed"),
    [
        ("127.0.0.1", "", True),
        ("127.9.9.9", "", True),
        ("::1", "", True),
        ("localhost", "127.0.0.1", True),
        ("0.0.0.0", "", False),
        ("::", "", False),
        # Every address of the machine.
        ("", "", False),
        ("192.0.2.1", "127.0.0.1", False),
        ("broker.example", "", False),
        # Over a WebSocket.
        ("127.0.0.1", "0.0.0.0", False),
    ],
)
def test_anonymous_clients_are_let_in_by_servers_on_loopback_only(
    host: str, http_host: str, allowed: bool
) -> None:
    http = HttpConfiguration(enabled=True, host=http_host)
    assert allows_anonymous(ServerConfiguration(host=host, http=http)) is allowed


def test_an_http_server_that_is_off_listens_nowhere() -> None:
    http = HttpConfiguration(enabled=False, host="0.0.0.0")
    assert allows_anonymous(ServerConfiguration(host="127.0.0.1", http=http))


@pytest.mark.parametrize(("anonymous", "allowed"), [("always", True), ("never", False)])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_operator_decides_otherwise(host: str, anonymous: Anonymous, allowed: bool) -> None:
    configuration = ServerConfiguration(host=host, anonymous=anonymous)
    assert allows_anonymous(configuration) is allowed
