"""A server that joins under the name of a member before the record knows its store."""

from penstock.broker.access.actor import HTTP, Actor
from penstock.broker.topology import AddVhost
from penstock.cluster.promises import format_promises
from penstock.node.node import Node
from penstock.simulation.dice import Dice
from tests.node.cluster_world import ClusterHost, ClusterWorld

ACTOR = Actor("root", "192.0.2.7", 5555, HTTP)


class LosingHost(ClusterHost):
    """Every start after the first finds an empty disk, which is formatted again."""

    def make_node(self) -> Node:
        if self._is_formatted:
            self.disk = self.make_disk(self.clock, self._dice.fork(f"disk{self.life}"))
            format_promises(self.disk, b"another disk 16o", self.world.record)
        return super().make_node()


class LosingWorld(ClusterWorld):
    """Only the last server loses its disk."""

    def make_host(self, name: str, dice: Dice) -> ClusterHost:
        return LosingHost(name, self, dice) if name == "c" else ClusterHost(name, self, dice)


def test_a_replaced_server_joins_again_and_enters_the_in_sync_set() -> None:
    world = LosingWorld()
    world.run(10)
    root = world.hosts[world.roots()[0]]
    election = root.member.election
    assert election is not None
    assert list(election.record.in_sync) == ["a", "b", "c"]
    world.hosts["c"].is_calm = True
    world.hosts["c"].kill()
    world.run(20)
    assert list(election.record.in_sync) == ["a", "b"]
    assert election.replace_member("c", root.now()) == ""
    root.schedule_flush()
    world.run(20)
    root.node.apply(AddVhost("after"), root.now(), ACTOR)
    root.schedule_flush()
    world.run(20)
    assert list(election.record.in_sync) == ["a", "b", "c"]
    primary = root.member.primary
    assert primary is not None
    # Its own acknowledgements count, which none of the old disk could have been.
    assert primary.acked_k("c") == primary.last_k > 0
