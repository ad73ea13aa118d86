"""Field tables keep value and type through decoding and encoding."""

import struct
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.formats.octets import Malformed, Truncated
from penstock.wire.amqp091.field_table import (
    DEPTH_MAX,
    Timestamp,
    check_table,
    decode_table,
    encode_table,
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.builds(Timestamp, st.integers(0, (1 << 64) - 1)),
    st.builds(
        lambda unscaled, scale: Decimal(unscaled).scaleb(-scale),
        st.integers(-(1 << 31), (1 << 31) - 1),
        st.integers(0, 255),
    ),
)
names = st.text(max_size=60)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
tables = st.dictionaries(names, values, max_size=6)


def field(kind: bytes, octets: bytes) -> bytes:
    inner = b"\x01k" + kind + octets
    return struct.pack(">I", len(inner)) + inner


def typed(value: object) -> object:
    """For comparison: True and 1, 1 and 1.0 are equal in Python but not on the wire."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    if isinstance(value, Decimal):
        return value.as_tuple()
    return type(value), value


@given(tables)
def test_a_table_survives_encoding_and_decoding_with_its_types(table: dict[str, object]) -> None:
    encoded = encode_table(table)
    assert typed(decode_table(encoded, 0)) == typed(table)
    assert encode_table(decode_table(encoded, 0)) == encoded


@given(tables, st.data())
def test_a_table_cut_anywhere_is_refused(table: dict[str, object], data: st.DataObject) -> None:
    encoded = encode_table(table)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(Truncated):
        decode_table(encoded[:cut], 0)


def refusal(reader: Callable[[bytes, int], object], octets: bytes) -> str:
    try:
        reader(octets, 0)
    except Malformed as refused:
        return type(refused).__name__
    return ""


@given(tables, st.data())
def test_a_check_refuses_what_decoding_refuses(
    table: dict[str, object], data: st.DataObject
) -> None:
    octets = bytearray(encode_table(table))
    assert refusal(check_table, bytes(octets)) == ""
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(octets) - 1))
        octets[at] = data.draw(st.integers(0, 255) | st.sampled_from(b"tbBsuIilLfdDSxTAFV"))
    assert refusal(check_table, bytes(octets)) == refusal(decode_table, bytes(octets))


@given(st.binary(max_size=200))
def test_any_octets_give_a_table_or_a_typed_error(octets: bytes) -> None:
    data = struct.pack(">I", len(octets)) + octets
    try:
        table = decode_table(data, 0)
    except Malformed:
        return
    assert typed(decode_table(encode_table(table), 0)) == typed(table) or "nan" in repr(table)


@pytest.mark.parametrize(
    ("kind", "octets", "value"),
    [
        (b"t", b"\x01", True),
        (b"b", b"\xff", -1),
        (b"B", b"\xff", 255),
        (b"s", b"\xff\xfe", -2),
        (b"u", b"\xff\xfe", 65_534),
        (b"I", b"\xff\xff\xff\xfd", -3),
        (b"i", b"\xff\xff\xff\xfd", 4_294_967_293),
        (b"l", b"\xff" * 8, -1),
        (b"L", b"\xff" * 8, -1),
        (b"f", b"\x3f\xc0\x00\x00", 1.5),
        (b"d", b"\x3f\xf8\x00\x00\x00\x00\x00\x00", 1.5),
        (b"D", b"\x02\x00\x00\x00\x7b", Decimal("1.23")),
        (b"D", b"\x02\xff\xff\xff\x85", Decimal("-1.23")),
        (b"S", b"\x00\x00\x00\x02\xc3\xa9", "é"),
        (b"S", b"\x00\x00\x00\x01\xff", "\udcff"),
        (b"x", b"\x00\x00\x00\x02\x00\xff", b"\x00\xff"),
        (b"T", b"\x00\x00\x00\x00\x00\x00\x00\x05", Timestamp(5)),
        (b"V", b"", None),
        (b"A", b"\x00\x00\x00\x03t\x00V", [False, None]),
        (b"F", b"\x00\x00\x00\x04\x01at\x01", {"a": True}),
    ],
)
def test_every_type_letter_is_read_as_rabbitmq_reads_it(
    kind: bytes, octets: bytes, value: object
) -> None:
    assert typed(decode_table(field(kind, octets), 0)) == typed({"k": value})


def test_octets_that_are_no_text_come_back_unchanged() -> None:
    for encoded in (field(b"S", b"\x00\x00\x00\x02\xff\xc3"), b"\x00\x00\x00\x03\x01\xffV"):
        assert encode_table(decode_table(encoded, 0)) == encoded


def test_an_unknown_letter_is_refused() -> None:
    with pytest.raises(Malformed, match="unknown field type b'Z'"):
        decode_table(field(b"Z", b""), 0)


@pytest.mark.parametrize("kind", [b"S", b"x", b"A", b"F", b"l", b"t", b"D"])
def test_a_value_may_not_reach_beyond_its_table(kind: bytes) -> None:
    # The octets are there, but behind the end of the table.
    encoded = field(kind, b"")
    with pytest.raises(Truncated):
        decode_table(encoded + b"\x00" * 16, 0)


def test_an_inner_table_may_not_reach_beyond_the_outer_one() -> None:
    with pytest.raises(Truncated):
        decode_table(field(b"F", b"\x00\x00\x00\x04") + b"\x01at\x01", 0)


def test_nesting_is_limited_both_ways() -> None:
    deepest: object = 1
    for _ in range(DEPTH_MAX - 1):
        deepest = [deepest]
    assert decode_table(encode_table({"k": deepest}), 0) == {"k": deepest}
    with pytest.raises(ValueError, match="deeper"):
        encode_table({"k": [deepest]})
    table: dict[str, object] = {}
    for _ in range(DEPTH_MAX):
        table = {"k": table}
    with pytest.raises(ValueError, match="deeper"):
        encode_table(table)
    bomb = b""
    for _ in range(5000):
        bomb = b"A" + struct.pack(">I", len(bomb)) + bomb
    with pytest.raises(Malformed, match="deeper"):
        decode_table(field(bomb[:1], bomb[1:]), 0)


@pytest.mark.parametrize(
    "value",
    [
        1 << 63,
        object(),
        Decimal("NaN"),
        Decimal(1) / 3,
        Decimal("1e9999999"),
        Decimal("1e-300"),
    ],
)
def test_what_no_field_type_can_hold_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        encode_table({"k": value})


def test_a_long_name_is_refused() -> None:
    with pytest.raises(ValueError, match="256"):
        encode_table({"k" * 256: None})


def test_a_decimal_without_a_fraction_is_written_as_what_it_is() -> None:
    assert decode_table(encode_table({"k": Decimal("12e2")}), 0) == {"k": Decimal(1200)}


def test_timestamps_compare_by_their_seconds() -> None:
    assert Timestamp(1) == Timestamp(1)
    assert Timestamp(1) != Timestamp(2)
    assert len({Timestamp(1), Timestamp(1)}) == 1
    assert repr(Timestamp(1)) == "Timestamp(1)"
