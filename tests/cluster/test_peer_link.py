"""The handshake of a link that this server dials, against servers that do not keep to it."""

from __future__ import annotations

import pytest

from penstock.formats.amqp091_frames import METHOD_FRAME, encode_frame
from penstock.wire.amqp091.methods_generated import (
    ConnectionClose,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    Method,
)
from penstock.world.network import DialListener
from tests.cluster.fuzz import KEY, Server
from tests.dialects.amqp10.doubles import KeptTransport
from tests.wire.doubles import decode_frames

START = ConnectionStart(0, 9, {}, b"PLAIN", b"en_US")
TUNE = ConnectionTune(1, 100_000, 2)


class Impostor:
    """Answers a server that dials, without the key."""

    def __init__(self) -> None:
        self.server = Server("a")
        self.listener: DialListener
        self.transport: KeptTransport
        self.listener, self.transport = self.server.dial()
        assert self.transport.take() == b"AMQP\x00\x00\x09\x01"

    def say(self, method: Method) -> list[Method]:
        """The answers, of which there may be none."""
        frame = encode_frame(METHOD_FRAME, 0, method.encode())
        self.listener.received(frame, self.server.now)
        self.server.flush()
        return [answer for _, answer in decode_frames(self.transport.take())]


def test_a_server_that_skips_the_proof_is_told_nothing() -> None:
    impostor = Impostor()
    [login] = impostor.say(START)
    assert isinstance(login, ConnectionStartOk)
    assert (login.mechanism, KEY in login.response) == ("SCRAM-SHA-256", False)
    [close] = impostor.say(TUNE)
    assert isinstance(close, ConnectionClose) and close.reply_code == 403
    assert "did not prove that it knows the cluster key" in close.reply_text
    impostor.listener.lost("", impostor.server.now)
    impostor.server.check_at_rest()


def test_a_server_with_a_wrong_proof_is_told_nothing() -> None:
    impostor = Impostor()
    [login] = impostor.say(START)
    assert isinstance(login, ConnectionStartOk)
    nonce = login.response.decode().rpartition("r=")[2]
    challenge = f"r={nonce}server,s=c2FsdA==,i=4096".encode()
    [answer] = impostor.say(ConnectionSecure(challenge))
    assert isinstance(answer, ConnectionSecureOk) and KEY.hex().encode() not in answer.response
    impostor.say(ConnectionSecure(b"v=" + b"AAAA" * 11))
    [close] = impostor.say(TUNE)
    assert isinstance(close, ConnectionClose) and close.reply_code == 403


@pytest.mark.parametrize("challenge", [b"", b"r=other,s=c2FsdA==,i=4096", b"\xff"])
def test_a_challenge_that_is_not_valid_ends_the_attempt(challenge: bytes) -> None:
    impostor = Impostor()
    impostor.say(START)
    [close] = impostor.say(ConnectionSecure(challenge))
    assert isinstance(close, ConnectionClose) and close.reply_code == 403


def test_an_attempt_that_was_given_up_closes_the_connection_that_comes_late() -> None:
    server = Server("a")
    server.now += 100_000
    server.links.tick(server.now)
    [listener] = server.dialler.listeners
    server.links.set_members({"a": "a:1"}, server.now)
    transport = KeptTransport()
    listener.connected(transport, server.now)
    assert transport.is_closed
    listener.lost("", server.now)
    server.check_at_rest()
