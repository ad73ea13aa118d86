"""Seed 001, stand-alone replication. How it behaves under faults: `tests/ha/standalone`."""

from penstock.broker.topology import DeclareQueue
from tests.ha.standalone.replica_world import ReplicaWorld


def test_single_queues_are_replicated_between_servers_that_are_not_a_cluster() -> None:
    """Line 127: "The HA module supports ad-hoc replication between standalone brokers that are not in a
    cluster, using the same basic queue replication techniques." The same ids, ranges of them, and records.
    """
    world = ReplicaWorld()
    assert all(host.node.member is None for host in world.hosts.values())
    world.source.apply(DeclareQueue("q", durable=True))
    world.source.put(b"one", b"two", b"three")
    world.target.replicate("amqp://guest:guest@source/")
    world.settle()
    world.source.acknowledge(world.source.get())
    world.settle()
    assert world.target.bodies() == [b"two", b"three"]
    assert world.target.positions() == world.source.positions()
