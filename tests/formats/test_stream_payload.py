"""Payloads of a stream's log have the bytes that the drawing says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.octets import Truncated, write_short_string
from penstock.formats.stream_payload import (
    FRAMING_SIZE,
    PayloadParts,
    address_size,
    encode_opening,
    encode_payload,
)

KNOWN = b"\x02ex\x03key\x04\0\0\0head\x05\0\0\0body!"


def test_a_payload_has_known_bytes() -> None:
    assert encode_payload(b"\x02ex\x03key", b"head", b"body!") == KNOWN


def test_what_precedes_the_body_is_the_opening() -> None:
    assert encode_opening(b"\x02ex\x03key", b"head", 5) == KNOWN[: -len(b"body!")]


@given(st.text(max_size=60), st.text(max_size=60), st.binary(), st.binary(), st.binary(max_size=9))
def test_the_parts_of_a_payload_are_found(
    exchange: str, key: str, header: bytes, body: bytes, before: bytes
) -> None:
    address = write_short_string(exchange) + write_short_string(key)
    payload = encode_payload(address, header, body)
    data = before + payload + b"behind"
    parts = PayloadParts(data, len(before))
    assert data[parts.start : parts.header - 4] == address
    assert data[parts.key + 1 : parts.header - 4].decode() == key
    assert data[parts.header : parts.header + parts.header_size] == header
    assert data[parts.body : parts.end] == body
    assert parts.end == len(before) + len(payload)
    assert len(payload) == FRAMING_SIZE - 2 + len(address) + len(header) + len(body)
    assert address_size(payload) == len(address)


def test_a_payload_that_ends_before_the_size_of_its_body_is_refused() -> None:
    PayloadParts(KNOWN[:-5], 0)
    for size in range(len(KNOWN) - 5):
        with pytest.raises(Truncated):
            PayloadParts(KNOWN[:size], 0)
    for size in (0, 1, 2):
        with pytest.raises(Truncated):
            address_size(KNOWN[:size])
