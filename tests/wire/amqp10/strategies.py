"""Hypothesis strategies for AMQP 1.0 values, and equality that also looks at types."""

from __future__ import annotations

import struct

from hypothesis import strategies as st

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
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    Uuid,
)

ASCII = st.text(st.characters(min_codepoint=0, max_codepoint=127), max_size=20)


def signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def unsigned(bits: int) -> st.SearchStrategy[int]:
    return st.integers(0, (1 << bits) - 1)


# By the constructor that an array of them has.
SCALARS: dict[int, st.SearchStrategy[object]] = {
    0x40: st.none(),
    0x56: st.booleans(),
    0x50: unsigned(8).map(UByte),
    0x60: unsigned(16).map(UShort),
    0x70: unsigned(32).map(UInt),
    0x80: unsigned(64).map(ULong),
    0x51: signed(8).map(Byte),
    0x61: signed(16).map(Short),
    0x71: signed(32).map(Int),
    0x81: signed(64),
    0x72: st.floats(width=32, allow_nan=False).map(Float),
    0x82: st.floats(allow_nan=False),
    0x83: signed(64).map(Timestamp),
    0x73: st.characters().map(Char),
    0x74: st.binary(min_size=4, max_size=4).map(Decimal32),
    0x84: st.binary(min_size=8, max_size=8).map(Decimal64),
    0x94: st.binary(min_size=16, max_size=16).map(Decimal128),
    0x98: st.binary(min_size=16, max_size=16).map(Uuid),
    0xB0: st.binary(max_size=300),
    0xB1: st.text(max_size=300),
    0xB3: ASCII.map(Symbol),
}
SCALAR = st.one_of(*SCALARS.values())


def array_of(code: int) -> st.SearchStrategy[Array]:
    items = st.lists(SCALARS[code], max_size=5)
    descriptor = st.none() | ASCII.map(Symbol) | unsigned(64).map(ULong)
    return st.builds(Array, st.just(code), items, descriptor)


ARRAY = st.sampled_from(list(SCALARS)).flatmap(array_of)


def distinct(pairs: list[tuple[object, object]]) -> dict[object, object]:
    """1 and True are one key in Python and two in AMQP."""
    return dict(pairs)


def nested(children: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return (
        st.lists(children, max_size=5)
        | st.lists(st.tuples(SCALAR, children), max_size=4).map(distinct)
        | st.builds(Described, SCALAR, children)
        | st.builds(Array, st.just(0xD0), st.lists(st.lists(children, max_size=3), max_size=3))
        | st.builds(Array, st.just(0xF0), st.lists(ARRAY, max_size=3))
        | st.builds(
            Array,
            st.just(0xD1),
            st.lists(st.lists(st.tuples(SCALAR, children), max_size=2).map(distinct), max_size=2),
        )
    )


VALUE = st.recursive(SCALAR | ARRAY, nested, max_leaves=12)


def same(one: object, other: object) -> bool:
    """Equal, and of the same AMQP type all through."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float) and isinstance(other, float):
        return struct.pack(">d", one) == struct.pack(">d", other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return same([*one.keys(), *one.values()], [*other.keys(), *other.values()])
    if isinstance(one, Described) and isinstance(other, Described):
        return same(one.descriptor, other.descriptor) and same(one.value, other.value)
    if isinstance(one, Array) and isinstance(other, Array):
        return (
            one.code == other.code
            and same(one.descriptor, other.descriptor)
            and same(one.items, other.items)
        )
    return one == other
