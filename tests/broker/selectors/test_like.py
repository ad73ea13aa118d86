import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.broker.selectors.like import TEXT_LENGTH_MAX, like_pattern


def is_like(text: str, pattern: str, escape: str | None = None) -> bool:
    compiled = like_pattern(pattern, escape)
    assert compiled is not None
    return compiled.matches(text)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("", ""),
        ("", "%%"),
        ("abc", "abc"),
        ("abc", "%abc%"),
        ("abc", "a%c"),
        ("abc", "___"),
        ("abc", "_%_"),
        ("abc", "%b_"),
        ("aXbYc", "a%b%c"),
        ("ab ab", "%ab"),
        ("aab", "%a_"),
        ("line\nline", "line%line"),
        ("a\nb", "a_b"),
        ("a.c*[", "a.c*["),
        ("😀x", "_x"),
        ("aXXbab", "%X_b%"),
        ("aXaYb", "%a_b"),
    ],
)
def test_a_text_that_fits_matches(text: str, pattern: str) -> None:
    assert is_like(text, pattern)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("a", ""),
        ("abc", "ABC"),
        ("abc", "ab"),
        ("abc", "bc"),
        ("abc", "__"),
        ("abc", "____"),
        ("aba", "ab%ba"),
        ("aa", "a%a%a"),
        ("abxc", "ab.c"),
        ("ab", "%b_%"),
        # What one stretch has taken is not there for the next.
        ("xabax", "%ab%ba%"),
        ("xabax", "%_b%ba%"),
    ],
)
def test_a_text_that_does_not_fit_does_not_match(text: str, pattern: str) -> None:
    assert not is_like(text, pattern)


def test_the_escape_takes_the_meaning_of_what_follows() -> None:
    assert is_like("50%", "50!%", "!")
    assert not is_like("50x", "50!%", "!")
    assert is_like("a_b!", "a!_b!!", "!")
    assert is_like("ab", "!ab", "!")
    assert is_like("%x", "%%%x", "%")


def test_a_pattern_that_ends_with_its_escape_is_none() -> None:
    assert like_pattern("abc!", "!") is None
    assert like_pattern("!", "!") is None


def as_regular_expression(pattern: str, escape: str | None) -> re.Pattern[str] | None:
    pieces: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            literal = next(characters, None)
            if literal is None:
                return None
            pieces.append(re.escape(literal))
        else:
            pieces.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
    return re.compile("".join(pieces), re.DOTALL)


@given(
    st.text(alphabet="ab%_!", max_size=12),
    st.text(alphabet="aab_%!_%", max_size=8),
    st.sampled_from([None, "!", "%", "a"]),
)
@example("aab", "%a_b%", None)
def test_it_matches_what_a_regular_expression_matches(
    text: str, pattern: str, escape: str | None
) -> None:
    compiled = like_pattern(pattern, escape)
    reference = as_regular_expression(pattern, escape)
    assert (compiled is None) == (reference is None)
    if compiled is not None and reference is not None:
        assert compiled.matches(text) == (reference.fullmatch(text) is not None)


@pytest.mark.parametrize(
    "pattern", ["%a_" * 30 + "%b", "%" + "a_" * 2000 + "b%", "%a" * 200 + "%b", "_%" * 200 + "b"]
)
@pytest.mark.timeout(20)
def test_a_pattern_that_would_make_backtracking_explode_is_done_at_once(pattern: str) -> None:
    assert not is_like("a" * 20_000, pattern)


def test_a_text_beyond_the_limit_matches_nothing_and_costs_nothing() -> None:
    pattern = like_pattern("%_b%", None)
    assert pattern is not None
    assert pattern.matches("a" * (TEXT_LENGTH_MAX - 1) + "b")
    assert not pattern.matches("a" * TEXT_LENGTH_MAX + "b")
