import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.exchanges.topic import TopicExchange
from penstock.broker.exchanges.topic_trie import TopicTrie
from tests.broker.doubles import bind, matched

# Few different words, so that patterns and keys meet often; empty ones and literal wildcards too.
WORDS = st.sampled_from(["a", "b", "", "*", "#"])
KEYS = st.lists(WORDS, max_size=6).map(".".join)


def topic() -> TopicExchange:
    return TopicExchange("e", "topic", False, False, False, {})


def naive_match(pattern: list[str], words: list[str]) -> bool:
    """The specification's sentence, word by word."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(naive_match(pattern[1:], words[skip:]) for skip in range(len(words) + 1))
    if not words:
        return False
    return (pattern[0] in {"*", words[0]}) and naive_match(pattern[1:], words[1:])


def split(key: str) -> list[str]:
    return key.split(".") if key else []


@given(st.lists(KEYS, max_size=12, unique=True), st.lists(KEYS, max_size=6), st.data())
def test_the_trie_selects_what_the_specification_says(
    patterns: list[str], keys: list[str], data: st.DataObject
) -> None:
    exchange = topic()
    bound = {pattern: bind(exchange, pattern, pattern) for pattern in patterns}
    removed = data.draw(st.lists(st.sampled_from(patterns), unique=True)) if patterns else []
    for pattern in removed:
        exchange.remove(bound.pop(pattern))
    for key in keys:
        expected = {pattern for pattern in bound if naive_match(split(pattern), split(key))}
        found = matched(exchange, key)
        assert set(found) == expected
        assert len(found) == len(expected), "each binding is found once"


@pytest.mark.parametrize(
    ("pattern", "key", "matches"),
    [
        ("*", "", False),
        ("#", "", True),
        ("", "", True),
        ("a.*", "a.", True),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("#.#", "", True),
        ("*.*", ".", True),
        ("a*", "ab", False),
        ("a*", "a*", True),
    ],
)
def test_corner_cases_of_words(pattern: str, key: str, matches: bool) -> None:
    exchange = topic()
    bind(exchange, "q", pattern)
    assert matched(exchange, key) == (["q"] if matches else [])


def test_an_emptied_trie_keeps_no_nodes() -> None:
    exchange = topic()
    bindings = [bind(exchange, "q", pattern) for pattern in ("a.b.*", "a.#", "#.#.c", "")]
    trie = TopicTrie()
    for binding in bindings:
        trie.add(binding)
    for binding in bindings:
        trie.remove(binding)
    root = trie._root
    assert not root.children
    assert root.any_words is None
    assert root.one_word is None


def test_nested_hashes_do_not_explode() -> None:
    """Tried one by one, the ways to place 20 words among 12 `#` are more than a hundred million."""
    exchange = topic()
    bind(exchange, "q", ".".join(["#", "a"] * 12 + ["b"]))
    assert matched(exchange, ".".join(["a"] * 100)) == []
