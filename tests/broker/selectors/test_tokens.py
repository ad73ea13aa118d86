import pytest

from penstock.broker.selectors.refusal import SelectorError
from penstock.broker.selectors.tokens import Kind, tokens_of


def kinds(text: str) -> list[Kind]:
    return [token.kind for token in tokens_of(text)]


def refusal_of(text: str) -> str:
    with pytest.raises(SelectorError) as caught:
        tokens_of(text)
    return caught.value.text.removeprefix("invalid selector: ")


@pytest.mark.parametrize("word", ["AND", "and", "And", "aNd"])
def test_reserved_words_have_no_case(word: str) -> None:
    assert kinds(word) == [Kind.AND, Kind.END]


@pytest.mark.parametrize(
    "word",
    ["_", "$", "a1", "a.b.c", "JMSType", "größe", "数量", "€uro", "android", "nots", "\u0131s"],
)
def test_a_name_follows_java_with_dots(word: str) -> None:
    token, _ = tokens_of(f" {word} ")
    assert (token.kind, token.text, token.position) == (Kind.NAME, word, 2)


@pytest.mark.parametrize(
    ("text", "name"),
    [('"a-b"', "a-b"), ('"a ""b"""', 'a "b"'), ('"NOT"', "NOT"), ('"\'"', "'"), ('" "', " ")],
)
def test_any_name_can_stand_in_double_quotes(text: str, name: str) -> None:
    token, _ = tokens_of(text)
    assert (token.kind, token.text) == (Kind.NAME, name)


@pytest.mark.parametrize(
    ("text", "string"), [("''", ""), ("'a'", "a"), ("'''a'", "'a"), ("''''", "'"), ("'\"'", '"')]
)
def test_a_doubled_quote_stands_for_itself_in_a_string(text: str, string: str) -> None:
    token, _ = tokens_of(text)
    assert (token.kind, token.text) == (Kind.STRING, string)


def test_a_dash_outside_quotes_is_a_minus() -> None:
    assert kinds("a-b") == [Kind.NAME, Kind.MINUS, Kind.NAME, Kind.END]


def test_signs_need_no_blanks_and_the_longer_one_wins() -> None:
    assert kinds("<=<>>=!=<<=>") == [
        Kind.LESS_OR_EQUAL,
        Kind.UNEQUAL,
        Kind.GREATER_OR_EQUAL,
        Kind.UNEQUAL,
        Kind.LESS,
        Kind.LESS_OR_EQUAL,
        Kind.GREATER,
        Kind.END,
    ]
    assert kinds("(,+*/%)")[:-1] == [
        Kind.OPEN,
        Kind.COMMA,
        Kind.PLUS,
        Kind.TIMES,
        Kind.DIVIDED,
        Kind.REMAINDER,
        Kind.CLOSE,
    ]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("a = 'b", "expected a closing ' for the one at character 5 at character 7, found the end"),
        ("'a''", "expected a closing ' for the one at character 1 at character 5, found the end"),
        ('"a', 'expected a closing " for the one at character 1 at character 3, found the end'),
        ('""', "expected a name at character 1, found nothing between the quotes"),
        ("a ! b", "expected a value or an operator at character 3, found '!'"),
        ("a\0", "expected a value or an operator at character 2, found '\\x00'"),
        ("a\xa0", "expected a value or an operator at character 2, found '\\xa0'"),
        (".", "expected a value or an operator at character 1, found '.'"),
        ("\udc80", "expected a value or an operator at character 1, found '\\udc80'"),
        ("12ab", "expected a number at character 1, found '12a'"),
        ("1.2.3", "expected a number at character 1, found '1.2.'"),
    ],
)
def test_what_is_no_word_is_refused_with_its_place(text: str, refusal: str) -> None:
    assert refusal_of(text) == refusal
