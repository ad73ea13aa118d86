"""The programs of the tutorials as processes of their own against a served broker, and that the
documents show these programs.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.served import served_processes

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "examples" / "tutorials"
PAGES = sorted((ROOT / "docs" / "tutorials").glob("[0-9]*.md"))
PATIENCE_SECONDS = 90.0
SHOWN = re.compile(
    r"^\[(\w+\.py)\]\(\.\./\.\./examples/tutorials/\1\):\n\n```python\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)

pytestmark = pytest.mark.timeout(300)


class Terminal:
    """One program that runs until Ctrl-C. Held by a test through `Terminals`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def line(self) -> str:
        """The next line that it prints; the test's timeout ends a wait in vain."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def interrupt(self) -> str:
        """Ctrl-C; what it prints until it has ended, which it does well."""
        self.process.send_signal(signal.SIGINT)
        output, _ = self.process.communicate(timeout=PATIENCE_SECONDS)
        assert self.process.returncode == 0
        return output


class Terminals:
    """Starts programs that talk to one broker. Held by a test."""

    def __init__(self, url: str, cleanup: ExitStack) -> None:
        self._environment = os.environ | {"AMQP_URL": url}
        self._cleanup = cleanup

    def start(self, program: str, *arguments: str) -> Terminal:
        """Returns when the program has said that it waits."""
        process = subprocess.Popen(
            [sys.executable, str(PROGRAMS / program), *arguments],
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._cleanup.callback(end, process)
        started = Terminal(process)
        assert started.line().endswith("; Ctrl-C ends")
        return started

    def run(self, program: str, *arguments: str) -> list[str]:
        """The lines of a program that ends by itself."""
        done = subprocess.run(
            [sys.executable, str(PROGRAMS / program), *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()


def end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.kill()
        process.communicate()


@pytest.fixture
def terminals() -> Iterator[Terminals]:
    with served_processes() as served, ExitStack() as cleanup:
        port = served.port("--no-http")
        yield Terminals(f"amqp://guest:guest@127.0.0.1:{port}/%2F", cleanup)


def test_hello_world(terminals: Terminals) -> None:
    assert terminals.run("hello_send.py") == ["sent: Good morning!"]
    receiver = terminals.start("hello_receive.py")
    assert receiver.line() == "received: Good morning!"
    assert receiver.interrupt() == ""


def test_work_queues(terminals: Terminals) -> None:
    first = terminals.start("work_do.py")
    second = terminals.start("work_do.py")
    # The long one is still being done when its worker is interrupted, however slow the machine.
    job = "reservoir" * 30
    terminals.run("work_submit.py", job, "pump")
    begun = {first: first.line(), second: second.line()}
    assert sorted(begun.values()) == ["begun: pump", f"begun: {job}"]
    worker = next(one for one, line in begun.items() if line == f"begun: {job}")
    other = second if worker is first else first
    assert other.line() == "done: pump"
    assert f"done: {job}" not in worker.interrupt()
    assert other.line() == f"begun: {job}"


def test_publish_and_subscribe(terminals: Terminals) -> None:
    listeners = [terminals.start("fanout_subscribe.py") for _ in range(2)]
    terminals.run("fanout_publish.py", "pressure is low")
    for listener in listeners:
        assert listener.line() == "heard: pressure is low"
        assert listener.interrupt() == ""


def test_routing(terminals: Terminals) -> None:
    alarms = terminals.start("routing_subscribe.py", "alarm")
    both = terminals.start("routing_subscribe.py", "alarm", "notice")
    terminals.run("routing_publish.py", "notice", "the tea is ready")
    terminals.run("routing_publish.py", "alarm", "the dam leaks")
    assert alarms.line() == "alarm: the dam leaks"
    assert [both.line(), both.line()] == ["notice: the tea is ready", "alarm: the dam leaks"]
    assert alarms.interrupt() == both.interrupt() == ""


def test_topics(terminals: Terminals) -> None:
    north = terminals.start("topics_subscribe.py", "north.#")
    levels = terminals.start("topics_subscribe.py", "*.*.level", "*.reservoir.*")
    terminals.run("topics_publish.py", "south.pump.power", "11")
    terminals.run("topics_publish.py", "north.reservoir.level", "4.2")
    terminals.run("topics_publish.py", "north.pump", "on")
    assert [north.line(), north.line()] == ["north.reservoir.level: 4.2", "north.pump: on"]
    assert levels.line() == "north.reservoir.level: 4.2"
    assert north.interrupt() == levels.interrupt() == ""


def test_questions_and_answers(terminals: Terminals) -> None:
    server = terminals.start("rpc_server.py")
    assert terminals.run("rpc_client.py", "250", "1500", "much") == [
        "250 litres: 0.25 m3",
        "1500 litres: 1.5 m3",
        "much litres: error: this is not a number",
    ]
    assert server.interrupt() == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_its_two_programs_as_they_are(page: Path) -> None:
    shown = SHOWN.findall(page.read_text("utf-8"))
    assert len(shown) == 2
    for name, text in shown:
        assert text == (PROGRAMS / name).read_text("utf-8"), f"{page.name} shows another {name}"


def test_every_program_is_shown_by_a_page() -> None:

    shown = {name for page in PAGES for name, _ in SHOWN.findall(page.read_text("utf-8"))}
    assert shown == {path.name for path in PROGRAMS.glob("*.py")}
