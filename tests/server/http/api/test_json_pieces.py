"""Large JSON objects in pieces are the same objects."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.http.api.json_pieces import PIECE_ROWS, json_in_pieces, object_from_pieces

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), VALUES), st.sampled_from([None, 1]))
def test_an_object_is_read_as_the_interpreter_reads_it(
    value: dict[str, object], indent: int | None
) -> None:
    infinite = json.dumps(value, indent=indent).find("Infinity") >= 0
    if not infinite:
        assert object_from_pieces(json.dumps(value, indent=indent)) == value
        assert json.loads(json_in_pieces(value)) == value


@pytest.mark.parametrize("count", [0, 1, PIECE_ROWS, PIECE_ROWS + 1])
def test_long_lists_are_written_whole(count: int) -> None:
    value: dict[str, object] = {"rows": [{"n": n} for n in range(count)], "last": True}
    assert json.loads(json_in_pieces(value)) == value


def test_floats_that_are_no_numbers_are_texts() -> None:
    value: dict[str, object] = {"rows": [math.nan, {"a": math.inf}]}
    assert json.loads(json_in_pieces(value)) == {"rows": ["nan", {"a": "inf"}]}


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "{}x", '{"a"}', '{"a":}', '{"a":[1,]}', '{"a":[1 2]}', "{1:2}", '{"a":NaN}'],
)
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        object_from_pieces(text)
