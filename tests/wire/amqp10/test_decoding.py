"""What is no value is refused, and nothing that is small on the wire becomes large here."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.octets import Malformed
from penstock.wire.amqp10.decoding import (
    DEPTH_MAX,
    ZERO_WIDTH_MAX,
    Reader,
    decode_value,
    skip_value,
)
from penstock.wire.amqp10.encoding import encode_value
from penstock.wire.amqp10.values import Array
from tests.wire.amqp10.strategies import VALUE


@pytest.mark.parametrize(
    "octets",
    [
        "",
        "46",  # no such constructor
        "57",
        "a2",
        "a20161",
        "c2",
        "10",
        "ff",
        "5602",  # a boolean that is neither
        "52",  # cut
        "700000",
        "a001",
        "b0ffffffff",
        "a101ff",  # no UTF-8
        "a301ff",  # no ASCII
        "7300110000",  # no character
        "c000",  # no room for the count
        "c0020240",  # two values, one there
        "c00340",
        "c003014040",  # one value, two there
        "d000000003000000",
        "c1020140",  # a key without a value
        "c103024540",  # a list as a key
        "c10502c1010040",  # a map as a key
        "00",
        "0040",
        "005324",
        "e001",
        "e00201",
        "e0020100",
        "e0040100530000",
        "e003010057",
        "4040",  # two values
        "60ff",
        "e003025301",  # an element too few
        "e00401530102",
        "e0050153010203",
    ],
)
def test_what_is_no_value_is_refused(octets: str) -> None:
    with pytest.raises(Malformed):
        decode_value(bytes.fromhex(octets))


@pytest.mark.parametrize("octets", ["c103024540", "c10502c1010040", "c10602e002004040"])
def test_keys_of_maps_are_simple(octets: str) -> None:
    with pytest.raises(Malformed, match="is not a valid map key"):
        decode_value(bytes.fromhex(octets))


@given(st.binary(max_size=60))
def test_any_octets_are_a_value_or_malformed(octets: bytes) -> None:
    try:
        decode_value(octets)
    except Malformed:
        pass
    try:
        assert 0 < skip_value(octets, 0, len(octets)) <= len(octets)
    except Malformed:
        pass


@given(VALUE, st.data())
def test_a_value_that_is_cut_or_damaged_is_a_value_or_malformed(
    value: object, data: st.DataObject
) -> None:
    encoded = bytearray(encode_value(value))
    encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(encoded)))
    for octets in (bytes(encoded), bytes(encoded[:cut])):
        try:
            decode_value(octets)
        except Malformed:
            pass


@given(VALUE, st.binary(max_size=5), st.binary(max_size=5))
def test_a_reader_keeps_between_its_bounds(value: object, before: bytes, behind: bytes) -> None:
    encoded = encode_value(value)
    reader = Reader(before + encoded + behind, len(before), len(before) + len(encoded))
    reader.value()
    assert reader.at == len(before) + len(encoded)
    with pytest.raises(Malformed):
        reader.value()


@pytest.mark.parametrize("opening", ["c0ff01", "00", "0040", "c1ff0240", "e0ff01e0"])
def test_deep_nesting_is_refused(opening: str) -> None:
    octets = bytes.fromhex(opening) * 100_000
    with pytest.raises(Malformed):
        decode_value(octets)


def test_deep_descriptors_are_not_skipped_either() -> None:
    for octets in (b"\x00" * 1000, b"\x00\x40" * 1000):
        with pytest.raises(Malformed):
            skip_value(octets, 0, len(octets))


def test_described_values_nest_as_deep_as_lists() -> None:
    assert decode_value(b"\x00\x40" * DEPTH_MAX + b"\x40") is not None
    with pytest.raises(Malformed, match="deeper"):
        decode_value(b"\x00\x40" * (DEPTH_MAX + 1) + b"\x40")


@pytest.mark.parametrize("constructor", ["40", "41", "43", "44", "45"])
def test_an_array_of_elements_without_octets_cannot_be_huge(constructor: str) -> None:
    with pytest.raises(Malformed, match="more values than octets"):
        decode_value(bytes.fromhex("f000000005ffffffff" + constructor))
    few = decode_value(bytes.fromhex("f000000005000000ff" + constructor))
    assert isinstance(few, Array)
    assert len(few.items) == 255


def test_arrays_of_such_arrays_share_one_allowance() -> None:
    inner = b"\x02\xff\x40"  # 255 nulls in three octets
    count = 200
    octets = b"\xf0" + (5 + 3 * count).to_bytes(4, "big") + count.to_bytes(4, "big") + b"\xe0"
    with pytest.raises(Malformed, match="more values than octets"):
        decode_value(octets + inner * count)
    assert ZERO_WIDTH_MAX < 1000


def test_a_count_that_lies_ends_with_the_octets() -> None:
    with pytest.raises(Malformed):
        decode_value(bytes.fromhex("d000000005ffffffff40"))
