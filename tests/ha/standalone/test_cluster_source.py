"""A replica of a queue of a cluster follows it from root to root."""

import pytest

from penstock.broker.errors import PreconditionFailed
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.topology import DeclareQueue, SetParameter
from penstock.ha.standalone.queue_replica import ReplicaState
from tests.broker.store.doubles import ROOMY, message
from tests.ha.standalone.replica_world import ReplicaHost
from tests.node.cluster_world import ClusterHost, ClusterWorld
from tests.simulation.doubles import dice_of

URI = "amqp://guest:guest@a,b,c/"


class Scene:
    """A cluster of three, and a server beside it."""

    def __init__(self) -> None:
        self.world = ClusterWorld()
        world = self.world
        self.target = ReplicaHost(
            "target", world.network, world.clock, dice_of(7), world.history, ROOMY
        )
        world.network.listen("target", self.target)
        self.number = 0
        self.root()
        self.apply(DeclareQueue("q", durable=True))

    def root(self) -> ClusterHost:
        for _ in range(300):
            roots = self.world.roots()
            if len(roots) == 1:
                return self.world.hosts[roots[0]]
            self.world.run(0.1)
        raise AssertionError("there is no root")

    def queue(self) -> MessageQueue:
        return self.root().node.state.vhost("/").queue("q")

    def apply(self, command: DeclareQueue) -> None:
        root = self.root()
        root.node.apply_to_vhost("/", command, root.now())
        root.schedule_flush()
        self.world.run(1)

    def put(self, count: int) -> None:
        root = self.root()
        for _ in range(count):
            self.number += 1
            assert self.queue().enqueue(message(b"%d" % self.number), root.now())
        root.schedule_flush()
        self.world.run(1)

    def settle(self) -> None:
        for _ in range(300):
            self.world.run(0.1)
            if self.target.positions() == self.queue().positions_from(1, 1000):
                return
        assert self.target.positions() == self.queue().positions_from(1, 1000)


def test_it_follows_through_two_failovers_and_fetches_nothing_twice() -> None:
    scene = Scene()
    scene.put(20)
    scene.target.replicate(URI)
    scene.settle()
    for _ in range(2):
        root = scene.root()
        scene.put(5)
        entry = scene.queue().get(root.now())
        assert entry is not None
        scene.queue().acknowledge(entry)
        root.schedule_flush()
        scene.world.run(1)
        root.kill()
        scene.world.run(2)
        scene.put(5)
        scene.settle()
    assert scene.target.bodies() == [b"%d" % number for number in range(3, 41)]
    assert scene.target.replica().fetched_count == 40
    scene.world.run(1)
    assert scene.target.replica().state is ReplicaState.FOLLOWING


def test_a_server_of_a_cluster_keeps_no_such_replicas() -> None:
    scene = Scene()
    root = scene.root()
    command = SetParameter("queue-replica", "other", {"uri": "amqp://target/"})
    with pytest.raises(PreconditionFailed, match="this server is a member of a cluster"):
        root.node.apply_to_vhost("/", command, root.now())
