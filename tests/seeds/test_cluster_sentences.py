"""Every line of seeds 000, 001 and 003 is quoted by a test of this folder, or says why not.

`seed_000_sentences.txt` and its like hold the seeds completely, each sentence behind the line that it
begins on, without the marks of lists. Seed 003 says in other words what seed 001 says: its lines are named as
003:8 by the tests of both, and not quoted.
"""

import re
from pathlib import Path

import pytest

from tests.seeds.test_sentences import docstrings, quotes

FOLDER = Path(__file__).resolve().parent
Excuses = list[tuple[int, int, str]]

HEADING = "a heading, or a mark of its author"
NO_SECONDARIES = "secondary servers are not built: all members are primaries"
ROOT_ONLY = "clients are served by the root alone; servers that serve beside it are not built"
OTHER_CODE = "about the code of another broker"
FIGURES = "estimates of somebody else's machines; bench measures ours"

# First line, last line, and the reason why no test quotes what begins there.
EXCUSES: dict[str, Excuses] = {
    "000": [
        (1, 1, HEADING),
        (6, 6, HEADING),
        (8, 13, NO_SECONDARIES),
        (18, 18, NO_SECONDARIES),
        (19, 21, HEADING),
        (25, 27, HEADING),
        (30, 32, HEADING),
        (39, 39, HEADING),
        (45, 47, HEADING),
        (51, 51, NO_SECONDARIES),
        (52, 54, HEADING),
        (57, 58, NO_SECONDARIES),
        (65, 67, HEADING),
        (72, 74, HEADING),
        (83, 85, "queues have no owning user here, so exclusive consumers need no such rule"),
        (86, 88, HEADING),
        (92, 92, HEADING),
        (93, 96, "private queues are at the root, with their clients, and so are their bindings"),
        (97, 97, HEADING),
        (99, 120, ROOT_ONLY),
        (122, 122, HEADING),
        (128, 128, HEADING),
        (130, 156, ROOT_ONLY),
        (162, 169, "about AMQP in general; replies come in the order of requests"),
        (173, 190, ROOT_ONLY),
        (192, 192, HEADING),
        (199, 199, HEADING),
        (201, 201, "a wish for a client in C"),
        (202, 203, ROOT_ONLY),
        (209, 209, HEADING),
        (214, 263, FIGURES),
        (266, 266, HEADING),
        (273, 274, ROOT_ONLY),
        (276, 276, ROOT_ONLY),
        (277, 280, NO_SECONDARIES),
        (285, 294, ROOT_ONLY),
    ],
    "001": [
        (1, 14, OTHER_CODE),
        (17, 17, HEADING),
        (30, 30, "a reference within the seed"),
        (45, 45, HEADING),
        (48, 48, "a matter of the load balancer; /health/root tells it where the root is"),
        (55, 55, HEADING),
        (58, 58, "announces the sentences that follow"),
        (68, 68, HEADING),
        (77, 77, "about applications"),
        (85, 89, HEADING),
        (92, 92, HEADING),
        (95, 95, HEADING),
        (105, 105, "announces the sentences that follow"),
        (110, 110, HEADING),
        (125, 125, HEADING),
        (130, 130, HEADING),
        (146, 148, OTHER_CODE),
    ],
    "003": [
        (2, 6, HEADING),
        (14, 14, "announces the sentences that follow"),
        (20, 23, HEADING),
        (40, 40, HEADING),
        (47, 48, HEADING),
    ],
}
# Sentences that share their line with one that is tested.
ANNOUNCING = {
    "42 See": "a reference within the seed",
}
_OF_003 = re.compile(r"\b003:(\d+)")


def sentences(seed: str) -> list[tuple[int, str]]:
    lines = (FOLDER / f"seed_{seed}_sentences.txt").read_text("utf-8").splitlines()
    return [(int(number), text) for number, text in (line.split(" ", 1) for line in lines)]


def told(seed: str) -> list[str]:
    return [
        text
        for path in sorted(FOLDER.glob(f"test_seed_{seed}_*.py"))
        for text in docstrings(path.read_text("utf-8"))
    ]


TOLD = {"000": told("000"), "001": told("001")}
LINES_OF_003 = {
    int(number) for text in (*TOLD["001"], *told("003")) for number in _OF_003.findall(text)
}


def reason_for(seed: str, line: int, sentence: str) -> str:
    for start, reason in ANNOUNCING.items():
        if f"{line} {sentence}".startswith(start):
            return reason
    for first, last, reason in EXCUSES[seed]:
        if first <= line <= last:
            return reason
    return ""


@pytest.mark.parametrize(
    ("seed", "line", "sentence"),
    [(seed, *one) for seed in ("000", "001") for one in sentences(seed)],
)
def test_a_sentence_is_quoted_by_a_test_or_says_why_not(
    seed: str, line: int, sentence: str
) -> None:
    is_quoted = any(quotes(text, line, sentence) for text in TOLD[seed])
    if reason_for(seed, line, sentence):
        assert not is_quoted, "it has a test after all"
    else:
        assert is_quoted, f"no test quotes line {line} of seed {seed}: {sentence}"


@pytest.mark.parametrize(("line", "sentence"), sentences("003"))
def test_a_line_of_seed_003_is_named_by_a_test_or_says_why_not(line: int, sentence: str) -> None:
    if reason_for("003", line, sentence):
        assert line not in LINES_OF_003 or f"{line} {sentence}".startswith(tuple(ANNOUNCING))
    else:
        assert line in LINES_OF_003, f"no test names 003:{line}: {sentence}"


@pytest.mark.parametrize("seed", sorted(EXCUSES))
def test_every_excuse_is_for_lines_that_exist_and_comes_once(seed: str) -> None:
    lines = {line for line, _ in sentences(seed)}
    before = 0
    for first, last, reason in EXCUSES[seed]:
        assert before < first <= last, (seed, first)
        assert {first, last} <= lines, (seed, first, last, reason)
        before = last
