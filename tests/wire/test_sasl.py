"""Logins: SASL PLAIN and, beside it, AMQPLAIN."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.octets import Malformed
from penstock.wire.amqp091.amqplain import amqplain_response, parse_amqplain
from penstock.wire.sasl import parse_plain, plain_response

names = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))


@given(names, names)
def test_plain_survives(user: str, password: str) -> None:
    assert parse_plain(plain_response(user, password)) == (user, password)


@given(names, names)
def test_amqplain_survives(user: str, password: str) -> None:
    assert parse_amqplain(amqplain_response(user, password)) == (user, password)


def test_the_authorisation_identity_of_plain_is_ignored() -> None:
    assert parse_plain(b"somebody\x00guest\x00secret") == ("guest", "secret")


@pytest.mark.parametrize("response", [b"", b"guest", b"\x00guest", b"\0a\0b\0c", b"\0\xff\0x"])
def test_a_malformed_plain_response_is_refused(response: bytes) -> None:
    with pytest.raises(Malformed):
        parse_plain(response)


@pytest.mark.parametrize("name", ["a\x00b", "\x00"])
def test_plain_cannot_carry_nul(name: str) -> None:
    with pytest.raises(ValueError, match="NUL"):
        plain_response(name, "x")


@pytest.mark.parametrize(
    "response",
    [b"", b"junk", b"\x05LOGINS\x00\x00\x00\x01a", b"\x05LOGINV\x08PASSWORDV"],
)
def test_a_malformed_amqplain_response_is_refused(response: bytes) -> None:
    with pytest.raises(Malformed):
        parse_amqplain(response)
