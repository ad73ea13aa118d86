"""Every value survives encoding and decoding with its type, in the most compact form."""

import pytest
from hypothesis import given

from penstock.wire.amqp10.decoding import DEPTH_MAX, decode_value, skip_value
from penstock.wire.amqp10.encoding import encode_value
from penstock.wire.amqp10.values import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Raw,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    Uuid,
)
from tests.wire.amqp10.strategies import VALUE, same


@given(VALUE)
def test_a_value_survives_with_its_type(value: object) -> None:
    encoded = encode_value(value)
    assert same(decode_value(encoded), value)
    assert skip_value(encoded, 0, len(encoded)) == len(encoded)


# From the tables of specification 1.6, computed by hand.
GOLDEN: list[tuple[object, str]] = [
    (None, "40"),
    (True, "41"),
    (False, "42"),
    (UByte(255), "50ff"),
    (UShort(258), "600102"),
    (UInt(0), "43"),
    (UInt(255), "52ff"),
    (UInt(256), "7000000100"),
    (ULong(0), "44"),
    (ULong(255), "53ff"),
    (ULong(256), "800000000000000100"),
    (Byte(-1), "51ff"),
    (Short(-2), "61fffe"),
    (Int(-128), "5480"),
    (Int(128), "7100000080"),
    (127, "557f"),
    (-129, "81ffffffffffffff7f"),
    (Float(1.5), "723fc00000"),
    (-2.0, "82c000000000000000"),
    (Decimal32(b"abcd"), "7461626364"),
    (Decimal64(b"abcdefgh"), "846162636465666768"),
    (Decimal128(b"abcdefghabcdefgh"), "9461626364656667686162636465666768"),
    (Char("€"), "73000020ac"),
    (Timestamp(1), "830000000000000001"),
    (Uuid(bytes(range(16))), "98000102030405060708090a0b0c0d0e0f"),
    (b"ab", "a0026162"),
    (b"a" * 256, "b000000100" + "61" * 256),
    ("é", "a102c3a9"),
    (Symbol("a"), "a30161"),
    ([], "45"),
    ([None, True], "c003024041"),
    ({}, "c10100"),
    ({"a": UInt(1)}, "c10602a101615201"),
    (Described(ULong(0x24), []), "00532445"),
    (Described(Symbol("x"), None), "00a3017840"),
    (Array(0xB3, [Symbol("a"), Symbol("bc")]), "e00702a30161026263"),
    (Array(0x56, [True, False]), "e00402560100"),
    (Array(0x70, []), "e0020070"),
    (Array(0x80, [ULong(1)], ULong(5)), "e00d01005305800000000000000001"),
    (Array(0xD0, [[]]), "e00a01d00000000400000000"),
]


@pytest.mark.parametrize(("value", "octets"), GOLDEN, ids=lambda part: repr(part)[:30])
def test_golden_octets_both_ways(value: object, octets: str) -> None:
    assert encode_value(value).hex() == octets
    assert same(decode_value(bytes.fromhex(octets)), value)


def test_a_list_of_more_than_254_octets_is_written_wide() -> None:
    # 252 octets and their head are 254, and with the count 255: the last that fits.
    assert encode_value([b"a" * 252])[:3].hex() == "c0ff01"
    assert encode_value([b"a" * 253])[:9].hex() == "d00000010300000001"
    assert encode_value([None] * 256)[:9].hex() == "d00000010400000100"


@pytest.mark.parametrize(
    ("octets", "value"),
    [
        ("7000000001", UInt(1)),
        ("800000000000000001", ULong(1)),
        ("7100000001", Int(1)),
        ("810000000000000001", 1),
        ("5601", True),
        ("5600", False),
        ("b00000000161", b"a"),
        ("b10000000161", "a"),
        ("b30000000161", Symbol("a")),
        ("d00000000400000000", []),
        ("d10000000400000000", {}),
    ],
)
def test_the_wide_forms_are_read_as_well(octets: str, value: object) -> None:
    assert same(decode_value(bytes.fromhex(octets)), value)


@pytest.mark.parametrize(
    ("octets", "value"),
    [
        ("e00402530102", Array(0x80, [ULong(1), ULong(2)])),
        ("e00402540102", Array(0x71, [Int(1), Int(2)])),
        ("e0020343", Array(0x70, [UInt(0)] * 3)),
        ("e0020241", Array(0x56, [True, True])),
        ("f00000000700000002520102", Array(0x70, [UInt(1), UInt(2)])),
    ],
)
def test_arrays_of_compact_elements_are_read(octets: str, value: object) -> None:
    assert same(decode_value(bytes.fromhex(octets)), value)


class Unheard(int):
    pass


@pytest.mark.parametrize(
    "value",
    [
        UInt(-1),
        UInt(1 << 32),
        ULong(-1),
        UByte(256),
        Byte(128),
        1 << 63,
        Int(1 << 31),
        Float(1e300),
        Uuid(b"short"),
        {1, 2},
        Unheard(1),
        Array(0x70, ["a"]),
        Array(0xB0, ["a"]),
        Array(0x12, [1]),
        "\ud800",
        Symbol("é"),
    ],
    ids=repr,
)
def test_what_amqp_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        encode_value(value)


def test_nesting_is_written_as_deep_as_it_is_read() -> None:
    value: object = None
    for _ in range(DEPTH_MAX):
        value = [value]
    assert same(decode_value(encode_value(value)), value)
    with pytest.raises(ValueError):
        encode_value([value])


def test_values_tell_what_they_are() -> None:
    assert repr(Uuid(b"\x00" * 16)) == f"Uuid({'00' * 16})"
    assert repr(Described(Symbol("a"), 1)) == "Described('a', 1)"
    assert repr(Array(0x70, [UInt(1)], Symbol("d"))) == "Array(0x70, [1], 'd')"
    assert Decimal32(b"abcd") != Raw(b"abcd")
    assert len({Decimal32(b"abcd"), Decimal32(b"abcd"), Uuid(b"abcd")}) == 2
    assert hash(Described(1, 2)) == hash(Described(1, 2))
    assert hash(Array(0x70, [])) == hash(Array(0x70, []))
