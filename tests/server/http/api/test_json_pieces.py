"""Large JSON objects in pieces are the same objects."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.http.api.json_pieces import (
    MEMBERS_MAX,
    PIECE_ROWS,
    VALUE_CHARACTERS_MAX,
    json_in_pieces,
    list_in_pieces,
    object_from_pieces,
)
from penstock.server.http.api.pace import Pace

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def read_back(value: dict[str, object]) -> object:
    """Of a copy, whose lists are emptied."""
    copied = {
        name: list(member) if isinstance(member, list) else member for name, member in value.items()
    }
    return json.loads(b"".join(json_in_pieces(copied, Pace())))


@given(st.dictionaries(st.text(), VALUES), st.sampled_from([None, 1]))
def test_an_object_is_read_as_the_interpreter_reads_it(
    value: dict[str, object], indent: int | None
) -> None:
    infinite = json.dumps(value, indent=indent).find("Infinity") >= 0
    if not infinite:
        assert object_from_pieces(json.dumps(value, indent=indent)) == value
        assert read_back(value) == value


@pytest.mark.parametrize("count", [0, 1, PIECE_ROWS, PIECE_ROWS + 1])
def test_long_lists_are_written_whole(count: int) -> None:
    value: dict[str, object] = {"rows": [{"n": n} for n in range(count)], "last": True}
    assert read_back(value) == value


def test_floats_that_are_no_numbers_are_texts() -> None:
    value: dict[str, object] = {"rows": [math.nan, {"a": math.inf}]}
    assert read_back(value) == {"rows": ["nan", {"a": "inf"}]}


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "{}x", '{"a"}', '{"a":}', '{"a":[1,]}', '{"a":[1 2]}', "{1:2}", '{"a":NaN}'],
)
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        object_from_pieces(text)


def test_rows_are_forgotten_as_they_are_written() -> None:
    rows: list[object] = [{"n": n} for n in range(3 * PIECE_ROWS)]
    json_in_pieces({"rows": rows}, Pace())
    assert not rows


def test_a_long_object_comes_in_many_pieces() -> None:
    value: dict[str, object] = {"rows": ["x" * 1000] * 1000}
    pieces = json_in_pieces(value, Pace())
    assert len(pieces) > 5
    assert json.loads(b"".join(pieces)) == {"rows": ["x" * 1000] * 1000}


@pytest.mark.parametrize("size", [4_000, 5_000, VALUE_CHARACTERS_MAX - 2])
def test_a_value_up_to_the_limit_is_read(size: int) -> None:
    value: dict[str, object] = {"rows": [{"a": "x" * (size - 8)}, 1], "table": {"a": "x" * 5_000}}
    assert object_from_pieces(json.dumps(value)) == value


@pytest.mark.parametrize("first", ["[[", '{"a":', "[", ""])
def test_a_value_beyond_the_limit_is_refused_wherever_it_is(first: str) -> None:
    """Such a value is read in one go, and everybody waits meanwhile."""
    value = "[" + "[]," * (VALUE_CHARACTERS_MAX // 3) + "0]"
    end = first.replace("[", "]").replace('{"a":', "}")[::-1]
    text = f'{{"a":{first or "[1,"}{value}{end or "]"}}}'
    json.loads(text)
    with pytest.raises(ValueError, match=f"longer than {VALUE_CHARACTERS_MAX} characters"):
        object_from_pieces(text)


def test_a_number_is_not_cut_in_two() -> None:
    digits = "1" * 4_300
    value = {"rows": [int(digits)]}
    assert object_from_pieces(f'{{"rows":[{digits}]}}') == value


def test_a_text_beside_others_may_have_any_length() -> None:
    value: dict[str, object] = {"payload": '\u00e9"\n' * VALUE_CHARACTERS_MAX, "k": 1}
    assert object_from_pieces(json.dumps(value)) == value


def test_members_and_rows_are_limited() -> None:
    with pytest.raises(ValueError, match=f"more than {MEMBERS_MAX} members"):
        object_from_pieces(json.dumps(dict.fromkeys(map(str, range(MEMBERS_MAX + 1)))))
    with pytest.raises(ValueError, match="lists have more than 4 members"):
        object_from_pieces('{"a":[1,2,3],"b":[1,2]}', rows_max=4)


def test_the_place_of_a_mistake_is_that_in_the_whole_text() -> None:
    with pytest.raises(json.JSONDecodeError) as found:
        object_from_pieces('{"a":1,\n"b":[1,{"c" 2}]}')
    assert (found.value.lineno, found.value.colno) == (2, 13)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_list_is_written_whole(rows: int) -> None:
    value: list[object] = [{"n": 1}, [], "x", None, 1.5]
    assert json.loads(list_in_pieces(value, rows)) == value
