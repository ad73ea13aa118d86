"""`penstock demo` as its user sees it: a broker of its own, and an account of every message."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.demo import cpu_seconds_of


def test_the_demo_accounts_for_everything_and_leaves_no_broker_behind() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "demo", "--messages", "3000"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every message was confirmed and delivered." in done.stdout
    assert re.search(r"confirmed\W+3,000", done.stdout)
    assert "broker CPU per message" in done.stdout
    pid = re.search(r"process (\d+)", done.stdout)
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid[1]), 0)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_cpu_time_is_read_from_proc() -> None:
    spent = cpu_seconds_of(os.getpid())
    assert spent is not None
    assert spent > 0


def test_a_process_that_is_gone_has_no_cpu_time() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert cpu_seconds_of(child.pid) is None
