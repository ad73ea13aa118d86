"""Lines as text and as JSON: nothing that a client chose breaks them, and tracebacks are bounded."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from penstock.server.log_lines import (
    TRACEBACK_LENGTH_MAX,
    VALUE_LENGTH_MAX,
    configure,
)
from penstock.server.log_settings import LogConfiguration


@pytest.fixture(autouse=True)
def configured_as_before() -> Iterator[None]:
    before = structlog.get_config()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.configure(**before)
    root.handlers[:] = handlers
    root.setLevel(level)


def written_as(form: str, level: str = "info") -> io.StringIO:
    file = io.StringIO()
    configure(LogConfiguration(level, form), file)
    return file


HOSTILE = "a\nb\r\x1b[31m\u2028\udcff\N{SNOWMAN}"


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_hostile_value_stays_in_its_line(form: str) -> None:
    file = written_as(form)
    structlog.get_logger().warning("login refused", user=HOSTILE, reason="x" * 10_000)
    text = file.getvalue()
    assert text.isascii()
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert len(text) < 3 * VALUE_LENGTH_MAX
    assert "(10000 characters)" in text
    if form == "json":
        assert json.loads(text)["user"] == HOSTILE


def test_values_of_variables_are_not_in_a_traceback() -> None:
    file = written_as("text")
    password = "drow-t3rc3s"[::-1]
    try:
        raise ValueError("told")
    except ValueError:
        structlog.get_logger().exception("a defect")
    text = file.getvalue()
    assert 'error="ValueError: told"' in text
    assert "Traceback (most recent call last):" in text
    assert "in test_values_of_variables_are_not_in_a_traceback" in text
    assert password not in text
    assert all(line.startswith("    ") for line in text.splitlines()[1:])


def deep(levels: int) -> None:
    if levels:
        deep(levels - 1)
    raise ValueError("x" * 100_000)


def test_a_traceback_is_bounded_and_written_once() -> None:
    file = written_as("json")
    for _ in range(50):
        try:
            deep(500)
        except ValueError:
            structlog.get_logger().exception("a defect")
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert ["traceback" in line for line in lines] == [True] + [False] * 49
    assert len(lines[0]["traceback"]) <= TRACEBACK_LENGTH_MAX + 2 * VALUE_LENGTH_MAX
    assert all(line["error"].startswith("ValueError: xxx") for line in lines)
    assert len(file.getvalue()) < 50_000


def test_libraries_speak_through_the_same_log() -> None:
    file = written_as("json")
    logging.getLogger("asyncio").warning("socket.send() raised %s", "exception")
    [line] = [json.loads(line) for line in file.getvalue().splitlines()]
    assert (line["level"], line["library"]) == ("warning", "asyncio")
    assert line["message"] == "socket.send() raised exception"


def test_lines_below_the_level_are_dropped() -> None:
    file = written_as("text", "error")
    structlog.get_logger().warning("nothing")
    structlog.get_logger().error("something")
    assert "nothing" not in file.getvalue()
    assert " error    something\n" in file.getvalue()
