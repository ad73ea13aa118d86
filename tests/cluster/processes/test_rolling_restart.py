"""The rolling restart of docs/CLUSTER.md, command by command, while clients publish and consume."""

import json

import pytest

from tests.cluster.processes.servers import ClusterServer, RunningCluster, penstock
from tests.cluster.processes.traffic import (
    Ledger,
    PikaPublisher,
    TransactedConsumer,
    await_confirms,
    declare,
    settle,
)

pytestmark = pytest.mark.timeout(900)


def ha_status(server: ClusterServer) -> dict[str, object]:
    """`penstock ha status --json`; empty while the server does not answer."""
    code, said = penstock("ha", "status", "--json", "--server", server.http)
    found = json.loads(said) if code == 0 else {}
    assert isinstance(found, dict)
    return found


def test_every_server_is_restarted_the_root_last_and_nothing_is_lost(
    three: RunningCluster,
) -> None:
    declare(three.start())
    ledger = Ledger()
    clients = [PikaPublisher(three, ledger), TransactedConsumer(three, ledger)]
    await_confirms(three, ledger, 10)
    three.whole_root()
    restarted: list[ClusterServer] = []
    for server in [*three.backups(), three.root()]:
        if server.is_root():
            promote(three, three.backups()[0])
        assert server.stop() == 0
        server.start()
        await_ready(three, server)
        three.whole_root()
        restarted.append(server)
        await_confirms(three, ledger, 10)
    assert len({server.name for server in restarted}) == 3
    root = three.whole_root()
    history = ha_status(root)["history"]
    assert isinstance(history, list) and all(change["reason"] for change in history)
    code, shown = penstock("ha", "queues", "--json", "--server", root.http)
    assert code == 0
    states = {(row["server"], row["state"]) for row in json.loads(shown)}
    assert states >= {(root.name, "active")} and len(states) == 3
    for client in clients:
        client.end()
    settle(three, ledger)


def promote(cluster: RunningCluster, heir: ClusterServer) -> None:
    def is_promoted() -> bool:
        words = ("ha", "promote", heir.name, "--server", cluster.root().http)
        return heir.is_root() or penstock(*words)[0] == 0

    cluster.until(f"{heir.name} is promoted", is_promoted)


def await_ready(cluster: RunningCluster, server: ClusterServer) -> None:
    """It may become the root meanwhile, if the one before has lost its lease."""
    cluster.until(
        f"{server.name} is ready", lambda: ha_status(server).get("state") in {"ready", "active"}
    )
