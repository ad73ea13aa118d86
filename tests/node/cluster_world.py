"""Three or more simulated servers that are a cluster, with the shipped node, links and store."""

from __future__ import annotations

from penstock.broker.store.limits import StoreLimits
from penstock.cluster.election import Election
from penstock.cluster.links import LinkSettings
from penstock.cluster.member import Member
from penstock.cluster.promises import format_promises
from penstock.cluster.record import bootstrap_record, cluster_id_of_key
from penstock.cluster.timing import Timing, scaled
from penstock.node.cluster_member import ClusterMember
from penstock.node.cluster_settings import ClusterSettings
from penstock.node.configuration import NodeConfiguration
from penstock.node.joining import ClusterPlan
from penstock.node.node import Node
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dialler import HostDialler
from penstock.simulation.dice import Dice
from penstock.simulation.durable_host import DurableHost
from penstock.simulation.entropy import SeededEntropy
from penstock.simulation.history import History
from penstock.simulation.host import DelayedLoginChecker, HostClock
from penstock.simulation.network import Network
from penstock.simulation.plans import StoragePlan
from penstock.wire.amqp091.limits import Limits
from tests.simulation.doubles import dice_of
from tests.support.recorded_events import RecordedEvents

KEY = b"the key of this cluster"
SECOND = 1_000_000
TIMING = scaled(Timing(), 2, 5)


class ClusterHost(DurableHost):
    """One server of a simulated cluster."""

    def __init__(self, name: str, world: ClusterWorld, dice: Dice) -> None:
        self.world = world
        self.events = RecordedEvents()
        self._is_formatted = False
        super().__init__(
            name, world.clock, dice, world.history, Limits(), StoragePlan(StoreLimits())
        )

    def make_node(self) -> Node:
        if not self._is_formatted:
            self._is_formatted = True
            format_promises(self.disk, self.name.encode() * 16, self.world.record)
        settings = ClusterSettings(
            self.name,
            KEY,
            timing=TIMING,
            links=LinkSettings(heartbeat_seconds=1),
        )
        return Node(
            NodeConfiguration("0", "simulated", self.name, self._limits),
            SeededEntropy(self._dice.fork(f"entropy{self.life}")),
            DelayedLoginChecker(self, self._dice.fork(f"logins{self.life}")),
            self.now(),
            self.clock.wall(),
            self.disk,
            self.events,
            ClusterPlan(settings, HostDialler(self, self.world.network), HostClock(self)),
        )

    @property
    def member(self) -> ClusterMember:
        assert self.node.member is not None
        return self.node.member

    @property
    def election(self) -> Election:
        assert self.member.election is not None
        return self.member.election


class ClusterWorld:
    """Held by the test."""

    def __init__(self, names: tuple[str, ...] = ("a", "b", "c"), seed: int = 1) -> None:
        self.clock = VirtualClock()
        self.history = History(self.clock)
        dice = dice_of(seed)
        self.network = Network(self.clock, dice.fork("network"), self.history)
        members = [Member(name, f"{name}:5672") for name in names]
        self.record = bootstrap_record(cluster_id_of_key(KEY), members)
        self.hosts: dict[str, ClusterHost] = {}
        for name in names:
            host = self.make_host(name, dice.fork(name))
            self.hosts[name] = host
            self.network.listen(name, host)

    def make_host(self, name: str, dice: Dice) -> ClusterHost:
        """A test of another kind of host overrides this."""
        return ClusterHost(name, self, dice)

    def run(self, seconds: float) -> None:
        self.clock.run(int(seconds * SECOND))

    def roots(self) -> list[str]:
        return [
            name
            for name, host in self.hosts.items()
            if host.is_up and host.member.may_serve(host.now())
        ]
