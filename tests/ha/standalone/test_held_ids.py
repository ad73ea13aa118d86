"""Replicas that have more ranges of ids than a subscription can name, and definitions of replicas."""

from penstock.broker.definitions.exporting import export
from penstock.broker.entry import QueueEntry
from penstock.broker.topology import DeclareQueue
from penstock.ha.standalone.queue_replica import ReplicaState
from tests.broker.store.doubles import ROOMY
from tests.ha.standalone.replica_world import KnownOut, ReplicaWorld

# A range has twelve octets, and the smallest frame of AMQP 0-9-1 has 4096: 256 ranges fit.
URI = "amqp://guest:guest@source/?frame_max=4096"
COUNT = 1200


def test_ids_that_do_not_fit_the_subscription_are_neither_lost_nor_kept_too_long() -> None:
    world = ReplicaWorld(limits=ROOMY)
    world.source.apply(DeclareQueue("q", durable=True))
    world.source.put(*[b"%d" % number for number in range(COUNT)])
    world.target.replicate(URI)
    world.settle()
    # Every other message is taken, so that each that is left is a range of its own.
    out: list[QueueEntry] = []
    for number in range(COUNT):
        entry = world.source.get()
        if number % 2:
            out.append(entry)
        else:
            world.source.acknowledge(entry)
    world.source.node.container.unsettled = KnownOut(world.source.queue(), *out)
    world.run(2)
    left = [entry.position for entry in out]
    assert world.target.positions() == left
    world.target.kill()
    while world.target.is_up:
        world.run(0.1)
    # While it is away some more leave, the last one among them, which is not named.
    gone = [out.pop(0), out.pop()]
    for entry in gone:
        world.source.acknowledge(entry)
    world.source.node.container.unsettled = KnownOut(world.source.queue(), *out)
    world.run(10)
    assert world.target.positions() == [entry.position for entry in out]
    replica = world.target.replica()
    assert replica.state is ReplicaState.FOLLOWING
    assert (replica.fetched_count, replica.removed_count) == (0, 2)


def test_a_replica_stands_in_definitions_as_its_queue_and_a_parameter() -> None:
    world = ReplicaWorld()
    world.target.replicate("amqp://me:secret@source/", source="other")
    exported = export(world.target.node.state)
    assert exported["parameters"] == [
        {
            "vhost": "/",
            "component": "queue-replica",
            "name": "q",
            "value": {"uri": "amqp://me:secret@source/", "queue": "other"},
        }
    ]
    assert [row["name"] for row in exported["queues"]] == ["q"]  # type: ignore[attr-defined]
