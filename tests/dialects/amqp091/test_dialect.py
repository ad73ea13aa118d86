"""Headers that are kept for the next message with the same octets, and how many."""

from __future__ import annotations

import pytest

from penstock.dialects.amqp091.dialect import (
    KEPT_HEADER_BYTES_MAX,
    PROPERTIES_MAX,
    Dialect091,
    wrap,
)
from penstock.formats.octets import Malformed
from penstock.wire.amqp091.content import BasicProperties, encode_header
from tests.dialects.amqp091.doubles import OpenChannel


@pytest.fixture
def dialect() -> Dialect091:
    found = OpenChannel().channel.dialect
    found.properties.clear()
    return found


def header_of(**fields: object) -> bytes:
    return encode_header(1, BasicProperties(**fields))  # type: ignore[arg-type]


def test_a_header_is_kept_under_its_octets(dialect: Dialect091) -> None:
    header = header_of(content_type="t")
    found = dialect.read_properties(header)
    assert dialect.properties == {header: found}


def test_a_long_header_is_not_kept(dialect: Dialect091) -> None:
    padding = KEPT_HEADER_BYTES_MAX - len(header_of(headers={"a": ""}))
    longest = header_of(headers={"a": "x" * padding})
    assert len(longest) == KEPT_HEADER_BYTES_MAX
    dialect.read_properties(longest)
    dialect.read_properties(header_of(headers={"a": "x" * (padding + 1)}))
    assert list(dialect.properties) == [longest]


def test_too_many_headers_are_all_dropped_and_the_new_one_kept(dialect: Dialect091) -> None:
    headers = [header_of(type_=str(number)) for number in range(PROPERTIES_MAX + 1)]
    for header in headers[:-1]:
        dialect.read_properties(header)
    assert len(dialect.properties) == PROPERTIES_MAX
    dialect.read_properties(headers[-1])
    assert list(dialect.properties) == [headers[-1]]


def test_a_header_that_would_not_be_let_in_today_is_read_back_and_not_kept(
    dialect: Dialect091,
) -> None:
    header = header_of(type_="\udca1")
    assert not dialect.read_stored_properties(header).is_utf8
    assert dialect.properties == {}
    with pytest.raises(Malformed):
        dialect.read_properties(header)
    good = header_of(type_="t")
    assert dialect.read_stored_properties(good) is dialect.properties[good]


def test_octets_of_the_brokers_own_are_a_persistent_message() -> None:
    message = wrap(b"octets")
    assert (message.body, message.properties.persistent) == (b"octets", True)
    assert (message.address.exchange, message.address.routing_key) == ("", "")
