"""Columns, sorting, pages and filters of lists."""

import pytest

from penstock.server.http.api.listing import arranged
from penstock.server.http.problems import Problem

ROWS: list[dict[str, object]] = [
    {"name": "b", "messages": 3, "details": {"rate": 0.5}},
    {"name": "a", "messages": 10, "details": {"rate": 2.5}},
    {"name": "ab", "messages": 1},
]


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
