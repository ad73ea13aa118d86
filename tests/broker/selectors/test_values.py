import math

import pytest

from penstock.broker.selectors.numerals import EXACT_MAX
from penstock.broker.selectors.values import (
    AFTER,
    BEFORE,
    SAME,
    UNORDERED,
    Operator,
    approximate,
    calculate,
    is_equal,
    is_unequal,
    order,
)

UNLIKE: list[tuple[object, object]] = [
    ("1", 1),
    ("True", True),
    (1, True),
    (0.0, False),
    (b"a", "a"),
    (b"a", b"a"),
    ([1], [1]),
    ({}, 1),
    (1.5, "1.5"),
]


@pytest.mark.parametrize(("left", "right"), UNLIKE)
def test_values_of_unlike_kinds_are_neither_equal_nor_unequal_nor_ordered(
    left: object, right: object
) -> None:
    for one, other in ((left, right), (right, left)):
        assert not is_equal(one, other)
        assert not is_unequal(one, other)
        assert order(one, other) == UNORDERED


def test_booleans_are_equal_or_not_but_have_no_order() -> None:
    assert is_equal(True, True)
    assert is_unequal(True, False)
    assert not is_unequal(False, False)
    assert order(False, True) == UNORDERED


def test_exact_and_approximate_numbers_meet_as_approximate_ones() -> None:
    assert is_equal(1, 1.0)
    assert order(1, 1.5) == BEFORE
    assert order(1.5, 1) == AFTER
    # The nearest double of the left one is the right one.
    assert is_equal(2**53 + 1, float(2**53))
    assert is_unequal(2**53 + 1, 2**53)


def test_a_number_beyond_every_double_is_infinite() -> None:
    assert approximate(10**400) == math.inf
    assert approximate(-(10**400)) == -math.inf
    assert order(10**400, 1.0) == AFTER


def test_not_a_number_is_unequal_to_everything_and_stands_nowhere() -> None:
    assert not is_equal(math.nan, math.nan)
    assert is_unequal(math.nan, 1)
    assert order(math.nan, 1) == UNORDERED


def test_strings_are_ordered_by_code_points() -> None:
    assert order("Z", "a") == BEFORE
    assert order("b", "ab") == AFTER
    assert order("é", "é") == SAME


@pytest.mark.parametrize(
    ("operator", "left", "right", "result"),
    [
        (Operator.ADD, 1, 2, 3),
        (Operator.ADD, 1, 2.5, 3.5),
        (Operator.SUBTRACT, 1.5, 2, -0.5),
        (Operator.MULTIPLY, 3, -4, -12),
        (Operator.MULTIPLY, 1.5, 2.0, 3.0),
        (Operator.DIVIDE, -9, 2, -4),
        (Operator.DIVIDE, 9, -2, -4),
        (Operator.DIVIDE, -9, -2, 4),
        (Operator.DIVIDE, 9, 2.0, 4.5),
        (Operator.REMAINDER, -9, 2, -1),
        (Operator.REMAINDER, 9, -2, 1),
        (Operator.REMAINDER, -9.5, 2, -1.5),
    ],
)
def test_arithmetic_is_javas(
    operator: Operator, left: object, right: object, result: float
) -> None:
    calculated = calculate(operator, left, right)
    assert calculated == result
    assert type(calculated) is type(result)


@pytest.mark.parametrize("operator", [Operator.DIVIDE, Operator.REMAINDER])
@pytest.mark.parametrize("zero", [0, 0.0, -0.0])
@pytest.mark.parametrize("number", [1, 1.0, 0])
def test_division_by_zero_is_unknown(operator: Operator, number: object, zero: object) -> None:
    assert calculate(operator, number, zero) is None


def test_a_remainder_of_infinity_is_unknown() -> None:
    assert calculate(Operator.REMAINDER, math.inf, 2) is None


@pytest.mark.parametrize("operator", list(Operator))
@pytest.mark.parametrize("value", ["1", True, None, b"1", [1]])
def test_arithmetic_with_what_is_no_number_is_unknown(operator: Operator, value: object) -> None:
    assert calculate(operator, 1, value) is None
    assert calculate(operator, value, 1.5) is None


def test_an_exact_result_beyond_64_bits_goes_on_as_an_approximate_one() -> None:
    assert calculate(Operator.ADD, EXACT_MAX, 0) == EXACT_MAX
    grown = calculate(Operator.ADD, EXACT_MAX, 1)
    assert isinstance(grown, float)
    assert grown == 2.0**64
    assert isinstance(calculate(Operator.MULTIPLY, -EXACT_MAX, 2), float)
