"""What an operator changes while a cluster runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from penstock.cli.cluster_up import free_ports
from tests.support.cluster_processes import cluster_processes, eventually, penstock


def test_a_server_is_added_removed_and_replaced(tmp_path: Path) -> None:
    with cluster_processes(tmp_path) as cluster:
        cluster.await_in_sync("abc")
        cluster.publish("q", [b"kept"])
        [port] = free_ports(1)
        fourth = cluster.add("d", port)
        assert cluster.format("d").returncode == 0
        fourth.start()
        added = cluster.change("add", f"d={cluster.address('d')}")
        assert added.returncode == 0, added.stderr
        cluster.await_in_sync("abcd")
        gone = next(name for name in "abc" if name != cluster.root().name)
        removed = cluster.change("remove", gone)
        assert removed.returncode == 0, removed.stderr
        cluster[gone].kill()
        cluster.members.pop(gone)
        assert gone not in cluster.root().in_sync()
        # It comes back with an empty disk, and is a stranger until an operator says otherwise.
        if cluster.root() is fourth:
            assert cluster.change("hand-over").returncode == 0
        fourth.kill()
        shutil.rmtree(fourth.data)
        assert cluster.format("d").returncode == 0
        fourth.start()
        # The root may not have heard it yet.
        eventually("it is replaced", lambda: cluster.change("replace", "d").returncode == 0)
        cluster.await_in_sync("".join(cluster.members))
        assert cluster.taken("q") == [b"kept"]


def test_the_root_hands_over_and_may_be_kept_from_being_one(tmp_path: Path) -> None:
    with cluster_processes(tmp_path) as cluster:
        cluster.await_in_sync("abc")
        first = cluster.root()
        heir = next(name for name in "cba" if name != first.name)
        done = cluster.change("hand-over", heir)
        assert done.returncode == 0, done.stderr
        assert cluster.root().name == heir
        cluster.await_in_sync("abc")
        disabled = cluster.change("root", "disable", heir)
        assert disabled.returncode == 0, disabled.stderr
        assert cluster.root().name != heir
        refused = cluster.change("hand-over", heir)
        assert refused.returncode == 1
        assert "disabled" in refused.stderr
        cluster.await_in_sync("abc")
        assert cluster.change("root", "enable", heir).returncode == 0


def test_commands_say_why_they_are_refused(tmp_path: Path) -> None:
    with cluster_processes(tmp_path) as cluster:
        cluster.await_in_sync("abc")
        root = cluster.root()
        unknown = cluster.change("remove", "zz")
        assert (unknown.returncode, "members are a, b, c" in unknown.stderr) == (1, True)
        taken = cluster.change("add", f"d={cluster.address('a')}")
        assert "is the address of member 'a' already" in taken.stderr
        forced = cluster.change("force-root", "--accept-loss")
        assert "is the root" in forced.stderr
        assert cluster.change("force-root").returncode == 2
        backup = next(one for one in cluster.members.values() if one is not root)
        elsewhere = penstock("cluster", "hand-over", "--server", backup.http)
        assert elsewhere.returncode == 1
        assert cluster.address(root.name) in elsewhere.stderr


def test_one_server_goes_on_alone_when_the_others_are_lost_for_ever(tmp_path: Path) -> None:
    with cluster_processes(tmp_path) as cluster:
        cluster.await_in_sync("abc")
        cluster.publish("q", [b"kept"])
        survivor = next(one for one in cluster.members.values() if one is not cluster.root())
        for member in cluster.members.values():
            if member is not survivor:
                member.kill()
        while True:
            words = ("force-root", "--accept-loss", "--server", survivor.http)
            forced = penstock("cluster", *words)
            if "nothing has to be forced" not in forced.stderr:
                break
        assert forced.returncode == 0, forced.stderr
        assert cluster.taken("q") == [b"kept"]
        shown = penstock("cluster", "status", "--server", survivor.http, "--json")
        status = json.loads(shown.stdout)
        assert [member["name"] for member in status["members"]] == [survivor.name]
