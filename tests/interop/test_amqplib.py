"""amqplib, the JavaScript client: every scenario of `amqplib/scenarios.cjs` in its own process."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "amqplib" / "scenarios.cjs"
SCENARIOS = re.findall(r"^  async (\w+)\(url\) {$", SCRIPT.read_text("utf-8"), re.MULTILINE)
DROPPED = "hears_of_a_dropped_connection"

PATIENCE_SECONDS = 25.0

# Without the time npm may take to install amqplib, which is a fixture's.
pytestmark = pytest.mark.timeout(60, func_only=True)


def start(amqplib: Path, scenario: str, broker_url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["node", str(SCRIPT), scenario, f"{broker_url}/%2F"],
        env=os.environ | {"NODE_PATH": str(amqplib / "node_modules")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    try:
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        pytest.fail(f"node did not end in {PATIENCE_SECONDS} s\n{output}")
    assert process.returncode == 0, output


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != DROPPED])
def test_amqplib(amqplib: Path, broker_url: str, scenario: str) -> None:
    finish(start(amqplib, scenario, broker_url))


def test_amqplib_hears_of_a_dropped_connection(
    amqplib: Path, broker_url: str, drop_connections: Callable[[], object]
) -> None:
    process = start(amqplib, DROPPED, broker_url)
    assert process.stdout is not None
    assert process.stdout.readline() == "connected\n"
    drop_connections()
    finish(process)


def test_no_scenario_was_overlooked() -> None:
    assert len(SCENARIOS) == SCRIPT.read_text("utf-8").count("(url) {") >= 10
