"""Addresses of members, as operators write them."""

import pytest

from penstock.cluster.peer_address import dial_address
from penstock.world.network import DialAddress


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:5672", DialAddress("127.0.0.1", 5672)),
        ("amqps://broker.example:5671", DialAddress("broker.example", 5671, is_tls=True)),
        ("[::1]:5672", DialAddress("::1", 5672)),
    ],
)
def test_an_address_is_understood_and_written_the_same_way(
    text: str, expected: DialAddress
) -> None:
    assert dial_address(text) == expected
    assert str(expected) == text


@pytest.mark.parametrize(
    "text",
    ["", "host", ":5672", "host:", "host:0", "host:65536", "host:x", "amqp://host:1", "host:1/v"],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid address of a member"):
        dial_address(text)
