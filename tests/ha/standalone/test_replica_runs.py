"""Random traffic and crashes of both sides: the replica always ends with what its source has."""

import pytest

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.store.reclaim import UnsettledSource
from penstock.broker.topology import DeclareQueue
from penstock.simulation.dice import Dice
from tests.ha.standalone.replica_world import ReplicaHost, ReplicaWorld

STEPS = 120


class Traffic(UnsettledSource):
    """Plays clients of the source; what a crash of it takes from them, they forget."""

    def __init__(self, host: ReplicaHost, dice: Dice) -> None:
        self._host = host
        self._dice = dice
        self._number = 0
        self._life = 0
        self._out: list[QueueEntry] = []
        self.begin()

    def begin(self) -> None:
        self._life = self._host.life
        self._host.node.container.unsettled = self
        self._out = []

    def unsettled(self) -> list[tuple[MessageQueue, QueueEntry]]:
        return [(self._host.queue(), entry) for entry in self._out]

    def step(self) -> None:
        host, dice = self._host, self._dice
        if host.life != self._life:
            self.begin()
        for _ in range(dice.between(1, 6)):
            self._number += 1
            host.put(b"%d" % self._number, persistent=dice.chance(0.7))
        for _ in range(dice.between(0, 6)):
            entry = host.queue().get(host.now())
            if entry is not None:
                self._out.append(entry)
        for _ in range(dice.between(0, 6)):
            if not self._out:
                break
            entry = self._out.pop(dice.between(0, len(self._out) - 1))
            if dice.chance(0.7):
                host.acknowledge(entry)
            else:
                host.queue().requeue([entry], host.now())
                host.schedule_flush()

    def settle(self) -> None:
        if self._host.life == self._life:
            self._host.queue().requeue(self._out, self._host.now())


@pytest.mark.parametrize("seed", range(12))
def test_the_replica_ends_with_what_the_source_has(seed: int) -> None:
    world = ReplicaWorld(seed=seed)
    dice = world.dice.fork("traffic")
    ranked: dict[str, object] = {"x-max-priority": 3} if seed % 3 == 0 else {}
    world.source.apply(DeclareQueue("q", durable=True, arguments=ranked))
    world.run(1)
    traffic = Traffic(world.source, dice)
    for step in range(STEPS):
        if step == STEPS // 6:
            world.target.replicate("amqp://guest:guest@source/", arguments=ranked)
            world.run(1)
        if world.source.is_up:
            traffic.step()
        if dice.chance(0.06) and step > STEPS // 6:
            host = dice.choose([world.source, world.target])
            crash = dice.choose([host.kill, host.lose_power])
            crash()
        world.run(dice.between(1, 400) / 1000)
    world.run(5)
    traffic.settle()
    world.source.put(b"last")
    world.settle(90)
    assert sorted(world.target.bodies()) == sorted(world.source.bodies())
    # And so after one more restart.
    world.target.kill()
    world.settle(60)
    assert sorted(world.target.bodies()) == sorted(world.source.bodies())
