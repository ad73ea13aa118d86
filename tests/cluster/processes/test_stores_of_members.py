"""`penstock store` with the data directories of real members, whole and damaged."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.formats.replication_id import COUNT_BITS
from penstock.server.cluster_directory import FOLDER, MEMBER_NAME
from tests.cli.test_store import contents, flip, run
from tests.spark.jobs.test_ledger_origins import catalog_of, judged, runs_of
from tests.support.cluster_processes import ClusterProcesses, MemberProcess, cluster_processes

if TYPE_CHECKING:
    from collections.abc import Iterator

BODIES = [b"%d" % number for number in range(60)]
PROMISES = f"{FOLDER}/promises-0000000001"
JOURNAL = "journal/000000000001.log"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> ClusterProcesses:
    """Three servers that have stopped; the first root was away and has had a SYNC."""
    with cluster_processes(tmp_path_factory.mktemp("stopped"), options=("--ledger",)) as cluster:
        cluster.await_in_sync("abc")
        cluster.publish("q", BODIES[:30])
        first = cluster.root()
        first.kill()
        cluster.publish("q", BODIES[30:])
        first.start()
        cluster.await_in_sync("abc")
        for member in cluster.members.values():
            assert member.stop() == 0
        # Whoever has had a SYNC comes first.
        names = [first.name, *(name for name in "abc" if name != first.name)]
        cluster.members = {name: cluster.members[name] for name in names}
        return cluster


@pytest.fixture
def copy(stopped: ClusterProcesses, tmp_path: Path) -> Path:
    """The directory of the one that had the SYNC."""
    member = next(iter(stopped.members.values()))
    return Path(shutil.copytree(member.data, tmp_path / member.name))


@contextmanager
def serving_alone(data: Path, port: int) -> Iterator[ClusterProcesses]:
    """A cluster that has this directory for its only server."""
    cluster = ClusterProcesses(data.parent, "")
    cluster.members = {data.name: MemberProcess(data.name, data.parent, port, ())}
    try:
        cluster[data.name].start()
        yield cluster
    finally:
        cluster.end()


def test_every_member_is_checked_and_named(stopped: ClusterProcesses) -> None:
    for member in stopped.members.values():
        code, said = run("check", str(member.data))
        assert code == 0, said
        assert f"cluster/member: '{member.name}' at 127.0.0.1:{member.port}" in said
        assert "members a, b, c" in said


def test_the_ledgers_of_all_members_together_miss_no_message(stopped: ClusterProcesses) -> None:
    """Messages of two epochs, entered at one server and restored at the others."""
    folders = [member.data for member in stopped.members.values()]
    assert judged(catalog_of(*folders)) == set()
    runs = runs_of(catalog_of(*folders))
    assert len(set((runs.first[runs.first > 0] >> COUNT_BITS).tolist())) >= 2


def test_a_salvaged_member_serves_alone_and_the_old_cluster_is_not_touched(
    stopped: ClusterProcesses, copy: Path, tmp_path: Path
) -> None:
    before = contents(copy)
    code, said = run("salvage", str(copy), "--to", str(tmp_path / "new"))
    assert code == 0, said
    assert "the only member of a cluster of its own" in said
    assert contents(copy) == before
    with serving_alone(tmp_path / "new", stopped[copy.name].port) as alone:
        assert set(alone.taken("q")) == set(BODIES)
        status = alone.root().status()
        # What it adds must not have ids that the old cluster has given.
        assert isinstance(status["epoch"], int) and status["epoch"] > 2
        alone.publish("q", [b"more"])
        assert set(alone.taken("q")) == {*BODIES, b"more"}


def test_damaged_promises_are_named_and_the_messages_are_salvaged(
    stopped: ClusterProcesses, copy: Path, tmp_path: Path
) -> None:
    flip(copy, PROMISES, 60)
    code, said = run("check", str(copy))
    assert code == 2, said
    assert f"damaged: {PROMISES}" in said
    code, said = run("salvage", str(copy), "--to", str(tmp_path / "new"))
    assert code == 2, said
    with serving_alone(tmp_path / "new", stopped[copy.name].port) as alone:
        assert set(alone.taken("q")) == set(BODIES)


def test_a_damaged_journal_of_a_member_is_salvaged_without_the_damaged_part(
    stopped: ClusterProcesses, copy: Path, tmp_path: Path
) -> None:
    flip(copy, JOURNAL, (copy / JOURNAL).stat().st_size // 2)
    code, said = run("check", str(copy))
    assert code == 2, said
    assert f"damaged: {JOURNAL}" in said
    code, said = run("salvage", str(copy), "--to", str(tmp_path / "new"))
    assert code == 2, said
    with serving_alone(tmp_path / "new", stopped[copy.name].port) as alone:
        found = set(alone.taken("q"))
        assert found <= set(BODIES)
        assert len(found) >= len(BODIES) // 2


def test_a_member_without_its_name_is_salvaged_under_another(copy: Path, tmp_path: Path) -> None:
    (copy / FOLDER / MEMBER_NAME).unlink()
    code, said = run("check", str(copy))
    assert code == 2, said
    assert f"{FOLDER}/{MEMBER_NAME} is missing" in said
    code, said = run("salvage", str(copy), "--to", str(tmp_path / "new"))
    assert code == 2, said
    assert "'salvaged' at 127.0.0.1:5672" in said
