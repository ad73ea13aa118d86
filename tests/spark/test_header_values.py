"""A header's text and type give its value again."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.header_values import TYPES, text_of, value_of
from penstock.wire.amqp091.field_table import Timestamp

SIMPLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.integers(0, 2**63 - 1).map(Timestamp),
)
NAMES = st.text(max_size=8) | st.sampled_from(["$binary", "$table", "$"])
VALUE = st.recursive(
    SIMPLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=10,
)


@given(VALUE)
def test_a_value_comes_back_with_its_type(value: object) -> None:
    kind, text = text_of(value)
    assert kind in TYPES
    again = value_of(kind, text)
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ("5", "string", "5"),
        (5, "integer", "5"),
        (True, "boolean", "true"),
        (0.1, "double", "0.1"),
        (-math.inf, "double", "-Infinity"),
        (Decimal("1.50"), "decimal", "1.50"),
        (Timestamp(1_700_000_000), "timestamp", "1700000000"),
        (b"\xff\x00", "binary", "/wA="),
        (b"\xff".decode(errors="surrogateescape"), "binary", "/w=="),
        (None, "void", None),
        ([1, b"\xff"], "array", '[1, {"$binary": "/w=="}]'),
        ({"at": Timestamp(5)}, "table", '{"at": {"$timestamp": "5"}}'),
        ({"deep": {"$binary": 1}}, "table", '{"deep": {"$table": {"$binary": 1}}}'),
        ([math.nan], "array", '[{"$double": "NaN"}]'),
    ],
)
def test_texts_are_what_people_read(value: object, kind: str, text: str | None) -> None:
    assert text_of(value) == (kind, text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [("integer", "x"), ("binary", "!"), ("boolean", "yes"), ("array", "{}"), ("nothing", "x")],
)
def test_a_text_that_is_not_of_its_type_is_refused(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid"):
        value_of(kind, text)
