"""The root of a cluster shows clients what a server on its own shows them: transactions and confirms.

The tests are those of `tests/behaviour`, of which the rest runs against a cluster by hand (see
docs/TESTING.md).
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.processes.servers import PATIENCE_SECONDS, ClusterServer, RunningCluster

pytestmark = pytest.mark.timeout(900)

ROOM = Path(__file__).parents[3]
SUITE = "tests/behaviour/test_confirms_and_tx.py"
# Fewer would mean that most of them were left out.
PASSED_MIN = 25


def test_confirms_and_transactions_at_the_root_of_a_cluster(three: RunningCluster) -> None:
    three.start().while_root_stays(check_suite)


def check_suite(root: ClusterServer) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", SUITE],
        cwd=ROOM,
        env={
            **os.environ,
            "PENSTOCK_BEHAVIOUR_BROKER": "penstock",
            "PENSTOCK_BEHAVIOUR_URL": f"amqp://guest:guest@127.0.0.1:{root.port}",
            "PENSTOCK_BEHAVIOUR_MANAGEMENT_URL": root.http,
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed.group(1)) >= PASSED_MIN, done.stdout
    assert "skipped" not in done.stdout, done.stdout
