"""A server that was removed and is added again: with its old data directory, or with an empty one."""

import pytest

from penstock.broker.topology import DeclareQueue
from tests.broker.store.doubles import message
from tests.seeds.cluster_doubles import Cluster


def put(cluster: Cluster, body: bytes) -> None:
    """Until it is committed."""
    root = cluster.hosts["a"]
    assert root.node.state.vhost("/").queue("q").enqueue(message(body), root.now())
    root.schedule_flush()
    cluster.settle()


def removed(cluster: Cluster, name: str) -> None:
    """Removed while it runs, and stopped then."""
    root = cluster.elected("a")
    assert root.election.remove_member(name, root.now()) == ""
    cluster.until(lambda: root.record.find(name) is None and root.election.root is not None)
    cluster.run(1)
    cluster.hosts[name].die()
    cluster.run(1)


@pytest.mark.parametrize("is_empty", [False, True], ids=["with its data", "with an empty disk"])
def test_a_server_that_was_removed_is_added_again_and_gets_in_sync(is_empty: bool) -> None:
    cluster = Cluster()
    root = cluster.elected("a")
    root.node.apply_to_vhost("/", DeclareQueue("q", durable=True), root.now())
    put(cluster, b"1")
    removed(cluster, "c")
    put(cluster, b"2")
    host = cluster.hosts["c"]
    if is_empty:
        host.disk.wipe()
        host.disk_count += 1
        host.forget_format()
    host.revive()
    cluster.run(1)
    assert root.election.add_member("c", "c:5672", root.now()) == ""
    cluster.elected("a")
    assert root.record.names() == ["a", "b", "c"]
    assert host.bodies("q") == [b"1", b"2"]
    # It counts: with it, the other backup may be lost.
    cluster.hosts["b"].die()
    put(cluster, b"3")
    assert cluster.elected("a") is root
    assert host.bodies("q") == [b"1", b"2", b"3"]
