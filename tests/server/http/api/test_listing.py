"""Columns, sorting, pages and filters of lists."""

import json

import pytest

from penstock.server.http.api.listing import MadeRow, Row, listed
from penstock.server.http.api.pace import SORTED_AT_ONCE, Pace
from penstock.server.http.problems import Problem

ROWS: list[dict[str, object]] = [
    {"name": "b", "messages": 3, "details": {"rate": 0.5}},
    {"name": "a", "messages": 10, "details": {"rate": 2.5}},
    {"name": "ab", "messages": 1},
]


def arranged(rows: list[Row], query: dict[str, str]) -> object:
    return json.loads(b"".join(listed([MadeRow(row) for row in rows], query, Pace())))


def names(answer: object) -> list[object]:
    assert isinstance(answer, list)
    return [row["name"] for row in answer]


def test_a_list_without_a_query_is_an_array_in_its_own_order() -> None:
    assert names(arranged(ROWS, {})) == ["b", "a", "ab"]


def test_numbers_are_sorted_as_numbers_and_missing_values_come_first() -> None:
    assert names(arranged(ROWS, {"sort": "messages"})) == ["ab", "b", "a"]
    assert names(arranged(ROWS, {"sort": "details.rate"})) == ["ab", "b", "a"]
    assert names(arranged(ROWS, {"sort": "messages", "sort_reverse": "true"})) == ["a", "b", "ab"]


def test_columns_reach_into_objects() -> None:
    assert arranged(ROWS[:1], {"columns": "name,details.rate,unknown"}) == [
        {"name": "b", "details": {"rate": 0.5}}
    ]


def test_a_page_counts_what_there_is_and_what_the_filter_left() -> None:
    page = arranged(ROWS, {"page": "1", "page_size": "1", "name": "A"})
    assert page == {
        "total_count": 3,
        "filtered_count": 2,
        "item_count": 1,
        "page": 1,
        "page_count": 2,
        "page_size": 1,
        "items": [ROWS[1]],
    }


def test_a_filter_may_be_a_regular_expression() -> None:
    assert names(arranged(ROWS, {"name": "^a$", "use_regex": "true"})) == ["a"]


@pytest.mark.parametrize(
    "query",
    [
        {"page": "2", "page_size": "100"},
        {"page": "0"},
        {"page": "x"},
        {"page": "1", "page_size": "501"},
        {"name": "(", "use_regex": "true"},
        {"name": "n" * 2000},
    ],
)
def test_a_query_that_makes_no_sense_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(Problem) as caught:
        arranged(ROWS, query)
    assert caught.value.status == 400


@pytest.mark.parametrize("column", ["name", "number"])
def test_a_list_that_is_sorted_in_parts_is_sorted_as_a_whole(column: str) -> None:
    count = 2 * SORTED_AT_ONCE + 1
    rows: list[Row] = [
        {"name": f"{number * 7 % count:06}", "number": number * 7 % count}
        for number in range(count)
    ]
    ascending = arranged(rows, {"sort": column})
    assert names(ascending) == [f"{number:06}" for number in range(count)]
    descending = arranged(rows, {"sort": column, "sort_reverse": "true"})
    assert names(descending) == names(ascending)[::-1]


def test_a_page_that_does_not_exist_has_rabbitmqs_word_for_it() -> None:
    with pytest.raises(Problem) as refused:
        arranged(ROWS, {"page": "9"})
    assert refused.value.body()["error"] == "page_out_of_range"


def test_a_long_list_comes_in_pieces() -> None:
    rows: list[Row] = [{"name": "x" * 1000} for _ in range(1000)]
    pieces = listed([MadeRow(row) for row in rows], {}, Pace())
    assert len(pieces) > 5
    assert json.loads(b"".join(pieces)) == rows
