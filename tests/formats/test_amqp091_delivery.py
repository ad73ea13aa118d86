"""Deliveries that are put together from parts have the bytes of deliveries that are encoded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats import amqp091_delivery as delivery
from penstock.formats.amqp091_frames import END, encode_content
from penstock.formats.octets import LAST_OCTETS, read_u64, write_short_string
from penstock.wire.amqp091.methods_generated import BasicDeliver

NAMES = st.text(max_size=40)
CHANNEL = b"\x00\x07"


def test_a_delivery_has_known_bytes() -> None:
    opening = delivery.deliver_opening(b"ct")
    start = delivery.delivery_start(CHANNEL, opening, delivery.DELIVER_FIXED_SIZE + 2 + 4)
    assert start == b"\x01\x00\x07\0\0\0\x14\x00\x3c\x00\x3c\x02ct"
    middle = delivery.delivery_middle(CHANNEL, b"\x01e\x01k", b"head", 3)
    assert middle == b"\0\x01e\x01k\xce\x02\x00\x07\0\0\0\x04head\xce\x03\x00\x07\0\0\0\x03"


@given(NAMES, NAMES, NAMES, st.integers(1, 2**63 - 1), st.binary(min_size=14), st.binary())
def test_the_parts_make_the_frames_of_a_delivery(
    consumer_tag: str, exchange: str, key: str, tag: int, header: bytes, body: bytes
) -> None:
    address = write_short_string(exchange) + write_short_string(key)
    octets = consumer_tag.encode()
    method_size = delivery.DELIVER_FIXED_SIZE + len(octets) + len(address)
    parts = [
        delivery.delivery_start(CHANNEL, delivery.deliver_opening(octets), method_size),
        (tag >> 8).to_bytes(7, "big"),
        LAST_OCTETS[tag & 0xFF],
        delivery.delivery_middle(CHANNEL, address, header, len(body)),
    ]
    if body:
        parts += [body, END]
    method = BasicDeliver(consumer_tag, tag, False, exchange, key).encode()
    assert b"".join(parts) == encode_content(7, method, header, body)


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_a_middle_in_two_parts_is_the_same_middle(before: bytes, after: bytes, body: bytes) -> None:
    offset = bytes(range(8))
    header = before + offset + after
    address = b"\x01e\x01k"
    first = delivery.delivery_middle_before(CHANNEL, address, len(header), before)
    rest = delivery.delivery_middle_after(CHANNEL, after, len(body))
    whole = delivery.delivery_middle(CHANNEL, address, header, len(body))
    assert first + offset + rest == whole


@pytest.mark.parametrize("redelivered", [False, True])
def test_the_method_by_itself_is_the_encoded_one(redelivered: bool) -> None:
    method = delivery.deliver_method(
        delivery.deliver_opening(b"ct"), 2**40, redelivered, b"\x01e\x01k"
    )
    assert method == BasicDeliver("ct", 2**40, redelivered, "e", "k").encode()
    names_at = delivery.CONSUMER_TAG_AT + 1 + 2 + delivery.TAG_AND_FLAG_SIZE
    assert method[names_at:] == b"\x01e\x01k"
    assert read_u64(method, names_at - delivery.TAG_AND_FLAG_SIZE) == 2**40
    assert len(method) == delivery.DELIVER_FIXED_SIZE + 2 + 4


def test_the_largest_method_has_a_size_among_those_that_are_kept() -> None:
    largest = BasicDeliver("c" * 255, 1, False, "e" * 255, "k" * 255).encode()
    assert len(delivery.DELIVER_SIZES) == len(largest) + 1
    assert delivery.DELIVER_SIZES[len(largest)] == len(largest).to_bytes(4, "big")


def test_the_last_octets_of_a_tag_are_those_with_the_flag_of_a_first_delivery() -> None:
    for octet, flagged in enumerate(delivery.LAST_OCTETS_AND_FLAG):
        assert flagged == bytes([octet]) + delivery.NOT_REDELIVERED
