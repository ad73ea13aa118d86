"""`penstock cluster up --ledger`: the ledgers of its servers, audited as it says."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cluster_processes import eventually, penstock
from tests.support.served import END_SECONDS

SECONDS_MAX = 300
SERVERS = 3
# What it prints before it waits: the servers, the clients' address, where to look, the audit, the end.
LINES = SERVERS + 4


@pytest.mark.slow
@pytest.mark.timeout(SECONDS_MAX)
def test_the_ledgers_of_a_cluster_on_this_machine_are_audited_by_the_printed_command(
    tmp_path: Path,
) -> None:
    clients = tmp_path / "clients"
    words = ("cluster", "up", "--ledger", "--data", str(tmp_path / "up"))
    with subprocess.Popen(
        [sys.executable, "-m", "penstock", *words], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(LINES)]
        told = {name: text.strip() for name, _, text in (line.partition(": ") for line in lines)}
        servers = [f"http://{line.split('http=')[1].split()[0]}" for line in lines[:SERVERS]]
        try:
            sent(told["clients"], clients)
            eventually("the root has handed over", lambda: any(map(handed_over, servers)))
            sent(told["clients"], clients)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=END_SECONDS)
    program, *audit = shlex.split(told["audit"])
    assert program == "penstock"
    done = penstock(*audit, str(clients), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    totals = found["totals"]
    assert (totals["enqueued"], totals["confirmed"], totals["lost"]) == (600, 600, 0)
    assert found["cannot_be_known"] == []
    # More than one root, and the ledgers of all of them.
    (roots,) = found["roots"].values()
    assert len(roots) > 1


def handed_over(server: str) -> bool:
    """Only the root does."""
    return penstock("cluster", "hand-over", "--server", server).returncode == 0


def sent(uri: str, clients: Path) -> None:
    done = penstock(
        *("load", "--uri", uri, "--mode", "durable", "--queue", "orders", "--messages", "300"),
        *("--consumers", "0", "--ledger", str(clients), "--json"),
    )
    assert done.returncode == 0, done.stderr
