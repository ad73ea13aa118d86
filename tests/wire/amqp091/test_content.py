"""Content headers: all properties there and back, and the broker's scan agrees with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.octets import Malformed
from penstock.wire.amqp091.content import (
    BasicProperties,
    body_size_of,
    decode_properties,
    encode_header,
    scan_properties,
)
from penstock.wire.amqp091.field_table import decode_table

text = st.none() | st.text(max_size=60)
octet = st.none() | st.integers(0, 255)
properties_strategy = st.builds(
    BasicProperties,
    text,
    text,
    st.none() | st.dictionaries(st.text(max_size=20), st.integers(-5, 5) | st.text(), max_size=3),
    octet,
    octet,
    text,
    text,
    text,
    text,
    st.none() | st.integers(0, (1 << 64) - 1),
    text,
    text,
    text,
    text,
)


@given(properties_strategy, st.integers(0, (1 << 64) - 1))
def test_properties_survive_encoding_and_decoding(properties: BasicProperties, size: int) -> None:
    header = encode_header(size, properties)
    assert decode_properties(header) == properties
    assert body_size_of(header) == size


@given(properties_strategy)
def test_the_scan_finds_what_decoding_finds(properties: BasicProperties) -> None:
    header = encode_header(0, properties)
    found = scan_properties(header)
    mode = -1 if properties.delivery_mode is None else properties.delivery_mode
    priority = -1 if properties.priority is None else properties.priority
    assert (found.delivery_mode, found.priority) == (mode, priority)
    assert found.expiration == properties.expiration
    assert found.user_id == properties.user_id
    assert found.reply_to == properties.reply_to
    if properties.headers is None:
        assert found.headers_start == found.headers_end == 0
    else:
        table = header[found.headers_start : found.headers_end]
        assert decode_table(table, 0) == properties.headers


@given(properties_strategy, st.data())
def test_a_header_cut_anywhere_is_refused(properties: BasicProperties, data: st.DataObject) -> None:
    header = encode_header(1, properties)
    cut = data.draw(st.integers(0, len(header) - 1))
    with pytest.raises(Malformed):
        decode_properties(header[:cut])
    with pytest.raises(Malformed):
        scan_properties(header[:cut])


# Each property that is a text, by its flag.
TEXT_FLAGS = (0x8000, 0x4000, 0x0400, 0x0200, 0x0100, 0x0080, 0x0020, 0x0010, 0x0008, 0x0004)


@pytest.mark.parametrize("flag", TEXT_FLAGS)
def test_a_text_that_is_not_utf_8_is_refused_unless_it_was_let_in_before(flag: int) -> None:
    header = b"\x00\x3c" + b"\x00" * 10 + flag.to_bytes(2, "big") + b"\x02a\xa1"
    with pytest.raises(Malformed, match="not UTF-8"):
        scan_properties(header)
    scan_properties(header, must_be_utf8=False)
    assert encode_header(0, decode_properties(header)) == header


def test_a_text_of_several_octets_a_character_is_utf_8() -> None:
    header = encode_header(0, BasicProperties(content_type="é", app_id="\N{OWL}"))
    scan_properties(header)


@given(st.binary(max_size=120))
def test_any_octets_give_properties_or_a_typed_error(octets: bytes) -> None:
    for reader in (decode_properties, scan_properties):
        try:
            reader(b"\x00\x3c" + b"\x00" * 10 + octets)
        except Malformed:
            continue


@pytest.mark.parametrize("flags", [b"\x00\x01", b"\x00\x02"])
def test_flags_that_mean_nothing_are_refused(flags: bytes) -> None:
    with pytest.raises(Malformed, match="flags"):
        scan_properties(b"\x00\x3c" + b"\x00" * 10 + flags + b"\x00\x00")


def test_octets_after_the_last_property_are_refused() -> None:
    header = encode_header(0, BasicProperties(priority=1)) + b"\x00"
    for reader in (decode_properties, scan_properties):
        with pytest.raises(Malformed, match="1 octets after"):
            reader(header)


def test_equal_properties_are_equal_as_keys() -> None:
    assert len({BasicProperties(priority=1), BasicProperties(priority=1)}) == 1
    assert BasicProperties(priority=1) != BasicProperties(priority=2)
    assert "BasicProperties" in repr(BasicProperties())
