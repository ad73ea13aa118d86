import pytest

from penstock.broker.selectors.parser import Parser
from penstock.broker.selectors.refusal import (
    IN_ITEMS_MAX,
    NESTING_MAX,
    SELECTOR_CHARACTERS_MAX,
    SelectorError,
)
from penstock.broker.selectors.selector import Selector
from tests.broker.selectors.doubles import TableSubject


def refusal_of(text: str) -> str:
    with pytest.raises(SelectorError) as caught:
        Parser(text).parse()
    return caught.value.text.removeprefix("invalid selector: ")


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("a =", "expected a value at character 4, found the end"),
        ("= a", "expected a value at character 1, found '='"),
        ("a == 3", "expected a value at character 4, found '='"),
        ("a = b = c", "expected AND, OR or the end at character 7, found '='"),
        ("a b", "expected an operator or the end at character 3, found a name 'b'"),
        ("a)", "expected an operator or the end at character 2, found ')'"),
        ("(a = 1", "expected an operator or ')' at character 7, found the end"),
        ("()", "expected a value at character 2, found ')'"),
        ("NOT", "expected a value at character 4, found the end"),
        ("a AND", "expected a value at character 6, found the end"),
        ("a = NOT b", "expected a value at character 5, found NOT"),
        ("a = NULL", "expected a value (IS NULL asks for its absence) at character 5, found NULL"),
        ("a IS 3", "expected NULL or NOT NULL at character 6, found a number '3'"),
        ("a IS NOT b", "expected NULL at character 10, found a name 'b'"),
        ("a NOT 3", "expected BETWEEN, IN or LIKE at character 7, found a number '3'"),
        (
            "a BETWEEN 1 OR 2",
            "expected AND and the upper bound of BETWEEN at character 13, found OR",
        ),
        ("a IN 'x'", "expected '(' and the items of IN at character 6, found a string 'x'"),
        ("a IN ()", "expected a string, a number, TRUE or FALSE at character 7, found ')'"),
        ("a IN (b)", "expected a string, a number, TRUE or FALSE at character 7, found a name 'b'"),
        ("a IN (-b)", "expected a string, a number, TRUE or FALSE at character 7, found a name"),
        ("a IN (1 2)", "expected ',' or ')' at character 9, found a number '2'"),
        ("a IN (1,)", "expected a string, a number, TRUE or FALSE at character 9, found ')'"),
        ("a LIKE b", "expected a pattern in single quotes at character 8, found a name 'b'"),
        ("5 LIKE 'b'", "expected a name or a string before LIKE at character 1, found a number"),
        ("a LIKE 'b' ESCAPE 1", "expected a character in single quotes at character 19, "),
        ("a LIKE 'b' ESCAPE ''", "expected one escape character at character 19, found ''"),
        ("a LIKE 'b' ESCAPE '!!'", "expected one escape character at character 19, found '!!'"),
        ("a LIKE 'b!' ESCAPE '!'", "expected a character after the escape at character 11, found"),
    ],
)
def test_what_is_no_selector_is_refused_with_its_place(text: str, refusal: str) -> None:
    assert refusal_of(text).startswith(refusal)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("5", "expected a condition at character 1, found a number"),
        ("'a'", "expected a condition at character 1, found a string"),
        ("a + 1", "expected a condition at character 1, found a number"),
        ("a AND 5", "expected a condition at character 7, found a number"),
        ("'x' OR a", "expected a condition at character 1, found a string"),
        ("NOT 'x'", "expected a condition at character 5, found a string"),
        ("a + 'x' > 1", "expected a number at character 5, found a string"),
        ("'x' * 2 = 1", "expected a number at character 1, found a string"),
        ("a - (b = 1) = 1", "expected a number at character 5, found a condition"),
        ("-TRUE = 1", "expected a number at character 2, found a condition"),
        ("a IN (-'x')", "expected a number at character 8, found a string"),
    ],
)
def test_what_can_never_be_of_the_sort_that_is_needed_is_refused(text: str, refusal: str) -> None:
    assert refusal_of(text) == refusal


def test_parentheses_nest_to_the_limit_and_no_further() -> None:
    subject = TableSubject(a=1)
    assert Selector.parse("(" * NESTING_MAX + "a = 1" + ")" * NESTING_MAX).matches(subject)
    deeper = NESTING_MAX + 1
    assert refusal_of("(" * deeper + "a = 1" + ")" * deeper).startswith(
        f"expected at most {NESTING_MAX} levels of parentheses and NOT at character {deeper}"
    )


def test_what_was_nested_is_forgotten_when_it_is_closed() -> None:
    text = " AND ".join(["((NOT (FALSE)))"] * NESTING_MAX)
    assert Selector.parse(text).matches(TableSubject())


@pytest.mark.parametrize("text", ["(" * 4000, "NOT " * 2000, "NOT(" * 2000, "-(" * 4000])
def test_nesting_without_end_is_refused_and_not_a_stack_overflow(text: str) -> None:
    assert "levels of parentheses" in refusal_of(text)


def test_ten_thousand_parentheses_are_refused() -> None:
    assert refusal_of("(" * 10_000 + "a = 1" + ")" * 10_000).startswith(
        f"expected at most {SELECTOR_CHARACTERS_MAX} characters"
    )


def test_a_selector_may_be_as_long_as_the_limit() -> None:
    text = "a = 1"
    assert Selector.parse(text.ljust(SELECTOR_CHARACTERS_MAX)).matches(TableSubject(a=1))
    assert "characters" in refusal_of(text.ljust(SELECTOR_CHARACTERS_MAX + 1))


@pytest.mark.parametrize(
    "text",
    [
        " OR ".join(["a=2"] * 1000 + ["a=1"]),
        " AND ".join(["a=1"] * 1000),
        "+".join(["a"] * 4000) + " = 4000",
        "*".join(["a"] * 4000) + " = 1",
        "-" * 8000 + "a = 1",
    ],
)
def test_a_long_chain_is_no_deep_nesting(text: str) -> None:
    assert Selector.parse(text).matches(TableSubject(a=1))


def test_the_items_of_in_are_limited() -> None:
    items = ",".join(["1"] * IN_ITEMS_MAX)
    assert Selector.parse(f"a IN ({items})").matches(TableSubject(a=1))
    assert f"at most {IN_ITEMS_MAX} items" in refusal_of(f"a IN ({items},1)")


def test_a_long_word_is_not_repeated_whole_in_the_error() -> None:
    assert refusal_of("a " + "b" * 1000).endswith(f"found a name '{'b' * 20}'...")
