"""amqp091-go, the Go client: every scenario of `go_client/main.go` in its own process."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "go_client" / "main.go"
SCENARIOS = re.findall(r'^\t"(\w+)": +\w+,$', SOURCE.read_text("utf-8"), re.MULTILINE)
DROPPED = "hears_of_a_dropped_connection"

PATIENCE_SECONDS = 25.0

# Without the time a fixture may take to install and compile the client.
pytestmark = pytest.mark.timeout(60, func_only=True)


def start(client: Path, scenario: str, broker_url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(client), scenario, f"{broker_url}/%2F"],
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
        pytest.fail(f"the client did not end in {PATIENCE_SECONDS} s\n{output}")
    assert process.returncode == 0, output


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != DROPPED])
def test_the_go_client(go_client: Path, broker_url: str, scenario: str) -> None:
    finish(start(go_client, scenario, broker_url))


def test_the_go_client_hears_of_a_dropped_connection(
    go_client: Path, broker_url: str, drop_connections: Callable[[], object]
) -> None:
    process = start(go_client, DROPPED, broker_url)
    assert process.stdout is not None
    assert process.stdout.readline() == "connected\n"
    drop_connections()
    finish(process)


def test_no_scenario_was_overlooked() -> None:
    assert len(SCENARIOS) == SOURCE.read_text("utf-8").count("(url string) {") >= 11
