"""Simulated servers that are not a cluster: sources, and servers that keep replicas of their queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.queues.following import REPLICA_COMPONENT
from penstock.broker.store.limits import StoreLimits
from penstock.broker.store.reclaim import UnsettledSource
from penstock.broker.topology import ClearParameter, DeclareQueue, SetParameter
from penstock.ha.standalone.replica_dialler import ReplicaDialler
from penstock.node.configuration import NodeConfiguration
from penstock.node.node import Node
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dialler import HostDialler
from penstock.simulation.durable_host import DurableHost
from penstock.simulation.entropy import SeededEntropy
from penstock.simulation.history import History
from penstock.simulation.host import DelayedLoginChecker
from penstock.simulation.network import Network
from penstock.simulation.plans import StoragePlan
from penstock.wire.amqp091.limits import Limits
from penstock.world.network import DialAddress, DialListener
from tests.broker.store.doubles import SMALL, message
from tests.simulation.doubles import dice_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.broker.entry import QueueEntry
    from penstock.broker.queues.message_queue import MessageQueue
    from penstock.broker.topology import VhostCommand
    from penstock.broker.vhost import VirtualHost
    from penstock.client.uri import Address
    from penstock.ha.standalone.queue_replica import QueueReplica
    from penstock.simulation.dice import Dice
    from penstock.simulation.host import Host

SECOND = 1_000_000
# Of simulated time: more than a connection and a SYNC of a few messages need.
PATIENCE_US = 30 * SECOND


class SimulatedReplicaDialler(ReplicaDialler):
    def __init__(self, host: Host, network: Network) -> None:
        self._dialler = HostDialler(host, network)

    def dial(self, address: Address, listener: DialListener) -> None:
        self._dialler.dial(DialAddress(address.host, address.port), listener)


class KnownOut(UnsettledSource):
    """What a test has taken out of a queue, and not settled."""

    def __init__(self, queue: MessageQueue, *entries: QueueEntry) -> None:
        self._out = [(queue, entry) for entry in entries]

    def unsettled(self) -> list[tuple[MessageQueue, QueueEntry]]:
        return self._out


class ReplicaHost(DurableHost):
    """One server on its own; it may be a source, keep replicas, or both."""

    def __init__(
        self,
        name: str,
        network: Network,
        clock: VirtualClock,
        dice: Dice,
        history: History,
        limits: StoreLimits = SMALL,
    ) -> None:
        self._network = network
        self._store_limits = limits
        super().__init__(name, clock, dice, history, Limits(), StoragePlan(limits))
        # A crash comes when the test says so.
        self.is_calm = True

    def make_node(self) -> Node:
        return Node(
            NodeConfiguration("0", "simulated", self.name, self._limits, store=self._store_limits),
            SeededEntropy(self._dice.fork(f"entropy{self.life}")),
            DelayedLoginChecker(self, self._dice.fork(f"logins{self.life}")),
            self.now(),
            self.clock.wall(),
            self.disk,
            dialler=SimulatedReplicaDialler(self, self._network),
        )

    @property
    def vhost(self) -> VirtualHost:
        return self.node.state.vhost("/")

    def queue(self, name: str = "q") -> MessageQueue:
        return self.vhost.queue(name)

    def apply(self, command: VhostCommand) -> None:
        self.node.apply_to_vhost("/", command, self.now())
        self.schedule_flush()

    def put(self, *bodies: bytes, name: str = "q", persistent: bool = True) -> None:
        for body in bodies:
            assert self.queue(name).enqueue(message(body, persistent=persistent), self.now())
        self.schedule_flush()

    def get(self, name: str = "q") -> QueueEntry:
        entry = self.queue(name).get(self.now())
        assert entry is not None
        return entry

    def acknowledge(self, entry: QueueEntry, name: str = "q") -> None:
        self.queue(name).acknowledge(entry)
        self.schedule_flush()

    def replicate(
        self,
        uri: str,
        name: str = "q",
        source: str = "q",
        arguments: dict[str, object] | None = None,
    ) -> None:
        self.apply(SetParameter(REPLICA_COMPONENT, name, {"uri": uri, "queue": source}))
        self.apply(DeclareQueue(name, durable=True, arguments=arguments or {}))

    def release(self, name: str = "q") -> None:
        self.apply(ClearParameter(REPLICA_COMPONENT, name))

    def replica(self, name: str = "q") -> QueueReplica:
        assert self.node.replicas is not None
        found = self.node.replicas.find(self.queue(name))
        assert found is not None
        return found

    def bodies(self, name: str = "q") -> list[bytes]:
        return [entry.message.body for entry in self.queue(name).browse(100_000)]

    def positions(self, name: str = "q") -> list[int]:
        return self.queue(name).positions_from(1, 100_000)


class ReplicaWorld:
    """Held by the test."""

    def __init__(self, *names: str, seed: int = 1, limits: StoreLimits = SMALL) -> None:
        self.clock = VirtualClock()
        self.history = History(self.clock)
        self.dice = dice_of(seed)
        self.network = Network(self.clock, self.dice.fork("network"), self.history)
        self.hosts: dict[str, ReplicaHost] = {}
        for name in names or ("source", "target"):
            host = ReplicaHost(
                name, self.network, self.clock, self.dice.fork(name), self.history, limits
            )
            self.hosts[name] = host
            self.network.listen(name, host)

    @property
    def source(self) -> ReplicaHost:
        return self.hosts["source"]

    @property
    def target(self) -> ReplicaHost:
        return self.hosts["target"]

    def run(self, seconds: float) -> None:
        self.clock.run(int(seconds * SECOND))

    def until(self, is_so: Callable[[], bool]) -> None:
        """Fails when it does not come about."""
        end = self.clock.microseconds + PATIENCE_US
        while not is_so():
            assert self.clock.microseconds < end
            self.run(0.01)

    def settle(self, seconds: float = 30.0) -> None:
        """Until the replica has what the source has; fails when it never does."""
        for _ in range(int(seconds * 10)):
            self.run(0.1)
            if (
                self.source.is_up
                and self.target.is_up
                and self.target.positions() == self.source.positions()
            ):
                return
        assert self.target.positions() == self.source.positions()
