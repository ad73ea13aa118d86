"""A link that a peer has dialled: control messages, JOIN and ACK come in, the stream goes out."""

from penstock.cluster.link_line import LinkLine
from penstock.cluster.link_output import LINK_CHANNEL
from penstock.cluster.link_owner import LinkOwner, receive
from penstock.cluster.peer_identity import Presented
from penstock.dialects.peer import Peer
from penstock.dialects.peers import PeerSession
from penstock.wire.amqp091.connection import Connection as WireConnection
from penstock.wire.amqp091.errors import ConnectionFault
from penstock.wire.amqp091.methods_generated import ClusterHello, ClusterHelloOk, Method
from penstock.wire.amqp091.reply_codes_generated import COMMAND_INVALID, NOT_ALLOWED


class InboundLink(PeerSession):
    """Held by the connection of the dialect. `PeerLinks` has its line, once the peer has presented
    itself.
    """

    def __init__(self, owner: LinkOwner, wire: WireConnection, peer: Peer, bytes_max: int) -> None:
        self._owner: LinkOwner = owner
        self._wire: WireConnection = wire
        self.peer: Peer = peer
        self.line: LinkLine = LinkLine(wire, bytes_max)
        # Who it is; None before the greeting.
        self.presented: Presented | None = None
        self._is_opened: bool = False

    def method_received(self, channel: int, method: Method, now: int) -> None:
        is_first = self.presented is None and not self.line.is_over
        if not isinstance(method, ClusterHello) or not is_first or channel != LINK_CHANNEL:
            raise ConnectionFault(
                COMMAND_INVALID, f"unexpected {method!r} on channel {channel} of a peer link"
            )
        presented = Presented(method.properties)
        self.presented = presented
        reason = self._owner.why_refused(presented, "", now)
        if reason:
            self._owner.inbound_refused(presented, self.peer.host, reason)
            raise ConnectionFault(NOT_ALLOWED, reason)
        answer = ClusterHelloOk(self._owner.presentation(presented.name, now))
        self._wire.send_method(LINK_CHANNEL, answer)
        self.line.open()
        self._is_opened = True
        self._owner.inbound_opened(self.line, presented, self.peer.host, now)

    def content_received(self, method: bytes, body: bytes, now: int) -> None:
        if self.line.is_over:
            return
        presented = self.presented
        if presented is None:
            raise ConnectionFault(COMMAND_INVALID, "a peer must say cluster.hello first")
        receive(self._owner, presented, method, body, now)

    def drained(self) -> None:
        self.line.drained()

    def held_bytes(self) -> int:
        return self.line.held_bytes()

    def ended(self, reason: str, now: int) -> None:
        self.line.close()
        presented = self.presented
        if self._is_opened and presented is not None:
            reason = self.line.end_reason or reason
            self._owner.inbound_ended(self.line, presented, reason, now)
