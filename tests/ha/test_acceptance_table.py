"""The page of high availability has every item of Qpid's lists, and the tests that it names exist."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs" / "design" / "ha.md").read_text("utf-8")
ROW = re.compile(r"^\| (A?\d+(?:, \d+)?) (\w+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE)
# A file, and the tests of it that are named behind it.
NAMED = re.compile(r"`([a-z0-9_/]+\.py)`(?:: ((?:test_\w+)(?:(?:, | and )test_\w+)*))?")


def test_every_item_is_there_once_and_in_order() -> None:
    numbers = [int(number) for items, *_ in ROWS for number in re.findall(r"\d+", items)]
    assert numbers == list(range(1, 66))


@pytest.mark.parametrize(("item", "told"), [(row[0], row[3]) for row in ROWS])
def test_an_item_has_a_test_or_a_reason(item: str, told: str) -> None:
    named = NAMED.findall(told)
    assert named or "does not apply" in told, item
    for path, tests in named:
        source = (TESTS / path).read_text("utf-8")
        for test in re.findall(r"test_\w+", tests):
            assert re.search(rf"^def {test}", source, re.MULTILINE), (item, path, test)
