"""Tables fit the terminal, and nobody's name commands it."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.administering.tables import (
    Column,
    Row,
    column,
    cut,
    number,
    shown,
    table_lines,
    visible,
    width_of,
)

COLUMNS = (
    column("name", "name"),
    number("ready", "ready"),
    column("policy", "policy"),
    column("arguments", "arguments"),
)
ROWS: list[Row] = [
    {"name": "jobs", "ready": 7, "policy": "short", "arguments": {"x-max-length": 10}},
    {"name": "a-queue-with-a-rather-long-name", "ready": 12345, "policy": "", "arguments": {}},
]


def test_numbers_stand_on_the_right_and_texts_on_the_left() -> None:
    lines = table_lines(COLUMNS, ROWS)
    assert lines[0].split() == ["name", "ready", "policy", "arguments"]
    assert lines[1].startswith("jobs ")
    assert lines[1].index("7") == lines[2].index("12345") + 4


def test_nothing_is_cut_where_there_is_no_width() -> None:
    text = "\n".join(table_lines(COLUMNS, ROWS))
    assert "a-queue-with-a-rather-long-name" in text
    assert '{"x-max-length": 10}' in text
    assert "…" not in text


def test_a_narrow_terminal_cuts_texts_and_then_drops_the_last_columns() -> None:
    lines = table_lines(COLUMNS, ROWS, 40)
    assert "12345" in lines[2]
    assert "…" in lines[2]
    assert "arguments" not in lines[0]
    assert lines[-1].startswith("(not shown") and "arguments" in lines[-1]


@given(
    names=st.lists(st.text(max_size=60), min_size=1, max_size=5),
    width=st.integers(min_value=20, max_value=200),
)
def test_no_line_is_wider_than_the_terminal(names: list[str], width: int) -> None:
    columns = [column("name", "name"), number("n", "n"), column("other", "name")]
    rows: list[Row] = [{"name": name, "n": len(name)} for name in names]
    lines = table_lines(columns, rows, width)
    for line in lines[: len(rows) + 1]:
        assert width_of(line) <= width


def test_wide_characters_count_twice() -> None:
    assert width_of("日本") == 4
    assert cut("日本語", 5) == "日本…"


def test_a_name_cannot_command_the_terminal() -> None:
    assert visible("a\033[2Jb\n") == "a\\x1b[2Jb\\n"
    lines = table_lines([Column("name", lambda row: row["name"])], [{"name": "x\r\033[31m"}])
    assert "\033" not in lines[1] and "\r" not in lines[1]


def test_cells_are_words_that_people_read() -> None:
    assert [shown(value) for value in (None, "", True, False, 0, 1.25, ["a", "b"])] == [
        "-",
        "-",
        "yes",
        "no",
        "0",
        "1.2",
        "a, b",
    ]
