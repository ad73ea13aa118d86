"""A disk that does not answer, or with an error, under one server of three: a preloaded library holds its
flushes, or lets them fail.
"""

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


# Of `penstock serve`: the data could not be written.
DISK_FAILED = 4


def watched_disks(cluster: RunningCluster, folder: Path) -> dict[str, WatchedCalls]:
    """By the names of servers that are not started yet."""
    disks: dict[str, WatchedCalls] = {}
    for server in cluster.servers:
        calls = folder / f"calls-{server.name}"
        calls.mkdir()
        disks[server.name] = WatchedCalls(calls)
        server.environment = disks[server.name].environment
    return disks


def test_a_backup_whose_flush_fails_ends_and_the_cluster_continues(
    three: RunningCluster, tmp_path: Path
) -> None:
    disks = watched_disks(three, tmp_path)
    declare(three.start())
    ledger = Ledger()
    publisher = PikaPublisher(three, ledger)
    three.whole_root()
    backup = three.backups()[0]
    disks[backup.name].fail_flushes()
    three.until("its process ends", lambda: not backup.is_running)
    assert backup.exit_code() == DISK_FAILED, backup.log_tail()
    await_confirms(three, ledger, 20)
    three.await_dropped(backup)
    # What it had acknowledged is on its disk, and it gets the rest.
    disks[backup.name].repair()
    backup.start()
    three.whole_root()
    publisher.end()
    three.make_root(backup)
    settle(three, ledger)


def test_a_backup_and_then_a_root_with_a_hanging_disk_do_not_stop_the_cluster(
    three: RunningCluster, tmp_path: Path
) -> None:
    disks = watched_disks(three, tmp_path)
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
