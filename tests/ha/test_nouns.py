"""The seeds' nouns are what the running server uses: each has its file, and the product makes or asks it."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
# The module that `penstock serve` runs.
START = "penstock.server.launch"
NOUNS = {
    "HaBroker": "ha/ha_broker.py",
    "Primary": "ha/primary.py",
    "Backup": "ha/backup.py",
    "RemoteBackup": "ha/remote_backup.py",
    "IdSetter": "ha/id_setter.py",
    "QueueGuard": "ha/queue_guard.py",
    "ReplicatingSubscription": "ha/replicating_subscription.py",
    "QueueReplicator": "ha/queue_replicator.py",
    "BrokerReplicator": "ha/broker_replicator.py",
    "QueueSnapshot": "ha/queue_snapshot.py",
    "ConnectionObserver": "ha/connection_observer.py",
    # Asked by the broker at a declaration, so it is below `ha`.
    "ReplicationTest": "broker/replication_level.py",
}


def file_of(module: str) -> Path:
    return SOURCE / f"{module.replace('.', '/')}.py"


def imported(module: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file_of(module).read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = {node.module, *[f"{node.module}.{alias.name}" for alias in node.names]}
            found |= {name for name in names if file_of(name).is_file()}
    return found


@cache
def running() -> frozenset[str]:
    """Modules of a server that runs."""
    found = {START}
    left = [START]
    while left:
        for name in imported(left.pop()) - found:
            found.add(name)
            left.append(name)
    return frozenset(found)


@pytest.mark.parametrize(("noun", "path"), NOUNS.items())
def test_a_noun_has_its_file_and_is_made_by_the_running_server(noun: str, path: str) -> None:
    own = f"penstock.{path[:-3].replace('/', '.')}"
    assert re.search(rf"^class {noun}\b", file_of(own).read_text("utf-8"), re.MULTILINE)
    assert own in running()
    makers = [
        module
        for module in running() - {own}
        if re.search(rf"\b{noun}\(", file_of(module).read_text("utf-8"))
    ]
    assert makers, f"nobody but tests makes a {noun}"


def test_the_tests_would_notice_a_noun_that_nobody_uses() -> None:
    assert "penstock.simulation.cluster_run" not in running()
