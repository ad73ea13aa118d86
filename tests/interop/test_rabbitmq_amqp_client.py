"""RabbitMQ's own AMQP 1.0 client, rabbitmq-amqp-python-client: every scenario of
`rabbitmq_amqp_client/scenarios.py` in its own process.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock import Broker

SCRIPT = Path(__file__).parent / "rabbitmq_amqp_client" / "scenarios.py"
SCENARIOS = re.findall(
    r"^def (\w+)\(url: str, name: str\)", SCRIPT.read_text("utf-8"), re.MULTILINE
)

PATIENCE_SECONDS = 25.0

# Without the time pip may take to install the client, which is a fixture's.
pytestmark = pytest.mark.timeout(60, func_only=True)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_rabbitmq_amqp_client(
    rabbitmq_amqp_client: Path,
    broker: Broker | None,
    unique: Callable[[str], str],
    scenario: str,
) -> None:
    if broker is None:
        pytest.skip("an outside broker was named, and it may not speak AMQP 1.0")
    url = f"amqp://guest:guest@{broker.host}:{broker.port}/"
    done = subprocess.run(
        [str(rabbitmq_amqp_client), str(SCRIPT), scenario, url, unique("rabbitmq")],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_no_scenario_was_overlooked() -> None:
    assert len(SCENARIOS) == SCRIPT.read_text("utf-8").count("(url: str, name: str)") >= 9
