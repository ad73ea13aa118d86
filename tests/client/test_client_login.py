"""How the client shows who it is, and how it makes sure of the broker."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from penstock import Broker
from penstock.client.asynchronous import connect as connect_async
from penstock.client.blocking import connect
from penstock.client.errors import LoginRefused, UriInvalid
from penstock.client.login import ClientLogin
from penstock.client.uri import Address, decode_uri
from penstock.formats.scram_keys import derive
from penstock.wire.amqp091.errors import ConnectionFault
from penstock.wire.amqp091.methods_generated import (
    ConnectionSecure,
    ConnectionStart,
    ConnectionTune,
)
from penstock.wire.scram import ScramServer

ALL = b"PLAIN AMQPLAIN SCRAM-SHA-256"
SCRAM = "SCRAM-SHA-256"
NONCE = "client-nonce"


def started(address: Address, offered: bytes = ALL, nonce: str = NONCE) -> tuple[ClientLogin, str]:
    login = ClientLogin(address, nonce)
    answer = login.answer_start(ConnectionStart(0, 9, {}, offered, b"en_US"), "")
    return login, answer.mechanism


@pytest.mark.parametrize(
    ("uri", "chosen"),
    [
        ("amqp://localhost", "PLAIN"),
        ("amqp://127.0.0.1", "PLAIN"),
        ("amqps://broker.example", "PLAIN"),
        ("amqp://broker.example", SCRAM),
        ("amqp://broker.example?auth_mechanism=plain", "PLAIN"),
        ("amqp://localhost?auth_mechanism=scram-sha-256", SCRAM),
        ("amqp://localhost?auth_mechanism=AMQPLAIN", "AMQPLAIN"),
    ],
)
def test_a_password_crosses_a_network_in_the_clear_only_when_asked_to(
    uri: str, chosen: str
) -> None:
    assert started(decode_uri(uri))[1] == chosen


def test_a_broker_without_scram_gets_plain() -> None:
    assert started(decode_uri("amqp://broker.example"), b"AMQPLAIN PLAIN")[1] == "PLAIN"


@pytest.mark.parametrize(
    ("uri", "offered"),
    [("amqp://localhost?auth_mechanism=external", ALL), ("amqp://localhost", b"GSSAPI")],
)
def test_a_login_that_the_broker_does_not_offer_is_an_error(uri: str, offered: bytes) -> None:
    with pytest.raises(ConnectionFault, match="the broker offers"):
        started(decode_uri(uri), offered)


def test_an_unknown_mechanism_in_an_address_is_an_error() -> None:
    with pytest.raises(UriInvalid, match="'auth_mechanism' must be one of plain"):
        decode_uri("amqp://localhost?auth_mechanism=gssapi")


class Impostor:
    """A broker that knows the keys of another password. Held by a test."""

    def __init__(self, password: str) -> None:
        address = replace(decode_uri("amqp://ann:secret@broker.example"), mechanism=SCRAM)
        self.login = ClientLogin(address, NONCE)
        start = ConnectionStart(0, 9, {}, SCRAM.encode(), b"en_US")
        server = ScramServer("server-nonce")
        server.start(self.login.answer_start(start, "").response)
        challenge = server.challenge(derive(password, b"salt", 4096))
        self.proof = server.finish(self.login.answer_secure(ConnectionSecure(challenge)).response)


def test_the_brokers_proof_is_checked_before_tune_is_answered() -> None:
    broker = Impostor("secret")
    assert broker.proof is not None
    with pytest.raises(ConnectionFault, match="did not prove"):
        broker.login.answer_tune(ConnectionTune(0, 0, 0))
    assert broker.login.answer_secure(ConnectionSecure(broker.proof)).response == b""
    broker.login.answer_tune(ConnectionTune(0, 0, 0))


@pytest.mark.parametrize("proof", [b"v=AAAA", b"nonsense", b""])
def test_a_broker_that_cannot_prove_that_it_knows_the_password_is_left(proof: bytes) -> None:
    broker = Impostor("guessed")
    assert broker.proof is None
    with pytest.raises(ConnectionFault):
        broker.login.answer_secure(ConnectionSecure(proof))


def test_a_challenge_that_nobody_asked_for_is_refused() -> None:
    login, _ = started(decode_uri("amqp://localhost"))
    with pytest.raises(ConnectionFault, match="nobody asked for"):
        login.answer_secure(ConnectionSecure(b"r=1"))


@pytest.mark.parametrize("mechanism", ["plain", "amqplain", "scram-sha-256", "anonymous"])
def test_the_blocking_client_logs_in_by_each_mechanism(mechanism: str) -> None:
    with Broker() as broker:
        address = f"{broker.url}?auth_mechanism={mechanism}"
        with connect(address) as connection:
            channel = connection.channel()
            assert channel.outstanding == 0


def test_the_asynchronous_client_logs_in_by_scram() -> None:
    async def log_in(address: Address) -> None:
        async with await connect_async(address) as connection:
            await connection.channel()

    with Broker(mechanisms=(SCRAM,)) as broker:
        broker.add_user("an,n", "päss,w=rd")
        broker.set_permissions("an,n", "/")
        asyncio.run(log_in(replace(decode_uri(broker.url), user="an,n", password="päss,w=rd")))


def test_a_wrong_password_is_refused_by_scram() -> None:
    with Broker(mechanisms=(SCRAM,)) as broker:
        address = replace(decode_uri(broker.url), password="wrong")
        with pytest.raises(LoginRefused, match="SCRAM-SHA-256"):
            connect(address)
