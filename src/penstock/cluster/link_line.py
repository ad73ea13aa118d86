"""One open link as its users see it: messages go in, frames come out."""

from typing import Final

from penstock.cluster.link_output import LINK_CHANNEL, LinkMessage, LinkOutput
from penstock.cluster.links_listener import PeerLine
from penstock.formats.peer_limits import FIRST_CONTROL_KIND
from penstock.wire.amqp091.connection import Connection as WireConnection
from penstock.wire.amqp091.errors import ConnectionFault
from penstock.wire.amqp091.methods_generated import ClusterControl, ClusterStream
from penstock.wire.amqp091.reply_codes_generated import CONNECTION_FORCED

OVERFLOW: Final = "too much waits to be sent on the link; the peer does not keep up"


class LinkLine(PeerLine):
    """Held by the link in either direction, and by whoever sends on it."""

    def __init__(self, wire: WireConnection, bytes_max: int) -> None:
        self._wire: WireConnection = wire
        self._output: LinkOutput = LinkOutput(wire.outgoing, bytes_max)
        # From the greeting to the end.
        self.is_open: bool = False
        # Whether it was ended by us; what the peer still says is not passed on.
        self.is_over: bool = False
        self.end_reason: str = ""
        # Whether `end` was called.
        self.is_ended_by_us: bool = False

    def open(self) -> None:
        self.is_open = True
        self._output.frame_max = self._wire.frame_max

    def send(self, kind: int, pieces: list[bytes]) -> None:
        if not self.is_open or not self._wire.channel_open(LINK_CHANNEL):
            return
        if kind >= FIRST_CONTROL_KIND:
            method = ClusterControl(kind).encode()
        else:
            method = ClusterStream(kind).encode()
        if not self._output.add(LinkMessage(method, ClusterControl.CLASS_ID, pieces)):
            self.end(OVERFLOW)

    def unsent_bytes(self) -> int:
        if self.is_over:
            return 0
        outgoing = self._wire.outgoing
        waiting = self._output.unpushed_bytes() + outgoing.size
        return waiting + outgoing.transport.unsent_bytes()

    def held_bytes(self) -> int:
        return self._output.unpushed_bytes()

    def drained(self) -> None:
        if self.is_open:
            self._output.pump()

    def end(self, reason: str) -> None:
        if self.is_over:
            return
        self.close()
        self.end_reason = reason
        self.is_ended_by_us = True
        self._wire.close(ConnectionFault(CONNECTION_FORCED, reason))

    def close(self) -> None:
        """The connection has ended, or is about to."""
        self.is_open = False
        self.is_over = True
        self._output.clear()
