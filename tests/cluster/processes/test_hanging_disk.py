"""A disk that does not answer, under one server of three: a preloaded library holds its flushes."""

from pathlib import Path

import pytest

from tests.cluster.processes.servers import RunningCluster
from tests.cluster.processes.traffic import (
    Ledger,
    PikaPublisher,
    await_confirms,
    declare,
    settle,
)
from tests.server.watched_calls import WatchedCalls

pytestmark = pytest.mark.timeout(900)


def test_a_backup_and_then_a_root_with_a_hanging_disk_do_not_stop_the_cluster(
    three: RunningCluster, tmp_path: Path
) -> None:
    disks: dict[str, WatchedCalls] = {}
    for server in three.servers:
        folder = tmp_path / f"calls-{server.name}"
        folder.mkdir()
        disks[server.name] = WatchedCalls(folder)
        server.environment = disks[server.name].environment
    declare(three.start())
    ledger = Ledger()
    publisher = PikaPublisher(three, ledger)
    three.whole_root()
    backup = three.backups()[0]

    disks[backup.name].hold_flushes()
    three.await_dropped(backup)
    await_confirms(three, ledger, 20)
    disks[backup.name].let_go()
    three.whole_root()

    root = three.whole_root()
    disks[root.name].hold_flushes()
    # R15: a root whose disk makes no progress sends no heartbeats, and its lease ends.
    new = three.root(root)
    three.until("the old one says so too", lambda: not root.is_root())
    await_confirms(three, ledger, 20)
    disks[root.name].let_go()
    three.whole_root()
    assert new is not root
    publisher.end()
    settle(three, ledger)
