"""Filters of names: ordinary ones work, costly ones are refused before they run."""

import time

import pytest

from penstock.server.http.api.name_filter import compiled_filter
from penstock.server.http.problems import Problem


@pytest.mark.parametrize(
    ("text", "name", "is_found"),
    [
        (r"^orders\..*", "orders.new", True),
        ("^(orders|bills)$", "bills", True),
        ("a|b|c", "xcx", True),
        (r"[a-z]+-\d+$", "queue-17", True),
        (r"[]()|*]x", "*x", True),
        (r"[^\]]y", "]y", False),
        (r"\(\*\)", "(*)", True),
        ("(?:in|out).fast", "out.fast", True),
    ],
)
def test_an_ordinary_filter_is_a_regular_expression(text: str, name: str, is_found: bool) -> None:
    assert (compiled_filter(text).search(name) is not None) is is_found


@pytest.mark.parametrize(
    "text",
    [
        "^(?:.|.|.|.)*!",
        "^my(a+)+!",
        "(a?){64}b",
        "a?" * 60 + "a" * 60,
        "(a|a)" * 40 + "!",
        "(.*)(.*)(.*)(.*)!",
        r"(a*)\1\1!",
        "(?=a*b)",
        "(?!a*b)",
        "(?P<n>a)",
        "x*" * 3,
        "a{99999999999}",
        "(" * 499 + ")" * 499,
        "(",
        "[a",
        "n" * 1001,
    ],
)
def test_a_filter_that_is_costly_or_not_valid_is_refused_at_once(text: str) -> None:
    began = time.process_time()
    with pytest.raises(Problem) as caught:
        compiled_filter(text)
    assert caught.value.status == 400
    assert time.process_time() - began < 1


def test_the_worst_filter_that_is_accepted_is_bounded() -> None:
    began = time.process_time()
    compiled_filter(".*(a|a|a).*!").search("a" * 255)
    assert time.process_time() - began < 5
