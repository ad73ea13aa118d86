"""CPU accounting on toy processes that burn a known amount in a known place."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable

from bench.cpu import (
    process_tree,
    tree_cpu_seconds,
    tree_peak_resident_bytes,
    tree_resident_bytes,
)
from bench.running import end_tree

BURN = "import time\nwhile time.process_time() < 0.3: pass\n"
REAPING_PARENT = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])\n"
IDLE_PARENT = (
    "import subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
    "print(child.pid, flush=True)\n"
    "child.wait()\n"
)


def start(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def finish(process: subprocess.Popen[str]) -> None:
    process.communicate("\n", timeout=20)


def test_a_process_that_burns_is_charged_for_it() -> None:
    process = start(BURN + "print('done', flush=True)\ninput()\n")
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    assert 0.25 <= tree_cpu_seconds(process.pid) <= 0.6
    finish(process)


def test_a_child_that_burned_and_ended_is_still_charged() -> None:
    process = start(REAPING_PARENT + "print('done', flush=True)\ninput()\n")
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    assert process_tree(process.pid) == [process.pid]
    assert tree_cpu_seconds(process.pid) >= 0.25
    finish(process)


def test_the_tree_holds_living_children_and_their_memory() -> None:
    process = start(IDLE_PARENT)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    assert process_tree(process.pid) == [process.pid, child]
    until(lambda: tree_resident_bytes(process.pid) > tree_resident_bytes(child) > 1_000_000)
    end_tree(process)
    assert process.stdin is not None
    process.stdin.close()
    assert process.returncode == -signal.SIGTERM


def test_a_process_that_is_gone_costs_nothing() -> None:
    process = start("")
    finish(process)
    assert tree_cpu_seconds(process.pid) == 0


def test_the_peak_outlives_what_caused_it() -> None:
    code = "held = b'x' * 50_000_000\ndel held\nprint('done', flush=True)\ninput()\n"
    process = start(code)
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    assert tree_peak_resident_bytes(process.pid) > 50_000_000 > tree_resident_bytes(process.pid)
    finish(process)
