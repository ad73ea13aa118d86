"""Stores that are read again, thrown away, or behind: Qpid's tests of its store, and servers that join."""

import shutil
from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from penstock.cluster.member import Member
from tests.cluster.processes.servers import KEY, RunningCluster, format_member, running_cluster
from tests.cluster.processes.traffic import PERSISTENT, connected, drain, is_lost, publish

pytestmark = pytest.mark.timeout(900)

EXCHANGE = "routes"


def publish_routed(channel: BlockingChannel, *bodies: bytes) -> None:
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish(EXCHANGE, "key", body, PERSISTENT, mandatory=True)


def test_qpid_a43_everything_recovers_from_the_stores_and_reaches_a_new_disk(
    three: RunningCluster,
) -> None:
    """A43: test_store_recovery. The new disk is that of a member whose directory was deleted."""
    three.start()
    with connected(three) as connection:
        channel = connection.channel()
        channel.exchange_declare(EXCHANGE, "topic", durable=True)
        channel.queue_declare("q", durable=True)
        channel.queue_bind("q", EXCHANGE, "key")
        publish_routed(channel, b"1", b"2")
    for server in three.servers:
        server.kill()
    three.start_again(three.servers)
    three.whole_root()
    lost = three.backups()[0]
    lost.kill()
    shutil.rmtree(lost.data)
    three.format(lost)
    lost.start()
    three.succeed("replace", lost.name)
    three.whole_root()
    three.succeed("hand-over", lost.name)
    three.until("the new disk is the root's", lost.is_root)
    with connected(three) as connection:
        publish_routed(connection.channel(), b"3")
    for server in three.servers:
        server.kill()
    three.start_again(three.servers)
    assert [body for body, _ in drain(three, "q")] == [b"1", b"2", b"3"]


def test_qpid_a44_a_backup_that_comes_back_discards_what_is_gone(three: RunningCluster) -> None:
    """A44: test_catchup_store."""
    three.start()
    with connected(three) as connection:
        channel = connection.channel()
        channel.exchange_declare(EXCHANGE, "topic", durable=True)
        for queue in ("kept", "deleted"):
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, EXCHANGE, "key")
        publish_routed(channel, b"old")
    three.whole_root()
    backup = three.backups()[0]
    backup.kill()
    assert [body for body, _ in drain(three, "kept")] == [b"old"]
    with connected(three) as connection:
        channel = connection.channel()
        channel.queue_delete("deleted")
        channel.queue_bind("kept", EXCHANGE, "new")
        channel.queue_unbind("kept", EXCHANGE, "key")
        channel.confirm_delivery()
        channel.basic_publish(EXCHANGE, "new", b"new", PERSISTENT, mandatory=True)
    backup.start()
    three.whole_root()
    three.succeed("hand-over", backup.name)
    three.until("it is the root", backup.is_root)
    assert [body for body, _ in drain(three, "kept")] == [b"new"]
    with connected(three) as connection:
        assert is_lost(lambda: connection.channel().queue_declare("deleted", passive=True))
        # The binding is gone as well.
        assert is_lost(lambda: publish_routed(connection.channel(), b"nowhere"))


def test_openamq_c32_a_server_that_joins_receives_the_whole_state_and_serves_it(
    tmp_path: Path,
) -> None:
    with running_cluster(tmp_path, 4) as cluster:
        joiner = cluster.servers.pop()
        cluster.members = cluster.members[:3]
        try:
            publish(cluster.start(), b"1", b"2")
            members = [*cluster.members, Member(joiner.name, f"127.0.0.1:{joiner.port}")]
            format_member(joiner.data, joiner.name, members, KEY)
            joiner.start()
            cluster.succeed("add", f"{joiner.name}=127.0.0.1:{joiner.port}")
        finally:
            cluster.servers.append(joiner)
        cluster.whole_root()
        cluster.succeed("hand-over", joiner.name)
        cluster.until("the joiner is the root", joiner.is_root)
        assert [body for body, _ in drain(cluster)] == [b"1", b"2"]
        # Kept from being the root, it hands over, and still has everything.
        cluster.succeed("root", "disable", joiner.name)
        cluster.until("another server is the root", lambda: not joiner.is_root())
        cluster.whole_root()
        cluster.succeed("remove", joiner.name)
        publish(cluster, b"3")
