"""A link that this server has dialled: control messages, JOIN and ACK go out, the stream comes in.

    connected -> login as `cluster` -> open -> channel 1 -> hello -> hello-ok: open

The login is SCRAM-SHA-256 with the cluster's key as the password: neither side sends the key, and
each proves to the other that it knows it.
"""

from typing import Final

from penstock.cluster.link_line import LinkLine
from penstock.cluster.link_output import LINK_CHANNEL
from penstock.cluster.link_owner import LinkOwner, receive
from penstock.cluster.peer_identity import Presented
from penstock.dialects.mechanisms import PEER_USER
from penstock.formats.octets import Malformed
from penstock.formats.scram_keys import SCRAM_SHA_256
from penstock.wire.amqp091.connection import Connection as WireConnection
from penstock.wire.amqp091.errors import ChannelFault, ConnectionFault
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp091.listener import ConnectionListener
from penstock.wire.amqp091.methods_generated import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpenOk,
    ClusterHello,
    ClusterHelloOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from penstock.wire.amqp091.reply_codes_generated import (
    ACCESS_REFUSED,
    COMMAND_INVALID,
    NOT_ALLOWED,
    REPLY_SUCCESS,
)
from penstock.wire.amqp091.states import Role
from penstock.wire.outgoing import DrainListener, Outgoing
from penstock.wire.scram import ScramClient
from penstock.world.network import DialListener, Transport

_LOCALE: Final = "en_US"
_VHOST: Final = "/"
# The wire handles these and tells of the end.
_CLOSINGS: Final = (ConnectionClose, ConnectionCloseOk, ChannelClose, ChannelCloseOk)


class LinkPlan:
    """What a link needs to know before it is dialled."""

    def __init__(
        self,
        name: str,
        own_name: str,
        key: str,
        nonce: str,
        limits: Limits,
        flush_list: list[Outgoing],
        bytes_max: int,
    ) -> None:
        # Of the member that is dialled, and of this server.
        self.name: str = name
        self.own_name: str = own_name
        # The password of the login.
        self.key: str = key
        self.nonce: str = nonce
        self.limits: Limits = limits
        # Where the node finds output that must be written at the end of the tick.
        self.flush_list: list[Outgoing] = flush_list
        self.bytes_max: int = bytes_max


