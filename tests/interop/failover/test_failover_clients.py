"""Unmodified clients with a list of servers: the root is killed twice, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.failover.kills import await_progress, finish, kill_root, pairs_of
from tests.interop.failover.pair import CLIENTS
from tests.support.cluster_processes import cluster_processes

KILLS = 2


@pytest.mark.timeout(300, func_only=True)
def test_what_was_confirmed_is_received_although_roots_die(rhea: Path, tmp_path: Path) -> None:
    """A sender and a receiver of each client at once; a repetition is flagged, by the broker or by
    the sender that has heard no confirm.
    """
    with cluster_processes(tmp_path) as cluster, pairs_of(cluster, CLIENTS) as pairs:
        await_progress(pairs)
        for _ in range(KILLS):
            kill_root(cluster, pairs)
        finish(pairs)
        for pair in pairs:
            assert pair.missing() == []
            assert pair.repeated_unflagged() == [], pair.client
