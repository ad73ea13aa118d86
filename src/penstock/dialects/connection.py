"""One client's connection, whatever it speaks: its first octets say which protocol.

Until they are there, and for everything that is no protocol of ours, it is a connection of
AMQP 0-9-1, which knows how long to wait and what to answer.
"""

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.amqp091.connection import Connection as Connection091
from penstock.dialects.amqp091.container import Container
from penstock.dialects.amqp10.connection import Connection as Connection10
from penstock.dialects.amqp10.links.link_registry import LinkRegistry
from penstock.wire.outgoing import Outgoing
from penstock.wire.sniff import Announced, sniff


class Connection:
    """Held by the node and by the socket, from accept to the end of the transport."""

    def __init__(
        self,
        container: Container,
        links: LinkRegistry,
        outgoing: Outgoing,
        number: int,
        peer_host: str,
        peer_is_loopback: bool,
        now: int,
    ) -> None:
        self._container: Container = container
        self._links: LinkRegistry = links
        self.outgoing: Outgoing = outgoing
        self.number: int = number
        self.peer_host: str = peer_host
        self._peer_is_loopback: bool = peer_is_loopback
        # What came while it was too little to tell the protocol.
        self._first: bytes = b""
        self._is_decided: bool = False
        self.amqp091: Connection091 = Connection091(
            container, outgoing, number, peer_host, peer_is_loopback, now
        )
        # Set, and the other one done with, when the client speaks AMQP 1.0.
        self.amqp10: Connection10 | None = None

    def came_from(self, peer_port: int) -> None:
        """For the log; 0 where peers have no port."""
        self.amqp091.noting.peer_port = peer_port

    def received(self, data: bytes, now: int) -> None:
        if self._is_decided:
            if self.amqp10 is None:
                self.amqp091.received(data, now)
            else:
                self.amqp10.received(data, now)
            return
        self._first += data
        announced = sniff(self._first)
        if announced is Announced.UNDECIDED:
            return
        if announced in {Announced.AMQP_1_0, Announced.AMQP_1_0_SASL, Announced.AMQP_1_0_TLS}:
            self.amqp10 = Connection10(
                self._container,
                self._links,
                self.outgoing,
                self.number,
                self.peer_host,
                self._peer_is_loopback,
                now,
            )
            self.amqp10.noting.peer_port = self.amqp091.noting.peer_port
        self._is_decided = True
        first = self._first
        self._first = b""
        self.received(first, now)

    def tick(self, now: int) -> None:
        """A few times a second: heartbeats and time-outs."""
        if self.amqp10 is None:
            self.amqp091.tick(now)
        else:
            self.amqp10.tick(now)

    def lost(self, now: int) -> None:
        """The transport is gone."""
        if self.amqp10 is None:
            self.amqp091.lost(now)
        else:
            self.amqp10.lost(now)

    def failed(self, now: int) -> None:
        """A defect of ours was met while this connection was served; nobody else is harmed."""
        if self.amqp10 is None:
            self.amqp091.failed(now)
        else:
            self.amqp10.failed(now)

    def stop(self, reason: str, now: int) -> None:
        """The server ends this connection: it stops, or an operator asked for it."""
        if not self._is_decided:
            # In which protocol would we say why? The transport is closed, and nothing more heard.
            self._is_decided = True
            self.amqp091.lost(now)
        elif self.amqp10 is None:
            self.amqp091.stop(reason, now)
        else:
            self.amqp10.stop(reason, now)

    def alarm_changed(self, now: int) -> None:
        """Memory or disk ran low, or is fine again."""
        if self.amqp10 is None:
            self.amqp091.alarm_changed(now)
        else:
            self.amqp10.alarm_changed(now)

    def unfinished_octets(self) -> int:
        """Of messages that an alarm has stopped in the middle, or that it completes now."""
        if self.amqp10 is None:
            return self.amqp091.unfinished_octets()
        return self.amqp10.unfinished_octets()

    def is_finishing(self) -> bool:
        """Whether it may complete a message, though an alarm lasts."""
        if self.amqp10 is None:
            return self.amqp091.is_finishing and not self.amqp091.ended
        return self.amqp10.is_finishing and not self.amqp10.ended

    def finish(self, now: int) -> None:
        if self.amqp10 is None:
            self.amqp091.finish(now)
        else:
            self.amqp10.finish(now)

    def give_up_unfinished(self, now: int) -> None:
        """It did not complete its message when it was its turn: it is closed."""
        if self.amqp10 is None:
            self.amqp091.give_up_unfinished(now)
        else:
            self.amqp10.give_up_unfinished(now)

    def update_is_plain(self) -> None:
        """Publishing is intercepted from now on, or no longer."""
        if self.amqp10 is None:
            self.amqp091.update_is_plain()
        else:
            self.amqp10.update_is_plain()

    def vhost_name(self) -> str:
        """The virtual host it has opened; empty before."""
        principal = self.amqp091.principal if self.amqp10 is None else self.amqp10.principal
        return "" if principal is None else principal.vhost.name

    def held_bytes(self, message_bytes: int) -> int:
        """Octets that it keeps in memory: what was said by half, what is to be sent, what is not
        settled or not committed. Each message costs `message_bytes` beside its body.
        """
        transport = self.outgoing.transport
        octets = len(self._first) + self.outgoing.size
        octets += transport.unsent_bytes() + transport.unheard_bytes()
        if self.amqp10 is None:
            return octets + self.amqp091.held_bytes(message_bytes)
        return octets + self.amqp10.held_bytes(message_bytes)

    def add_unsettled(self, found: list[tuple[MessageQueue, QueueEntry]]) -> None:
        """Append everything that is out with its consumers."""
        if self.amqp10 is None:
            self.amqp091.add_unsettled(found)
        else:
            self.amqp10.add_unsettled(found)
