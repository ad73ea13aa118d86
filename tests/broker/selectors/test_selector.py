import pytest

from penstock.broker.selectors.refusal import SelectorError
from penstock.broker.selectors.selector import Selector
from tests.broker.selectors.doubles import TableSubject, evaluated

SUBJECT = TableSubject(
    color="red",
    weight=12,
    price=2.5,
    sold=True,
    kept=False,
    zero=0,
    negative=-7,
    empty="",
    quote="it's",
    octets=b"red",
    things=["red"],
    big=2**63,
    **{"a.b": "dots", "x-opt-hops": 3, "and": "reserved", 'say "it"': 1, "$x_1": 1, "größe": 5},
)

TRUE = [
    # Literals and names
    "TRUE",
    "true",
    "sold",
    "(sold)",
    "color = 'red'",
    "'red' = color",
    "quote = 'it''s'",
    "empty = ''",
    "a.b = 'dots'",
    "\"a.b\" = 'dots'",
    '"x-opt-hops" = 3',
    "\"and\" = 'reserved'",
    '"say ""it""" = 1',
    "$x_1 = 1",
    "größe = 5",
    "color='red'and weight=12",
    "color\t=\r\n'red'\f",
    # Equality
    "color <> 'blue'",
    "color != 'blue'",
    "weight = 12",
    "weight = 12.0",
    "weight = 12L",
    "weight = 0xC",
    "weight = 014",
    "weight = 0b1100",
    "weight = 1.2E1",
    "weight = 120e-1",
    "weight = 12d",
    "price = 2.5f",
    "price = 2.50",
    "price <> 2",
    ".5 = 0.5",
    "7. = 7",
    "sold = TRUE",
    "sold <> FALSE",
    "kept = false",
    "big = 9223372036854775808",
    "-9223372036854775808 < 0",
    # Order
    "weight > 10",
    "weight >= 12",
    "weight <= 12",
    "weight < 12.5",
    "price < weight",
    "negative < 0",
    "'abc' < 'abd'",
    "'B' < 'a'",
    "color >= 'red'",
    # Arithmetic: precedence, signs, Java's division
    "2 + 3 * 4 = 14",
    "(2 + 3) * 4 = 20",
    "10 - 4 - 3 = 3",
    "24 / 4 / 2 = 3",
    "2 * weight + 1 = 25",
    "7 / 2 = 3",
    "-7 / 2 = -3",
    "7 / -2 = -3",
    "7 / 2.0 = 3.5",
    "7 % 4 = 3",
    "-7 % 4 = -3",
    "7 % -4 = 3",
    "7.5 % 2 = 1.5",
    "- weight = -12",
    "- - weight = 12",
    "-+-weight = 12",
    "+weight = 12",
    "3 - -4 = 7",
    "weight--1 = 13",
    "-(weight + 1) = -13",
    "18446744073709551615 + 1 > 1.8e19",
    # BETWEEN
    "weight BETWEEN 12 AND 12",
    "weight BETWEEN 10 AND 20 AND color = 'red'",
    "weight between 2 + 3 and 4 * 5",
    "weight NOT BETWEEN 13 AND 20",
    "weight NOT BETWEEN 20 AND 10",
    "color BETWEEN 'a' AND 's'",
    "price BETWEEN 2 AND 3",
    # IN
    "color IN ('red')",
    "color IN ('blue', 'red', 'green')",
    "color NOT IN ('blue')",
    "weight IN (1, 12)",
    "weight IN (12.0)",
    "price IN (2.5, 'x')",
    "negative IN (-7)",
    "sold IN (TRUE)",
    "weight + 1 IN (13)",
    "weight NOT IN ('12')",
    "sold NOT IN (1)",
    "weight NOT IN (TRUE)",
    # LIKE
    "color LIKE 'r%'",
    "color LIKE '%d'",
    "color LIKE 'r_d'",
    "color LIKE '%'",
    "color LIKE 'red'",
    "color NOT LIKE 'R%'",
    "empty LIKE ''",
    "empty LIKE '%'",
    "'12%3' LIKE '12!%3' ESCAPE '!'",
    "'a_b' LIKE 'a\\_b' ESCAPE '\\'",
    "'axb' NOT LIKE 'a\\_b' ESCAPE '\\'",
    "'a!' LIKE 'a!!' ESCAPE '!'",
    # NULL
    "nothing IS NULL",
    "color IS NOT NULL",
    "empty IS NOT NULL",
    "octets IS NOT NULL",
    "nothing + 1 IS NULL",
    "1 / 0 IS NULL",
    "1.0 / 0 IS NULL",
    "weight % zero IS NULL",
    "color + 1 IS NULL",
    "(nothing = 1) IS NULL",
    # Logic: NOT before AND before OR
    "TRUE OR FALSE AND FALSE",
    "FALSE AND FALSE OR TRUE",
    "NOT FALSE AND TRUE",
    "NOT (FALSE OR FALSE)",
    "NOT color = 'blue'",
    "NOT NOT sold",
    "NOT nothing IS NOT NULL",
    "sold AND NOT kept",
    "nothing = 1 OR TRUE",
    "NOT (nothing = 1 AND FALSE)",
    "(color = 'red') = TRUE",
    "color = 'red' OR color",
    # Comparisons of unlike kinds are false, so their negation is true.
    "NOT color = 12",
    "NOT weight = '12'",
]
FALSE = [
    "FALSE",
    "kept",
    "color = 'Red'",
    "color = 'red '",
    "weight <> 12.0",
    "weight > 12",
    "weight < 12",
    "weight = 120 / 0x10",
    "color = 12",
    "color <> 12",
    "weight = '12'",
    "weight <> '12'",
    "weight = TRUE",
    "sold = 1",
    "sold <> 1",
    "sold > FALSE",
    "sold >= TRUE",
    "color < 12",
    "octets = 'red'",
    "octets <> 'red'",
    "octets = octets",
    "things <> 1",
    "things IN ('red')",
    "weight BETWEEN 13 AND 20",
    "weight BETWEEN 20 AND 10",
    "weight NOT BETWEEN 12 AND 12",
    "weight BETWEEN 'a' AND 'z'",
    "weight NOT BETWEEN 'a' AND 'z'",
    "weight BETWEEN 13 AND nothing",
    "weight BETWEEN nothing AND 11",
    "color IN ('blue')",
    "color NOT IN ('red')",
    "weight IN ('12')",
    "sold IN (1, 'TRUE', FALSE)",
    "kept IN (0, TRUE)",
    "color LIKE 'r'",
    "color LIKE '_'",
    "color LIKE ''",
    "empty LIKE '_'",
    "color NOT LIKE '%e%'",
    "nothing IS NOT NULL",
    "color IS NULL",
    "nothing = 1 AND FALSE",
    "FALSE AND nothing",
    "NOT (nothing = 1 OR TRUE)",
]
UNKNOWN = [
    "nothing",
    "nothing = 1",
    "nothing <> 1",
    "nothing = nothing",
    "nothing > 1",
    "nothing LIKE '%'",
    "nothing NOT LIKE '%'",
    "weight LIKE '12'",
    "weight NOT LIKE '12'",
    "octets LIKE '%'",
    "nothing IN ('a')",
    "nothing NOT IN ('a')",
    "nothing BETWEEN 1 AND 2",
    "weight BETWEEN 10 AND nothing",
    "weight BETWEEN nothing AND 20",
    "weight NOT BETWEEN 10 AND nothing",
    "NOT nothing",
    "NOT (nothing = 1)",
    "nothing = 1 AND TRUE",
    "nothing = 1 OR FALSE",
    "1 / 0 = 1",
    "1 / zero > 0 OR FALSE",
    "weight + nothing > 0",
    "-color = 1",
    "+color = 'red'",
    "-sold = -1",
    "sold + 1 = 2",
    "color AND TRUE",
    "NOT color",
    "weight OR FALSE",
    "(nothing = 1) = TRUE",
]


