"""The truth tables of three-valued logic, whole."""

import pytest

from penstock.broker.selectors.conditions import And, In, Not, Or
from penstock.broker.selectors.expressions import Expression, Literal, Sort
from tests.broker.selectors.doubles import TableSubject

NOBODY = TableSubject()
T, F, U = True, False, None


def literals(*values: object) -> list[Expression]:
    return [Literal(Sort.ANYTHING, value) for value in values]


@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        (T, T, T, T),
        (T, F, F, T),
        (T, U, U, T),
        (F, T, F, T),
        (F, F, F, F),
        (F, U, F, U),
        (U, T, U, T),
        (U, F, F, U),
        (U, U, U, U),
    ],
)
def test_and_and_or_follow_their_tables(
    left: object, right: object, both: object, either: object
) -> None:
    assert And(literals(left, right)).evaluate(NOBODY) is both
    assert Or(literals(left, right)).evaluate(NOBODY) is either


@pytest.mark.parametrize(("operand", "result"), [(T, F), (F, T), (U, U)])
def test_not_follows_its_table(operand: object, result: object) -> None:
    assert Not(literals(operand)[0]).evaluate(NOBODY) is result


@pytest.mark.parametrize("value", ["TRUE", 1, 0, 1.0, b""])
def test_an_operand_that_is_no_boolean_counts_as_unknown(value: object) -> None:
    assert And(literals(value, T)).evaluate(NOBODY) is U
    assert And(literals(value, F)).evaluate(NOBODY) is F
    assert Or(literals(value, F)).evaluate(NOBODY) is U
    assert Or(literals(value, T)).evaluate(NOBODY) is T
    assert Not(literals(value)[0]).evaluate(NOBODY) is U


@pytest.mark.parametrize(("values", "both"), [((T, U, T), U), ((U, T, F), F), ((T, T, T), T)])
def test_a_longer_chain_is_what_its_pairs_are(values: tuple[object, ...], both: object) -> None:
    assert And(literals(*values)).evaluate(NOBODY) is both


def test_items_meet_numbers_as_a_comparison_would() -> None:
    def is_in(value: object, *items: object) -> object:
        return In(literals(value)[0], list(items)).evaluate(NOBODY)

    assert is_in(2**53 + 1, float(2**53)) is T
    assert is_in(float(2**53), 2**53 + 1) is T
    assert is_in(2**53 + 1, 2**53) is F
    assert is_in(10**400, 1.5, 1) is F
    assert is_in(False, 0, 0.0, "", True) is F
    assert is_in(False, False) is T
