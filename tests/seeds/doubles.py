"""A node without a world, and clients without sockets: the test is the event loop."""

from __future__ import annotations

from penstock.broker.access.users import Verification
from penstock.client.conversation import Conversation
from penstock.client.events import Delivered, Event
from penstock.client.uri import Address
from penstock.dialects.login_checker import LoginChecker, LoginWaiter
from penstock.node.configuration import NodeConfiguration
from penstock.node.node import Node
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.outgoing import Outgoing
from penstock.world.network import Transport
from tests.broker.doubles import CountingEntropy

NOW = 1


class KeptLogins(LoginChecker):
    """Keeps the checks it was asked for until the test answers them."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Verification, LoginWaiter]] = []

    def check(self, verification: Verification, waiter: LoginWaiter) -> None:
        self.waiting.append((verification, waiter))

    def answer(self) -> None:
        """Finds every password good, without the hashing."""
        waiting, self.waiting = self.waiting, []
        for verification, waiter in waiting:
            verification.good = True
            waiter.login_checked(verification, NOW)


class CountingTransport(Transport):
    """Counts what would be system calls."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.is_reading = True
        # As if so much had come while nobody reads.
        self.unheard = 0

    def unheard_bytes(self) -> int:
        return self.unheard

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def take(self) -> bytes:
        written = b"".join(self.writes)
        self.writes = []
        return written


class Peer:
    """A client of the node: the embedded client on one side, the node's connection on the other."""

    def __init__(self, house: House, name: str = "", vhost: str = "/") -> None:
        self.house = house
        self.transport = CountingTransport()  # the node's side
        self._sent = CountingTransport()  # the client's side
        self._flush_list: list[Outgoing] = []
        outgoing = Outgoing(self._flush_list, self._sent)
        self.conversation = Conversation(Address(vhost=vhost), outgoing, name=name)
        connection = house.node.connected(self.transport, "127.0.0.1", True, NOW)
        assert connection is not None
        self.connection = connection
        self.events: list[Event] = []
        self.conversation.start()

    def said(self) -> bytes:
        """What the client has said and the node has not heard yet."""
        while self._flush_list:
            self._flush_list.pop().flush()
        return self._sent.take()

    def deliver_to_node(self) -> None:
        self.connection.received(self.said(), NOW)

    def hear(self) -> None:
        self.events += self.conversation.receive(self.transport.take(), NOW)

    def call(self, method: m.Method, channel: int = 1) -> None:
        self.conversation.call(channel, method)
        self.house.settle()

    def publish(self, queue: str, *bodies: bytes) -> None:
        """Said and not yet heard: the test decides when."""
        for body in bodies:
            self.conversation.publish(1, "", queue, body)

    @property
    def bodies(self) -> list[bytes]:
        return [event.body for event in self.events if isinstance(event, Delivered)]


class House:
    """One node and everybody who talks to it."""

    def __init__(self) -> None:
        self.logins = KeptLogins()
        self.node = Node(
            NodeConfiguration("1.2.3", "a test", "house"), CountingEntropy(), self.logins, NOW, 0
        )
        self.peers: list[Peer] = []

    def connect(self, name: str = "", vhost: str = "/") -> Peer:
        peer = Peer(self, name, vhost)
        self.peers.append(peer)
        return peer

    def client(self, name: str = "") -> Peer:
        """A peer that is logged in and has channel 1 open."""
        peer = self.connect(name)
        self.settle()
        peer.conversation.open_channel()
        self.settle()
        return peer

    def settle(self) -> None:
        """Carry everything in both directions until nobody has anything to say."""
        busy = True
        while busy:
            busy = False
            for peer in self.peers:
                said = peer.said()
                if said:
                    busy = True
                    peer.connection.received(said, NOW)
            self.logins.answer()
            while self.node.has_work():
                self.node.flush(NOW)
            for peer in self.peers:
                if peer.transport.writes:
                    busy = True
                    peer.hear()
