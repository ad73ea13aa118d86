"""One client's connection: its first octets say which protocol it speaks.

Until they have arrived, and for every unsupported protocol, it is a connection of AMQP 0-9-1, which
knows how long to wait and what to answer.
"""

from penstock.dialects.amqp091.connection import Connection as Connection091
from penstock.dialects.amqp091.dialect import Dialect091
from penstock.dialects.amqp10.connection import Connection as Connection10
from penstock.dialects.amqp10.dialect import Dialect10
from penstock.dialects.peer import Peer
from penstock.dialects.protocol_connection import ProtocolConnection
from penstock.wire.amqp10.framing import TLS_HEADER
from penstock.wire.outgoing import Outgoing
from penstock.wire.sniff import HEADER_SIZE, Announced, sniff


class Connection:
    """Held by the node and by the socket, from accept to the end of the transport. It decides which
    protocol is spoken; everything else is between the node and `protocol`.
    """

    def __init__(self, amqp091: Dialect091, amqp10: Dialect10, peer: Peer, now: int) -> None:
        self._amqp10: Dialect10 = amqp10
        self.peer: Peer = peer
        self.number: int = peer.number
        self.outgoing: Outgoing = peer.outgoing
        # Input that was too short to identify the protocol.
        self._first: bytes = b""
        self._is_decided: bool = False
        # When it was accepted.
        self.began: int = now
        # Reads, and octets that came with them.
        self.received_count: int = 0
        self.received_bytes: int = 0
        self.protocol: ProtocolConnection = Connection091(amqp091, peer, now)

    def received(self, data: bytes, now: int) -> None:
        self.received_count += 1
        self.received_bytes += len(data)
        if self._is_decided:
            self.protocol.received(data, now)
            return
        self._first += data
        announced = sniff(self._first)
        if announced is Announced.UNDECIDED:
            return
        if announced is Announced.AMQP_1_0_TLS and self.outgoing.transport.can_start_tls():
            self._begin_tls()
            return
        if announced in {Announced.AMQP_1_0, Announced.AMQP_1_0_SASL, Announced.AMQP_1_0_TLS}:
            self.protocol = Connection10(self._amqp10, self.peer, now)
        self._is_decided = True
        first = self._first
        self._first = b""
        self.protocol.received(first, now)

    def _begin_tls(self) -> None:
        """Specification 5.2.1: both sides have said the header, the handshake follows, and inside
        TLS the client says again which protocol it speaks.
        """
        first = self._first[HEADER_SIZE:]
        self._first = b""
        transport = self.outgoing.transport
        transport.write(TLS_HEADER)
        transport.start_tls(first)

    def stop(self, reason: str, now: int) -> None:
        """The server closes this connection: it stops, or an operator asked for it."""
        if self._is_decided:
            self.protocol.stop(reason, now)
        else:
            # The protocol for an answer is unknown, so the transport is closed without one.
            self._is_decided = True
            self.protocol.lost(now)

    def held_bytes(self, message_bytes: int) -> int:
        """Octets that it keeps in memory, with what is to be sent. Each message costs
        `message_bytes` beside its body.
        """
        transport = self.outgoing.transport
        octets = len(self._first) + self.outgoing.size
        octets += transport.unsent_bytes() + transport.unheard_bytes()
        return octets + self.protocol.held_bytes(message_bytes)
