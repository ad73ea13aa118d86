"""Segments: their names, their headers, and places in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.segment import (
    LOCATION_END,
    SEGMENT_HEADER_BYTES,
    decode_segment_header,
    encode_segment_header,
    location_of,
    may_be_torn_header,
    offset_of,
    segment_name,
    segment_number,
    segment_of,
)
from tests.storage.doubles import STORE_ID


@given(number=st.integers(1, (1 << 28) - 1), offset=st.integers(0, (1 << 33) - 1))
def test_a_location_gives_segment_and_offset_back(number: int, offset: int) -> None:
    location = location_of(number, offset)
    assert (segment_of(location), offset_of(location)) == (number, offset)
    assert location == number << 33 | offset
    assert location < LOCATION_END


def test_a_later_place_has_a_higher_location() -> None:
    assert location_of(1, 5) < location_of(1, 6) < location_of(2, 0)


@given(number=st.integers(1, 10**12 - 1))
def test_a_segments_name_gives_its_number_and_sorts_like_it(number: int) -> None:
    assert segment_number(segment_name(number)) == number
    assert segment_name(number) < segment_name(number + 1) or number == 10**12 - 1


@pytest.mark.parametrize(
    "name",
    [
        "journal/1.log",
        "journal/000000000001.txt",
        "journal/.log",
        "journal/00000000000x.log",
        "journal/00000000000\u0661.log",
        "journal/deeper/000000000001.log",
        "000000000001.log",
        "journal/",
    ],
)
def test_other_names_are_no_segments(name: str) -> None:
    assert segment_number(name) == 0


@given(number=st.integers(1, 1 << 40), position=st.integers(0, 1 << 60))
def test_a_header_is_read_as_it_was_written(number: int, position: int) -> None:
    data = encode_segment_header(STORE_ID, number, position)
    assert len(data) == SEGMENT_HEADER_BYTES
    header = decode_segment_header(data + b"what follows")
    assert header is not None
    assert (header.store_id, header.number, header.position) == (STORE_ID, number, position)


def test_any_prefix_of_a_header_may_be_torn_with_or_without_zeros_behind() -> None:
    data = encode_segment_header(STORE_ID, 1, 0)
    for size in range(SEGMENT_HEADER_BYTES):
        padded = data[:size] + bytes(SEGMENT_HEADER_BYTES - size)
        assert decode_segment_header(data[:size]) is None
        if padded != data:
            assert decode_segment_header(padded) is None
        assert may_be_torn_header(data[:size])
        assert may_be_torn_header(padded)


@pytest.mark.parametrize("data", [b"x", b"PENX", b"PEN\0X", b"\0\0\0x", b"text, and more text"])
def test_somebody_elses_octets_are_no_torn_header(data: bytes) -> None:
    assert not may_be_torn_header(data)
