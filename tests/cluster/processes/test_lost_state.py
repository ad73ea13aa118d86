"""Stores that are read again, thrown away, or behind: Qpid's tests of its store, and servers that join."""

import shutil
from pathlib import Path

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from penstock.cluster.member import Member
from tests.cluster.processes.servers import KEY, RunningCluster, format_member, running_cluster
from tests.cluster.processes.traffic import (
    PERSISTENT,
    connected,
    drain_bodies,
    is_lost,
    publish,
    with_channel,
)

pytestmark = pytest.mark.timeout(900)

EXCHANGE = "routes"


def declare_routed(channel: BlockingChannel, *queues: str) -> None:
    channel.exchange_declare(EXCHANGE, "topic", durable=True)
    for queue in queues:
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, EXCHANGE, "key")


def publish_routed(channel: BlockingChannel, *bodies: bytes) -> None:
    """Some may be there twice, if the root changes meanwhile and all are sent again."""
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish(EXCHANGE, "key", body, PERSISTENT, mandatory=True)


def test_qpid_a43_everything_recovers_from_the_stores_and_reaches_a_new_disk(
    three: RunningCluster,
) -> None:
    """A43: test_store_recovery. The new disk is that of a member whose directory was deleted."""
    three.start()
    with_channel(three, lambda channel: declare_routed(channel, "q"))
    with_channel(three, lambda channel: publish_routed(channel, b"1", b"2"))
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
    three.make_root(lost)
    with_channel(three, lambda channel: publish_routed(channel, b"3"))
    for server in three.servers:
        server.kill()
    three.start_again(three.servers)
    assert drain_bodies(three, "q") == [b"1", b"2", b"3"]


def test_qpid_a44_a_backup_that_comes_back_discards_what_is_gone(three: RunningCluster) -> None:
    """A44: test_catchup_store."""
    three.start()
    with_channel(three, lambda channel: declare_routed(channel, "kept", "deleted"))
    with_channel(three, lambda channel: publish_routed(channel, b"old"))
    three.whole_root()
    backup = three.backups()[0]
    backup.kill()
    assert drain_bodies(three, "kept") == [b"old"]
    with_channel(three, change_routes)
    backup.start()
    three.whole_root()
    three.make_root(backup)
    assert drain_bodies(three, "kept") == [b"new"]
    with connected(three) as connection:
        assert is_lost(lambda: connection.channel().queue_declare("deleted", passive=True))
        # The binding is gone as well.
        assert is_lost(lambda: publish_routed(connection.channel(), b"nowhere"))


def change_routes(channel: BlockingChannel) -> None:
    channel.queue_delete("deleted")
    channel.queue_bind("kept", EXCHANGE, "new")
    channel.queue_unbind("kept", EXCHANGE, "key")
    channel.confirm_delivery()
    channel.basic_publish(EXCHANGE, "new", b"new", PERSISTENT, mandatory=True)


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
        cluster.make_root(joiner)
        assert drain_bodies(cluster) == [b"1", b"2"]
        # Kept from being the root, it hands over, and still has everything.
        cluster.succeed("root", "disable", joiner.name)
        cluster.until("another server is the root", lambda: not joiner.is_root())
        cluster.whole_root()
        cluster.succeed("remove", joiner.name)
        publish(cluster, b"3")
