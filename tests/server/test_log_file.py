"""A log that nobody reads does not stop the broker."""

import os

from penstock.server.log_file import LogFile


def test_lines_are_dropped_and_counted_while_nobody_reads() -> None:
    reading, writing = os.pipe()
    try:
        file = LogFile(writing)
        line = "x" * 999 + "\n"
        for _ in range(1000):
            file.write(line)
        first = os.read(reading, 1_000_000)
        assert 0 < first.count(b"\n") < 1000
        file.write("after\n")
        rest = os.read(reading, 1_000_000).decode()
        dropped = 1000 - first.count(b"\n")
        assert rest.endswith(
            f"({dropped} log lines were dropped, because the output was not read)\nafter\n"
        )
    finally:
        os.close(reading)
        os.close(writing)


def test_a_reader_that_has_left_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        LogFile(writing).write("x\n")
    finally:
        os.close(writing)


def test_a_long_line_arrives_whole() -> None:
    reading, writing = os.pipe()
    try:
        text = "y" * 20_000 + "\n"
        LogFile(writing).write(text)
        assert os.read(reading, 100_000).decode() == text
    finally:
        os.close(reading)
        os.close(writing)
