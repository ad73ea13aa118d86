"""Cuts between servers, while clients still reach all of them."""

from pathlib import Path

import pika
import pytest

from tests.cluster.processes.cut_proxy import CutNetwork, cut_network
from tests.cluster.processes.servers import RunningCluster, in_sync_names
from tests.cluster.processes.traffic import (
    PERSISTENT,
    QUEUE,
    Ledger,
    PikaPublisher,
    TransactedConsumer,
    await_confirms,
    declare,
    drain,
    is_lost,
    parameters,
    publish,
    settle,
)

pytestmark = pytest.mark.timeout(900)


def test_an_isolated_root_stops_serving_and_the_majority_elects_another(tmp_path: Path) -> None:
    with cut_network(tmp_path, 3) as (cluster, network):
        publish(cluster.start(), b"before")
        old = cluster.whole_root()
        channel = pika.BlockingConnection(parameters(old)).channel()
        channel.confirm_delivery()
        network.isolate(old)
        assert is_lost(lambda: channel.basic_publish("", QUEUE, b"in doubt", PERSISTENT))
        cluster.until("it has resigned", lambda: old.role() not in ("active", None))
        new = cluster.root(old)
        assert not old.is_root()
        publish(cluster, b"meanwhile")
        network.heal()
        assert cluster.whole_root() is new
        cluster.until("it is a backup", lambda: old.role() == "ready")
        # What the isolated root took and never confirmed is not in the new root's state.
        assert drain(cluster) == [(b"before", True), (b"meanwhile", False)]


def test_a_root_that_is_heard_and_does_not_hear_gives_way(tmp_path: Path) -> None:
    """One way only: its heartbeats arrive, and no answer comes back."""
    with cut_network(tmp_path, 3) as (cluster, network):
        publish(cluster.start(), b"before")
        old = cluster.whole_root()
        for other in cluster.backups():
            network.cut(other, old)
        new = cluster.root(old)
        assert not old.is_root()
        publish(cluster, b"meanwhile")
        network.heal()
        cluster.whole_root()
        assert new.is_root()
        assert [body for body, _ in drain(cluster)] == [b"before", b"meanwhile"]


def test_a_backup_that_is_cut_off_leaves_the_set_and_the_root_stays(tmp_path: Path) -> None:
    with cut_network(tmp_path, 3) as (cluster, network):
        declare(cluster.start())
        ledger = Ledger()
        clients = [PikaPublisher(cluster, ledger), TransactedConsumer(cluster, ledger)]
        root = cluster.whole_root()
        backup = cluster.backups()[0]
        network.isolate(backup)
        cluster.until("it is dropped", lambda: backup.name not in in_sync_names(cluster.root()))
        await_confirms(cluster, ledger, 20)
        network.heal()
        cluster.whole_root()
        # It asked for prevotes meanwhile, and got none from those that hear a root.
        assert root.is_root()
        delayed(cluster, network, ledger)
        for client in clients:
            client.end()
        settle(cluster, ledger)


def delayed(cluster: RunningCluster, network: CutNetwork, ledger: Ledger) -> None:
    """With every part 50 ms late, all of them stay and confirms go on."""
    network.delay(0.05)
    await_confirms(cluster, ledger, 10)
    network.heal()
