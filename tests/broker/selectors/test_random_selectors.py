"""Random expressions against a second evaluator, and random words against the promise that a
selector is either parsed or refused.

An expression is a nested tuple here; `written` makes a selector of it and `judged` says what it
yields, from the rules of JMS and nothing of ours.
"""

import contextlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.selectors.refusal import SelectorError
from penstock.broker.selectors.selector import Selector
from tests.broker.selectors.doubles import TableSubject, evaluated

Tree = tuple[Any, ...]

NAMES = st.sampled_from(["a", "b.c", "$d", "not-plain", "NULL"])
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([0.5, -2.5, 1.0, 3.0]),
    st.text(alphabet="ab'%_", max_size=3),
    st.just(b"octets"),
)

numbers = st.one_of(st.integers(0, 5), st.sampled_from([0.5, 2.5, 1.0])).map(
    lambda value: ("number", value)
)
texts = st.text(alphabet="ab'%_", max_size=3).map(lambda value: ("text", value))
names = NAMES.map(lambda name: ("name", name))
arithmetic = st.recursive(
    numbers | names,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from("+-*/%"), inner, inner),
        st.tuples(st.sampled_from(["plus", "minus"]), inner),
    ),
    max_leaves=6,
)
operands = arithmetic | texts | st.booleans().map(lambda value: ("truth", value))
items = st.lists(numbers | texts | st.booleans().map(lambda value: ("truth", value)), min_size=1)
predicates = st.one_of(
    st.booleans().map(lambda value: ("truth", value)),
    names,
    st.tuples(st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="]), operands, operands),
    st.tuples(st.just("null"), operands, st.booleans()),
    st.tuples(st.just("between"), operands, operands, operands, st.booleans()),
    st.tuples(st.just("in"), operands, items, st.booleans()),
    st.tuples(st.just("like"), names | texts, st.text(alphabet="ab'%_", max_size=4), st.booleans()),
)
conditions = st.recursive(
    predicates,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=4)),
        st.tuples(st.just("NOT"), inner),
        st.tuples(st.just("="), inner.map(lambda tree: ("group", tree)), names),
    ),
    max_leaves=8,
)
subjects = st.dictionaries(NAMES, VALUES)


def written(tree: Tree) -> str:
    """Every operand in parentheses; precedence has its table in the selector's tests."""
    match tree:
        case ("number", value):
            return repr(value)
        case ("truth", value):
            return str(value)
        case ("text", value):
            return quoted(value)
        case ("name", name):
            return f'"{name}"' if name in {"not-plain", "NULL"} else name
        case ("group", inner):
            return f"({written(inner)})"
        case ("plus", inner):
            return f"+({written(inner)})"
        case ("minus", inner):
            return f"-({written(inner)})"
        case ("AND" | "OR" as word, inner):
            return f" {word} ".join(f"({written(part)})" for part in inner)
        case ("NOT", inner):
            return f"NOT ({written(inner)})"
        case ("null", inner, negated):
            return f"({written(inner)}) IS {'NOT ' * negated}NULL"
        case ("between", inner, low, high, negated):
            bounds = f"({written(low)}) AND ({written(high)})"
            return f"({written(inner)}) {'NOT ' * negated}BETWEEN {bounds}"
        case ("in", inner, listed, negated):
            return f"({written(inner)}) {'NOT ' * negated}IN ({', '.join(map(written, listed))})"
        case ("like", inner, pattern, negated):
            return f"({written(inner)}) {'NOT ' * negated}LIKE {quoted(pattern)}"
    operator, left, right = tree
    return f"({written(left)}) {operator} ({written(right)})"


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def judged(tree: Tree, values: dict[str, object]) -> Any:
    match tree:
        case ("number" | "truth" | "text", value):
            return value
        case ("name", name):
            return values.get(name)
        case ("group", inner):
            return judged(inner, values)
        case ("plus", inner):
            return computed("+", 0, judged(inner, values))
        case ("minus", inner):
            return computed("-", 0, judged(inner, values))
        case ("AND", inner):
            return lowest([judged(part, values) for part in inner])
        case ("OR", inner):
            return negated_truth(lowest([negated_truth(judged(part, values)) for part in inner]))
        case ("NOT", inner):
            return negated_truth(judged(inner, values))
        case ("null", inner, negated):
            return (judged(inner, values) is None) is not negated
        case ("between", inner, low, high, negated):
            value, least, most = (judged(part, values) for part in (inner, low, high))
            if negated:
                outside = [compared("<", value, least), compared(">", value, most)]
                return negated_truth(lowest([negated_truth(part) for part in outside]))
            return lowest([compared(">=", value, least), compared("<=", value, most)])
        case ("in", inner, listed, negated):
            value = judged(inner, values)
            if value is None:
                return None
            found = any(compared("=", value, judged(part, values)) for part in listed)
            return found is not negated
        case ("like", inner, pattern, negated):
            value = judged(inner, values)
            return fits(value, pattern) is not negated if isinstance(value, str) else None
    operator, left, right = tree
    if operator in {"+", "-", "*", "/", "%"}:
        return computed(operator, judged(left, values), judged(right, values))
    return compared(operator, judged(left, values), judged(right, values))


def truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def negated_truth(value: object) -> bool | None:
    value = truth(value)
    return None if value is None else not value


def lowest(values: list[Any]) -> bool | None:
    """Of false, unknown and true, in this order."""
    rank = {False: 0, None: 1, True: 2}
    return min((truth(value) for value in values), key=lambda value: rank[value])


def kind(value: object) -> str:
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, (int, float)):
        return "number"
    return "text" if isinstance(value, str) else "other"


def compared(operator: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    if kind(left) != kind(right) or kind(left) == "other":
        return False
    if operator in {"=", "<>", "!="}:
        return bool((left == right) is (operator == "="))
    if kind(left) == "truth":
        return False
    outcomes = {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}
    return bool(outcomes[operator])


def computed(operator: str, left: Any, right: Any) -> Any:
    if kind(left) != "number" or kind(right) != "number":
        return None
    if operator in {"/", "%"}:
        if right == 0:
            return None
        exact = isinstance(left, int) and isinstance(right, int)
        quotient = left / right
        # The operands are small, so the double's quotient cuts to the exact one.
        if operator == "/":
            return int(quotient) if exact else quotient
        return left - right * int(quotient)
    results = {"+": left + right, "-": left - right, "*": left * right}
    return results[operator]


def fits(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(fits(text[start:], pattern[1:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in {"_", text[0]} and fits(text[1:], pattern[1:])


@given(conditions, subjects)
def test_a_random_expression_yields_what_the_naive_evaluator_says(
    tree: Tree, values: dict[str, object]
) -> None:
    text = written(tree)
    result = evaluated(text, TableSubject(**values))
    expected = judged(tree, values)
    if tree[0] == "name":
        # A name alone yields its value, whatever that is.
        assert result == expected
    else:
        assert result is expected
    assert Selector.parse(text).matches(TableSubject(**values)) is (expected is True)


WORDS = st.sampled_from(
    [
        *"()+-*/%=<>!,.'\"_$ \t\0",
        *("<>", "<=", ">=", "!=", "a", "b.c", '"d-e"', "'x'", "''", "%"),
        *("AND", "or", "NOT", "BETWEEN", "LIKE", "ESCAPE", "IN", "IS", "NULL", "TRUE", "false"),
        *("0", "07", "08", "0x1F", "0x", "1e5", "1e", ".5", "5.", "9" * 30, "é", "€", "\udc80"),
    ]
)


def is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(SelectorError):
        selector = Selector.parse(text)
        assert selector.matches(TableSubject()) in {True, False}
        assert selector.matches(TableSubject(a=10**400, **{"b.c": float("nan"), "d-e": "x"})) in {
            True,
            False,
        }


@given(st.lists(WORDS, max_size=30), st.sampled_from(["", " "]))
def test_a_soup_of_words_is_parsed_or_refused(words: list[str], blank: str) -> None:
    is_parsed_or_refused(blank.join(words))


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    is_parsed_or_refused(text)


@given(conditions, st.data())
def test_a_selector_with_a_hole_or_a_swapped_piece_is_parsed_or_refused(
    tree: Tree, data: st.DataObject
) -> None:
    text = written(tree)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    is_parsed_or_refused(text[:start] + data.draw(WORDS) + text[end:])
