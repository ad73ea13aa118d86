"""Arguments between AMQP 1.0's types and the broker's."""

from decimal import Decimal

import pytest

from penstock.broker import header_values
from penstock.dialects.amqp10.management.arguments import (
    DEPTH_MAX,
    neutral_arguments,
    wire_arguments,
)
from penstock.dialects.amqp10.management.refusals import RequestRefusal
from penstock.wire.amqp10.encoding import encode_value
from penstock.wire.amqp10.values import (
    Array,
    Char,
    Decimal64,
    Described,
    Float,
    Int,
    Symbol,
    Timestamp,
    UByte,
    ULong,
    Uuid,
)


@pytest.mark.parametrize(
    ("value", "neutral"),
    [
        (None, None),
        (True, True),
        (UByte(7), 7),
        (ULong(2**63 - 1), 2**63 - 1),
        (Float(0.5), 0.5),
        (Symbol("s"), "s"),
        (Char("c"), "c"),
        (b"\xff", b"\xff"),
        (Timestamp(1999), header_values.Timestamp(1)),
        (Uuid(bytes(range(16))), "urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f"),
        ([Symbol("a"), UByte(1)], ["a", 1]),
        (Array(0xB3, [Symbol("a")]), ["a"]),
        ({Symbol("k"): ULong(1)}, {"k": 1}),
    ],
)
def test_values_become_plain_ones(value: object, neutral: object) -> None:
    found = neutral_arguments({"x": value})["x"]
    assert found == neutral
    assert type(found) is type(neutral)


def test_keys_become_plain_ones() -> None:
    assert [type(key) for key in neutral_arguments({Symbol("x"): 1})] == [str]


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("x", "arguments must be a map, not string"),
        ({1: 1}, "unsupported argument: a key must be a string, not long"),
        ({"x": ULong(2**63)}, "unsupported argument 'x': needs more than 63 bits"),
        ({"x": {"y": Decimal64(bytes(8))}}, "unsupported argument 'x.y': its type is decimal64"),
        ({"x": [Described(ULong(1), 1)]}, "unsupported argument 'x': its type is described"),
        (
            {"x": nested(DEPTH_MAX)},
            f"unsupported argument 'x': nested deeper than {DEPTH_MAX} levels",
        ),
        (
            {"x" * 256: 1},
            f"unsupported argument '{'x' * 40}...': its key is longer than 255 bytes",
        ),
    ],
)
def test_what_an_argument_cannot_be(arguments: object, text: str) -> None:
    with pytest.raises(RequestRefusal) as caught:
        neutral_arguments(arguments)
    assert (caught.value.status, caught.value.text) == (400, text)


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (5, Int(5)),
        (-(2**31), Int(-(2**31))),
        (2**31, 2**31),
        (True, True),
        ("text", "text"),
        ("\udcff", b"\xff"),
        (header_values.Timestamp(2), Timestamp(2000)),
        (Decimal("1.5"), "1.5"),
        ({"k": [1]}, {"k": [Int(1)]}),
    ],
)
def test_values_are_told_in_a_type_of_the_wire(value: object, wire: object) -> None:
    found = wire_arguments({"x": value})["x"]
    assert found == wire
    assert type(found) is type(wire)


def test_whatever_nesting_the_broker_holds_can_be_told() -> None:
    kept = neutral_arguments({"x": nested(DEPTH_MAX - 1)})
    assert wire_arguments(kept) == {"x": nested(DEPTH_MAX - 1)}
    # A table of AMQP 0-9-1, in a list of bindings.
    encode_value([{"arguments": wire_arguments({"x": nested(31)})}])
