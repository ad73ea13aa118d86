"""SCRAM-SHA-256 says what RFC 7677 says, and notices every wrong word."""

from base64 import b64decode
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.formats.octets import Malformed
from penstock.formats.scram_keys import ScramKeys, derive
from penstock.wire.scram import ScramClient, ScramServer

# RFC 7677, section 3.
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def credentials() -> ScramKeys:
    return derive("pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)


def test_the_conversation_of_the_rfc() -> None:
    client = ScramClient("user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    server = ScramServer(NONCE)
    assert client.start() == CLIENT_FIRST
    assert server.start(CLIENT_FIRST) == "user"
    assert server.challenge(credentials()) == SERVER_FIRST
    assert client.answer(SERVER_FIRST) == CLIENT_FINAL
    assert server.finish(CLIENT_FINAL) == SERVER_FINAL
    assert client.verify(SERVER_FINAL)
    assert not client.verify(b"v=" + SERVER_FINAL[2:].swapcase())


def test_a_wrong_password_is_told_by_nothing() -> None:
    client = ScramClient("user", "pen", "rOprNGfwEbeRWgbNEkqO")
    server = ScramServer(NONCE)
    server.start(client.start())
    assert server.finish(client.answer(server.challenge(credentials()))) is None


def test_a_changed_nonce_or_binding_is_noticed() -> None:
    for wrong in (
        CLIENT_FINAL.replace(b"r=rOp", b"r=xxx"),
        CLIENT_FINAL.replace(b"biws", b"eSws"),
    ):
        server = ScramServer(NONCE)
        server.start(CLIENT_FIRST)
        server.challenge(credentials())
        assert server.finish(wrong) is None


@pytest.mark.parametrize(
    "message",
    [b"", b"n,,", b"p=tls-unique,,n=u,r=x", b"x,,n=u,r=x", b"n,,r=x,n=u", b"\xff", b"n,,n=u"],
)
def test_what_is_no_client_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(Malformed):
        ScramServer("n").start(message)


@pytest.mark.parametrize(
    "message", [b"", b"c=biws,r=x", b"c=biws,r=x,p=???", b"c=*,r=x,p=AAAA", b"\xff"]
)
def test_what_is_no_client_final_message_is_refused(message: bytes) -> None:
    server = ScramServer("")
    server.start(b"n,,n=u,r=x")
    server.challenge(credentials())
    with pytest.raises(Malformed):
        server.finish(message)


@pytest.mark.parametrize(
    "message",
    [
        b"r=other,s=AAAA,i=4096",
        b"r=mine,s=AAAA,i=4096",  # nothing of the server's
        b"r=mine1,s=AAAA,i=1",
        b"r=mine1,s=AAAA,i=99999999",
        b"r=mine1,s=AAAA,i=x",
        b"r=mine1,s=?,i=4096",
        b"e=other-error",
    ],
)
def test_a_client_does_not_answer_what_is_no_challenge(message: bytes) -> None:
    with pytest.raises(Malformed):
        ScramClient("u", "p", "mine").answer(message)


def test_a_client_that_was_not_asked_verifies_nothing() -> None:
    assert not ScramClient("u", "p", "mine").verify(b"v=")


@settings(max_examples=20, deadline=None)
@given(st.text(min_size=1, max_size=10), st.text(max_size=10))
def test_any_user_and_password_come_through(user: str, password: str) -> None:
    client = ScramClient(user, password, "cn")
    server = ScramServer("sn")
    assert server.start(client.start()) == normalize("NFKC", user)
    final = server.finish(client.answer(server.challenge(derive(password, b"salt", 4096))))
    assert final is not None
    assert client.verify(final)
