"""Cuts between servers, while clients still reach all of them."""

from pathlib import Path

import pytest

from tests.cluster.processes.cut_proxy import CutNetwork, cut_network
from tests.cluster.processes.servers import RunningCluster
from tests.cluster.processes.traffic import (
    Ledger,
    PikaPublisher,
    TransactedConsumer,
    await_confirms,
    declare,
    drain,
    drain_bodies,
    is_lost,
    publish,
    publish_confirmed,
    root_channel,
    settle,
)

pytestmark = pytest.mark.timeout(900)


def test_an_isolated_root_stops_serving_and_the_majority_elects_another(tmp_path: Path) -> None:
    with cut_network(tmp_path, 3) as (cluster, network):
        publish(cluster.start(), b"before")
        old, channel = root_channel(cluster)
        network.isolate(old)
        assert is_lost(lambda: publish_confirmed(channel, b"in doubt"))
        cluster.until("it has resigned", lambda: old.role() not in ("active", None))
        new = cluster.root(old)
        assert not old.is_root()
        publish(cluster, b"meanwhile")
        network.heal()
        assert cluster.whole_root() is new or new.has_stayed()
        cluster.until("it is a backup", lambda: old.role() == "ready" or old.is_root())
        # What the isolated root took and never confirmed is not in the new root's state.
        [(first, is_redelivered), *rest] = drain(cluster)
        assert (first, is_redelivered) == (b"before", True)
        assert {body for body, _ in rest} == {b"meanwhile"}


def test_a_root_that_is_heard_and_does_not_hear_gives_way(tmp_path: Path) -> None:
    """One way only: its heartbeats arrive, and no answer comes back."""
    with cut_network(tmp_path, 3) as (cluster, network):
        publish(cluster.start(), b"before")
        old = cluster.whole_root()
        for other in cluster.servers:
            if other is not old:
                network.cut(other, old)
        new = cluster.root(old)
        cluster.until("the old one says so too", lambda: not old.is_root())
        publish(cluster, b"meanwhile")
        network.heal()
        cluster.whole_root()
        assert new.has_stayed()
        assert drain_bodies(cluster) == [b"before", b"meanwhile"]


def test_a_backup_that_is_cut_off_leaves_the_set_and_the_root_stays(tmp_path: Path) -> None:
    with cut_network(tmp_path, 3) as (cluster, network):
        declare(cluster.start())
        ledger = Ledger()
        clients = [PikaPublisher(cluster, ledger), TransactedConsumer(cluster, ledger)]
        root = cluster.whole_root()
        backup = next(server for server in cluster.servers if server is not root)
        network.isolate(backup)
        cluster.await_dropped(backup)
        await_confirms(cluster, ledger, 20)
        network.heal()
        cluster.whole_root()
        # It asked for prevotes meanwhile, and got none from those that hear a root.
        assert root.has_stayed()
        delayed(cluster, network, ledger)
        for client in clients:
            client.end()
        settle(cluster, ledger)


def delayed(cluster: RunningCluster, network: CutNetwork, ledger: Ledger) -> None:
    """With every part 50 ms late, all of them stay and confirms go on."""
    network.delay(0.05)
    await_confirms(cluster, ledger, 10)
    network.heal()
