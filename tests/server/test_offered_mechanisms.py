"""Which servers let anonymous AMQP 1.0 clients in."""

from __future__ import annotations

import socket

import pytest

from penstock import Broker
from penstock.server.offered_mechanisms import Anonymous, allows_anonymous

PATIENCE_SECONDS = 20.0
# Of AMQP 1.0 itself, and of its SASL layer.
PLAIN_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"


@pytest.mark.parametrize(
    ("hosts", "allowed"),
    [
        (["127.0.0.1"], True),
        (["127.9.9.9", "::1"], True),
        (["localhost", "127.0.0.1"], True),
        (["0.0.0.0"], False),
        (["::"], False),
        # Every address of the machine.
        ([""], False),
        (["127.0.0.1", "192.0.2.1"], False),
        (["broker.example"], False),
    ],
)
def test_anonymous_clients_are_let_in_by_servers_on_loopback_only(
    hosts: list[str], allowed: bool
) -> None:
    assert allows_anonymous("loopback", hosts) is allowed


@pytest.mark.parametrize(("setting", "allowed"), [("always", True), ("never", False)])
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_operator_decides_otherwise(host: str, setting: Anonymous, allowed: bool) -> None:
    assert allows_anonymous(setting, [host]) is allowed


@pytest.mark.parametrize(
    ("setting", "answer"), [("loopback", PLAIN_HEADER), ("never", SASL_HEADER)]
)
def test_a_client_without_a_sasl_layer_is_answered_as_the_setting_says(
    setting: Anonymous, answer: bytes
) -> None:
    with (
        Broker(anonymous=setting) as broker,
        socket.create_connection((broker.host, broker.port), PATIENCE_SECONDS) as client,
    ):
        client.sendall(PLAIN_HEADER)
        assert client.recv(8, socket.MSG_WAITALL) == answer