class PeerLink(ConnectionListener):
    """One attempt to link to a peer, and the link that it leads to. Held by `PeerLinks`."""

    def __init__(self, owner: LinkOwner, number: int, plan: LinkPlan, now: int) -> None:
        self._owner: LinkOwner = owner
        self._plan: LinkPlan = plan
        self.name: str = plan.name
        # Of the attempt; no other one of this process has it.
        self.number: int = number
        self._now: int = now
        # None before it is connected.
        self._wire: WireConnection | None = None
        self.line: LinkLine | None = None
        self.presented: Presented | None = None
        self._scram: ScramClient = ScramClient(PEER_USER, plan.key, plan.nonce)
        self._is_challenged: bool = False
        self._is_verified: bool = False
        self._is_over: bool = False

    def is_open(self) -> bool:
        return self.line is not None and self.line.is_open

    # Calls from the network and from the owner.

    def connected(self, transport: Transport, now: int) -> None:
        self._now = now
        if self._is_over:
            transport.abort()
            return
        outgoing = Outgoing(self._plan.flush_list, transport)
        outgoing.listener = LinkDrain(self)
        wire = WireConnection(Role.CLIENT, self, outgoing, self._plan.limits)
        wire.accept_peer()
        wire.last_received = now
        self._wire = wire
        self.line = LinkLine(wire, self._plan.bytes_max)
        wire.start()

    def received(self, data: bytes, now: int) -> None:
        self._now = now
        if self._wire is not None:
            self._wire.receive(data, now)

    def writable(self, is_writable: bool, now: int) -> None:
        self._now = now
        if self._wire is not None:
            self._wire.outgoing.set_writable(is_writable)

    def lost(self, reason: str, now: int) -> None:
        self._now = now
        if self._wire is None:
            self._end(reason or "the connection could not be opened")
            return
        if reason and self.line is not None and not self.line.end_reason:
            self.line.end_reason = reason
        self._wire.lost()

    def tick(self, now: int) -> None:
        self._now = now
        if self._wire is not None:
            self._wire.tick(now)

    def end(self, reason: str, now: int) -> None:
        """Give it up; the owner is told."""
        self._now = now
        if self.line is not None:
            self.line.end(reason)
        else:
            self._end(reason)

    # Calls from the wire.

    def method_received(self, channel: int, method: Method) -> None:
        wire = self._wire
        assert wire is not None, "it has received something"
        if isinstance(method, _CLOSINGS) or (self.line is not None and self.line.is_over):
            return
        if isinstance(method, ConnectionStart):
            wire.send_method(0, self._start_ok())
        elif isinstance(method, ConnectionSecure):
            wire.send_method(0, ConnectionSecureOk(self._answer(method.challenge)))
        elif isinstance(method, ConnectionTune):
            self._tune(wire, method)
        elif isinstance(method, ConnectionOpenOk):
            wire.open_channel(LINK_CHANNEL)
        elif isinstance(method, ChannelOpenOk):
            properties = self._owner.presentation(self.name, self._now)
            wire.send_method(LINK_CHANNEL, ClusterHello(properties))
        elif isinstance(method, ClusterHelloOk) and self.presented is None:
            self._greeted(Presented(method.properties))
        else:
            raise ConnectionFault(COMMAND_INVALID, f"unexpected {method!r} on a peer link")

    def content_received(self, channel: int, method: bytes, header: bytes, body: bytes) -> None:
        if self.line is None or self.line.is_over:
            return
        if self.presented is None:
            raise ConnectionFault(COMMAND_INVALID, "a peer must say cluster.hello-ok first")
        receive(self._owner, self.presented, method, body, self._now)

    def acknowledged(self, channel: int, delivery_tag: int, multiple: bool) -> None:
        raise ConnectionFault(COMMAND_INVALID, "basic.ack on a peer link")

    def channel_ended(self, channel: int, fault: ChannelFault | None) -> None:
        wire = self._wire
        assert wire is not None, "it had a channel"
        wire.close(ConnectionFault(COMMAND_INVALID, "the channel of a peer link was closed"))

    def connection_ended(self, fault: ConnectionFault | None) -> None:
        reason = "closed by the peer" if fault is None else fault.reply_text()
        if self.line is not None:
            self.line.close()
            reason = self.line.end_reason or reason
        self._end(reason)

    def _end(self, reason: str) -> None:
        if not self._is_over:
            self._is_over = True
            is_ours = self.line is not None and self.line.is_ended_by_us
            self._owner.outbound_ended(self.number, reason, is_ours, self._now)

    # The handshake.

    def _start_ok(self) -> ConnectionStartOk:
        # The mechanism need not be among those that are offered to clients.
        properties: dict[str, object] = {
            "product": "Penstock peer",
            "connection_name": f"peer {self._plan.own_name}",
            "capabilities": {"authentication_failure_close": True},
        }
        return ConnectionStartOk(properties, SCRAM_SHA_256, self._scram.start(), _LOCALE)

    def _answer(self, challenge: bytes) -> bytes:
        try:
            if not self._is_challenged:
                self._is_challenged = True
                return self._scram.answer(challenge)
            self._is_verified = self._scram.verify(challenge)
        except Malformed as error:
            raise ConnectionFault(ACCESS_REFUSED, f"malformed challenge: {error}") from error
        return b""

    def _tune(self, wire: WireConnection, tune: ConnectionTune) -> None:
        if not self._is_verified:
            raise ConnectionFault(
                ACCESS_REFUSED, "the peer did not prove that it knows the cluster key"
            )
        limits = self._plan.limits
        answer = ConnectionTuneOk(
            min(tune.channel_max or limits.channel_max, limits.channel_max),
            min(tune.frame_max or limits.frame_max, limits.frame_max),
            min(tune.heartbeat or limits.heartbeat_seconds, limits.heartbeat_seconds),
        )
        wire.tuned(answer.channel_max, answer.frame_max, answer.heartbeat)
        wire.send_method(0, answer)
        wire.send_method(0, ConnectionOpen(_VHOST))

    def _greeted(self, presented: Presented) -> None:
        self.presented = presented
        reason = self._owner.why_refused(presented, self.name, self._now)
        if reason:
            raise ConnectionFault(NOT_ALLOWED, reason)
        assert self.line is not None, "it is connected"
        self.line.open()
        self._owner.outbound_opened(self.number, self.line, presented, self._now)

    def stop(self, now: int) -> None:
        """This server stops."""
        self._now = now
        if self._wire is not None and self.line is not None:
            self.line.close()
            self._wire.close(ConnectionFault(REPLY_SUCCESS, "the server stops"))
        else:
            self._end("the server stops")


class LinkDial(DialListener):
    """A dialled link as the network sees it."""

    def __init__(self, link: PeerLink) -> None:
        self._link: PeerLink = link

    def connected(self, transport: Transport, now: int) -> None:
        self._link.connected(transport, now)

    def received(self, data: bytes, now: int) -> None:
        self._link.received(data, now)

    def writable(self, is_writable: bool, now: int) -> None:
        self._link.writable(is_writable, now)

    def lost(self, reason: str, now: int) -> None:
        self._link.lost(reason, now)


class LinkDrain(DrainListener):
    """Tells a link that its socket has room again."""

    def __init__(self, link: PeerLink) -> None:
        self._link: PeerLink = link

    def drained(self) -> None:
        if self._link.line is not None:
            self._link.line.drained()
