"""What an operator changes while a cluster runs."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from penstock.cli.local_servers import free_ports
from tests.support.cluster_processes import (
    MemberProcess,
    cluster_processes,
    eventually,
    penstock,
)


def test_a_server_is_added_removed_and_replaced(tmp_path: Path) -> None:
    with cluster_processes(tmp_path) as cluster:
        cluster.await_in_sync("abc")
        cluster.publish("q", [b"kept"])
        [port] = free_ports(1)
        fourth = cluster.add("d", port)
        assert cluster.format("d").returncode == 0
        fourth.start()
        cluster.succeed("add", f"d={cluster.address('d')}")
        cluster.await_in_sync("abcd")
        gone = next(name for name in "abc" if name != cluster.root().name)
        cluster.succeed("remove", gone)
        cluster[gone].kill()
        cluster.members.pop(gone)
        eventually("it is removed", lambda: gone not in names(cluster.root()))
        # It comes back with an empty disk, and is a stranger until an operator says otherwise.
        cluster.make_root(next(name for name in cluster.members if name != "d"))
        fourth.kill()
        shutil.rmtree(fourth.data)
        assert cluster.format("d").returncode == 0
        fourth.start()
        cluster.succeed("replace", "d")
        cluster.await_in_sync("".join(cluster.members))
        assert set(cluster.taken("q")) == {b"kept"}


def names(member: MemberProcess) -> set[str]:
    """Of all members, as it knows them."""
    members = member.status().get("members", [])
    assert isinstance(members, list)
    return {row["name"] for row in members}


def test_the_root_hands_over_and_may_be_kept_from_being_one(tmp_path: Path) -> None:
    with cluster_processes(tmp_path) as cluster:
        cluster.await_in_sync("abc")
        first = cluster.root()
        heir = next(name for name in "cba" if name != first.name)
        cluster.make_root(heir)
        cluster.await_in_sync("abc")
        cluster.succeed("root", "disable", heir)
        eventually("another one is the root", lambda: cluster.root().name != heir)
        cluster.refuse("disabled", "hand-over", heir)
        cluster.await_in_sync("abc")
        cluster.succeed("root", "enable", heir)


def test_an_addition_of_a_dead_address_stands_in_nobodys_way(tmp_path: Path) -> None:
    with cluster_processes(tmp_path) as cluster:
        cluster.await_in_sync("abc")

        def add_and_leave(root: MemberProcess) -> None:
            """As with Ctrl-C, once it is under way."""
            command = [sys.executable, "-m", "penstock", "cluster", "add", "d=127.0.0.1:1"]
            adding = subprocess.Popen(
                [*command, "--server", root.http], stderr=subprocess.PIPE, text=True
            )
            eventually("it is under way", lambda: "addition" in root.status())
            adding.send_signal(signal.SIGINT)
            _, said = adding.communicate(timeout=60)
            assert adding.returncode != 0
            assert "`penstock cluster remove d` cancels it" in said
            backup = next(one.name for one in cluster.members.values() if one is not root)
            for words in (("disable", backup), ("enable", backup)):
                assert penstock("cluster", "root", *words, "--server", root.http).returncode == 0
            refused = penstock("cluster", "add", "e=127.0.0.1:2", "--server", root.http)
            assert "'d' is being added" in refused.stderr
            cancelled = penstock("cluster", "remove", "d", "--server", root.http)
            assert cancelled.returncode == 0, cancelled.stderr
            added = root.status()["addition"]
            assert isinstance(added, dict)
            assert (added["state"], added["text"]) == ("failed", "adding 'd' was cancelled")

        cluster.while_root_stays(add_and_leave)


def test_commands_say_why_they_are_refused(tmp_path: Path) -> None:
    with cluster_processes(tmp_path) as cluster:
        cluster.await_in_sync("abc")
        cluster.refuse("members are a, b, c", "remove", "zz")
        taken = f"d={cluster.address('a')}"
        cluster.refuse("is the address of member 'a' already", "add", taken)
        cluster.refuse("use amqps:// for TLS, or no scheme", "add", "d=http://127.0.0.1:1")
        cluster.refuse("is the root", "force-root", "--accept-loss")
        assert cluster.change("force-root").returncode == 2

        def refuse_elsewhere(root: MemberProcess) -> None:
            backup = next(one for one in cluster.members.values() if one is not root)
            eventually("it is ready", lambda: backup.code_of("/health/ready") == 200)
            elsewhere = penstock("cluster", "hand-over", "--server", backup.http)
            assert elsewhere.returncode == 1
            assert cluster.address(root.name) in elsewhere.stderr

        cluster.while_root_stays(refuse_elsewhere)


def test_one_server_goes_on_alone_when_the_others_are_lost_for_ever(tmp_path: Path) -> None:
    with cluster_processes(tmp_path) as cluster:
        cluster.publish("q", [b"kept"])
        cluster.await_in_sync("abc")
        survivor = next(one for one in cluster.members.values() if one is not cluster.root())
        for member in cluster.members.values():
            if member is not survivor:
                member.kill()
        # It is refused for as long as the survivor has heard the root a moment ago.
        words = ("force-root", "--accept-loss", "--server", survivor.http)
        eventually("it is forced", lambda: penstock("cluster", *words).returncode == 0)
        assert set(cluster.taken("q")) == {b"kept"}
        shown = penstock("cluster", "status", "--server", survivor.http, "--json")
        status = json.loads(shown.stdout)
        assert [member["name"] for member in status["members"]] == [survivor.name]