@pytest.mark.parametrize("text", TRUE)
def test_a_true_condition_selects(text: str) -> None:
    assert evaluated(text, SUBJECT) is True
    assert Selector.parse(text).matches(SUBJECT)


@pytest.mark.parametrize("text", FALSE)
def test_a_false_condition_does_not_select(text: str) -> None:
    assert evaluated(text, SUBJECT) is False
    assert not Selector.parse(text).matches(SUBJECT)


@pytest.mark.parametrize("text", UNKNOWN)
def test_an_unknown_condition_does_not_select(text: str) -> None:
    assert evaluated(text, SUBJECT) is None
    assert not Selector.parse(text).matches(SUBJECT)


@pytest.mark.parametrize("text", ["color", "weight", "octets"])
def test_a_name_alone_selects_only_when_it_is_true(text: str) -> None:
    assert not Selector.parse(text).matches(SUBJECT)


@pytest.mark.parametrize("text", ["", "  \t\n"])
def test_an_empty_selector_selects_everything(text: str) -> None:
    assert Selector.parse(text).matches(TableSubject())


def test_a_selector_keeps_its_text_and_is_equal_by_it() -> None:
    selector = Selector.parse("a = 1")
    assert selector.text == "a = 1"
    assert selector == Selector.parse("a = 1")
    assert selector != Selector.parse("a  = 1")
    assert selector != "a = 1"
    assert len({selector, Selector.parse("a = 1"), Selector.parse("b")}) == 2
    assert repr(selector) == "Selector('a = 1')"


def test_a_selector_names_what_it_asks_for_once_and_in_order() -> None:
    selector = Selector.parse("b = 1 AND (a LIKE 'x' OR b > \"c-d\") AND e.f IN ('g')")
    assert selector.names() == ("b", "a", "c-d", "e.f")


def test_what_cannot_change_the_verdict_is_not_asked() -> None:
    subject = TableSubject(a=1)
    assert not Selector.parse("a = 2 AND b = 1").matches(subject)
    assert Selector.parse("a = 1 OR b = 1").matches(subject)
    assert subject.asked == ["a", "a"]


def test_the_error_is_a_refusal_with_its_place_and_what_was_expected() -> None:
    with pytest.raises(SelectorError) as caught:
        Selector.parse("color = )")
    assert caught.value.position == 9
    assert caught.value.expected == "a value"
    assert caught.value.text == ("invalid selector: expected a value at character 9, found ')'")
