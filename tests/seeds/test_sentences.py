"""Every sentence of seed 002 is quoted by a test of this folder, word for word and with its line.

`seed_002_sentences.txt` holds the sentences, each behind the line that it begins on. Headings and the empty
item of line 62 are left out; line breaks within a sentence are spaces.
"""

import ast
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
SENTENCES = [
    (int(number), sentence)
    for number, sentence in (
        line.split(" ", 1)
        for line in (FOLDER / "seed_002_sentences.txt").read_text("utf-8").splitlines()
    )
]
# Sentences that no test can hold us to, by their beginning, each with the reason.
UNTESTED = {
    "The specification is super unclear": "an opinion; docs/design/amqp10.md has the rules",
    "Ideally wait-free": "a wish: nothing waits where there is one thread",
    "Finally the": "announces the sentences that follow",
    "It's not clear what value": "announces what it quotes from the specification",
    "The implementation makes heavy use": "about threads, which share nothing here",
    "[03:47.365] RECV": "a line of somebody else's log, the example of the sentence before",
}
LINES = re.compile(r"\bLines? (\d+(?:(?:,| and) \d+)*)")


def docstrings(source: str) -> list[str]:
    """What the tests of a file say about themselves, with single spaces."""
    return [
        " ".join((ast.get_docstring(node) or "").split())
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


TOLD = [
    text
    for path in sorted(FOLDER.glob("test_seed_002_*.py"))
    for text in docstrings(path.read_text("utf-8"))
]


def lines_of(text: str) -> set[int]:
    return {int(number) for found in LINES.findall(text) for number in re.findall(r"\d+", found)}


def quotes(text: str, line: int, sentence: str) -> bool:
    """Whether a docstring quotes a sentence and says its line. A sentence may lose its last mark."""
    return line in lines_of(text) and sentence.rstrip(".:") in text


def reason_for(sentence: str) -> str | None:
    return next((UNTESTED[start] for start in UNTESTED if sentence.startswith(start)), None)


@pytest.mark.parametrize(("line", "sentence"), SENTENCES)
def test_a_sentence_is_quoted_by_a_test_or_says_why_not(line: int, sentence: str) -> None:
    is_quoted = any(quotes(text, line, sentence) for text in TOLD)
    if reason_for(sentence) is not None:
        assert not is_quoted, "it has a test after all"
    else:
        assert is_quoted, f"no seed test quotes line {line}: {sentence}"


def test_every_excuse_is_for_one_sentence() -> None:
    for start in UNTESTED:
        assert sum(sentence.startswith(start) for _, sentence in SENTENCES) == 1, start


def test_a_sentence_that_is_misquoted_or_has_another_line_is_not_quoted() -> None:
    (told,) = docstrings('def test_it():\n    """Lines 3 and 5: "It is\n    so." Ours too."""\n')
    assert quotes(told, 3, "It is so.")
    assert quotes(told, 5, "It is so.")
    assert not quotes(told, 4, "It is so.")
    assert not quotes(told, 3, "It was so.")
