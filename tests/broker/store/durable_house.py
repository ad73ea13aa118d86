"""A whole node on a disk that answers flushes when the test says so, and clients without sockets."""

from penstock.node.configuration import NodeConfiguration
from penstock.node.node import Node
from penstock.wire.amqp091 import methods_generated as m
from tests.broker.doubles import CountingEntropy
from tests.seeds.doubles import NOW, House, KeptLogins, Peer
from tests.storage.doubles import MemoryDisk


class DurableHouse(House):
    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk = disk or MemoryDisk()
        self.logins = KeptLogins()
        self.node = Node(
            NodeConfiguration("1.2.3", "a test", "house"),
            CountingEntropy(),
            self.logins,
            NOW,
            0,
            self.disk,
        )
        self.peers: list[Peer] = []

    def flushed(self) -> None:
        """The disk answers, and what follows from it is said."""
        self.disk.settle()
        self.settle()

    def settle_once(self) -> None:
        """One tick, for a node that may have failed and would never come to rest."""
        for peer in self.peers:
            said = peer.said()
            if said:
                peer.connection.received(said, NOW)
        self.node.flush(NOW)
        for peer in self.peers:
            peer.hear()

    def durable_queue(self, name: str = "q") -> Peer:
        """A client with confirms, and a queue that is safe."""
        peer = self.client()
        peer.conversation.call(1, m.ConfirmSelect())
        peer.conversation.call(1, m.QueueDeclare(queue=name, durable=True))
        self.settle()
        self.flushed()
        peer.events.clear()
        return peer
