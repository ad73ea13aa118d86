"""`penstock serve` as a process, for tests of every room."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

# The time to refuse a start, or to end after a signal; a loaded machine is slow.
END_SECONDS = 120


def launch(
    *options: str,
    errors: IO[str] | int = subprocess.PIPE,
    environment: dict[str, str] | None = None,
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "penstock", "serve", *options],
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        # Unflushed output stays in the buffer, as it would under a supervisor.
        env={**os.environ, "PYTHONUNBUFFERED": "", **(environment or {})},
    )


def ready_facts(process: subprocess.Popen[str]) -> dict[str, str]:
    """The facts of its ready line; waits for it."""
    assert process.stdout is not None
    words = process.stdout.readline().split()
    if words[:2] != ["penstock", "ready"]:
        process.kill()
        raise AssertionError(f"said {words} instead of being ready", *process.communicate())
    facts = dict(word.split("=") for word in words[2:])
    assert int(facts["pid"]) == process.pid
    return facts


def amqp_port(facts: dict[str, str]) -> int:
    return int(facts["amqp"].rpartition(":")[2])


class Served:
    """The processes of one test, on free ports. Ended by `served_processes`."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[str]] = []

    def launch(self, *options: str) -> subprocess.Popen[str]:
        process = launch(*options)
        self.processes.append(process)
        return process

    def ready(self, *options: str) -> dict[str, str]:
        """Start one more on a free port; returns the facts of its ready line."""
        return ready_facts(self.launch("--port=0", *options))

    def port(self, *options: str) -> int:
        """Start one more on a free port; that port."""
        return amqp_port(self.ready(*options))

    @property
    def latest(self) -> subprocess.Popen[str]:
        return self.processes[-1]

    def refused(self, *options: str) -> tuple[int, str]:
        """Start one that must not serve: returns its exit code and its message."""
        process = self.launch(*options)
        output, errors = process.communicate(timeout=END_SECONDS)
        assert output == "", output
        assert "Traceback" not in errors
        return process.returncode, errors


@contextmanager
def served_processes() -> Iterator[Served]:
    started = Served()
    try:
        yield started
    finally:
        for process in started.processes:
            process.kill()
            process.communicate()
