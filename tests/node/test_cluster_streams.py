"""Streams of a cluster of shipped nodes: who may read what, and when."""

from __future__ import annotations

from penstock.broker.streams.opening import find_stream
from penstock.broker.streams.stream import Stream
from penstock.broker.topology import DeclareQueue
from tests.broker.store.doubles import message
from tests.node.cluster_world import SECOND, ClusterHost, ClusterWorld


def stream_of(host: ClusterHost) -> Stream:
    stream = find_stream(host.node.state.vhost("/").queues, "log")
    assert stream is not None
    return stream


def bodies(host: ClusterHost) -> list[bytes]:
    files = stream_of(host).files
    found: list[bytes] = []
    while len(found) < files.readable_offset():
        found.extend([message.body for message in files.read(len(found))])
    return found


def logs(host: ClusterHost) -> dict[str, bytes]:
    disk = host.disk
    names = [name for name in disk.names() if name.endswith(".log") and "streams" in name]
    return {name: disk.open(name).read(0, 1 << 30) for name in names}


def publish(host: ClusterHost, *published: bytes) -> None:
    for body in published:
        stream_of(host).enqueue(message(body), host.now())
    host.schedule_flush()


def with_stream() -> tuple[ClusterWorld, ClusterHost]:
    world = ClusterWorld()
    world.run(4)
    root = world.hosts[world.roots()[0]]
    arguments: dict[str, object] = {
        "x-queue-type": "stream",
        "x-stream-max-segment-size-bytes": 500,
    }
    declared = DeclareQueue("log", durable=True, arguments=arguments)
    root.node.state.vhost("/").apply(declared, root.now())
    root.schedule_flush()
    world.run(1)
    return world, root


def test_all_servers_have_what_is_committed_and_show_it() -> None:
    world, root = with_stream()
    published = [b"%d" % number * 10 for number in range(50)]
    for body in published:
        publish(root, body)
        world.run(0.02)
    world.run(3)
    for host in world.hosts.values():
        assert bodies(host) == published
        assert logs(host) == logs(root)
    assert len(logs(root)) > 3


def test_what_only_the_root_has_is_seen_nowhere_and_replaced_by_the_next_one() -> None:
    world, root = with_stream()
    publish(root, b"seen")
    world.run(1)
    others = [name for name, host in world.hosts.items() if host is not root]
    for name in others:
        for ends in ((root.name, name), (name, root.name)):
            world.network.divide(*ends, world.clock.now() + 20 * SECOND)
    publish(root, b"never committed")
    world.run(0.2)
    assert bodies(root) == [b"seen"]
    assert stream_of(root).end_offset == 2
    world.run(5)
    new = world.hosts[world.roots()[0]]
    assert new is not root
    publish(new, b"instead")
    world.run(1)
    assert bodies(root) == [b"seen"]
    world.network.unite()
    world.run(6)
    for host in world.hosts.values():
        assert bodies(host) == [b"seen", b"instead"]
        assert logs(host) == logs(new)
