"""The guide to the data source tells every option and every column, and none that is not there."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.spark.columns import COLUMNS
from penstock.spark.options import READ_OPTIONS
from penstock.spark.write_options import WRITE_OPTIONS

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "SPARK.md").read_text("utf-8")
READING, WRITING = GUIDE.split("## Writing")


def named_in(text: str, heading: str) -> set[str]:
    """What the first cells of the table under a heading name."""
    table = text[text.index(f"| {heading} |") :].split("\n\n", maxsplit=1)[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_every_option_of_a_read_is_told() -> None:
    assert named_in(READING, "option") == set(READ_OPTIONS)


def test_every_option_of_a_write_is_told() -> None:
    assert named_in(WRITING, "option") == set(WRITE_OPTIONS)


def test_every_column_is_told() -> None:
    assert named_in(READING, "column") == set(COLUMNS)
