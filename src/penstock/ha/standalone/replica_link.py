"""One connection of a replica to its source: login, channel, subscription, batches.

    connected -> open -> channel -> qos -> consume -> greeting -> batches

It is an ordinary client. What it acknowledges is durable here, and is nothing but credit there.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.replicas.feed_batch import (
    BATCH,
    GREETING,
    HELD_ARGUMENT,
    SUBSCRIPTION_ARGUMENT,
)
from penstock.client.conversation import Conversation
from penstock.client.errors import ReplyError
from penstock.client.events import (
    ChannelClosed,
    ConnectionClosed,
    ConsumerCancelled,
    Delivered,
    Event,
    Opened,
    Replied,
)
from penstock.client.uri import Address
from penstock.dialects.container import Container, EndOfTickAnswer
from penstock.wire.amqp091.methods_generated import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    ChannelOpenOk,
)
from penstock.wire.outgoing import Outgoing
from penstock.world.network import DialListener, Transport

# Batches that may be unacknowledged: some megabytes, enough to keep a fast link busy.
PREFETCH_COUNT: Final = 16
# Octets of the subscription beside the ids: its frame, names and the incarnation.
SUBSCRIPTION_BYTES: Final = 1024


@mypyc_attr(allow_interpreted_subclasses=True)
class LinkListener:
    """The replica whose link it is."""

    def link_opened(self, link: "ReplicaLink", now: int) -> None:
        """It can subscribe."""
        raise NotImplementedError

    def greeted(self, link: "ReplicaLink", body: bytes, now: int) -> None:
        raise NotImplementedError

    def batch_received(self, link: "ReplicaLink", body: bytes, now: int) -> None:
        raise NotImplementedError

    def link_ended(
        self, link: "ReplicaLink", reason: str, error: ReplyError | None, now: int
    ) -> None:
        """Called once; `error` is what the source said, if it said anything."""
        raise NotImplementedError


class ReplicaLink:
    """One attempt, and the connection that it leads to. Held by its replica."""

    def __init__(
        self, listener: LinkListener, container: Container, address: Address, name: str, nonce: str
    ) -> None:
        self._listener: LinkListener = listener
        self._container: Container = container
        self.address: Address = address
        self._name: str = name
        self._nonce: str = nonce
        # None before it is connected.
        self._transport: Transport | None = None
        self._outgoing: Outgoing | None = None
        self._conversation: Conversation | None = None
        self._channel: int = 0
        self._is_over: bool = False
        self._acks: ReplicaAcks = ReplicaAcks(self, container)

    # Calls from the network.

    def connected(self, transport: Transport, now: int) -> None:
        if self._is_over:
            transport.abort()
            return
        self._transport = transport
        outgoing = Outgoing(self._container.flush_list, transport)
        self._outgoing = outgoing
        conversation = Conversation(self.address, outgoing, name=self._name, nonce=self._nonce)
        self._conversation = conversation
        conversation.start()
        # The time for the handshake begins now.
        self._happened(conversation.tick(now), now)

    def received(self, data: bytes, now: int) -> None:
        if self._conversation is not None and not self._is_over:
            self._happened(self._conversation.receive(data, now), now)

    def writable(self, is_writable: bool, now: int) -> None:
        if self._outgoing is not None:
            self._outgoing.set_writable(is_writable)

    def lost(self, reason: str, now: int) -> None:
        self._end(reason or "the connection was closed", None, now)

    # Calls from the replica.

    def tick(self, now: int) -> None:
        if self._conversation is not None and not self._is_over:
            self._happened(self._conversation.tick(now), now)
            self._acks.look()

    def ids_max(self) -> int:
        """Octets of ids that a subscription can carry: the method is one frame."""
        assert self._conversation is not None, "it is open"
        return self._conversation.frame_max - SUBSCRIPTION_BYTES

    def subscribe(self, queue: str, incarnation: str, held: bytes) -> None:
        assert self._conversation is not None, "it is open"
        arguments: dict[str, object] = {SUBSCRIPTION_ARGUMENT: incarnation}
        if held:
            arguments[HELD_ARGUMENT] = held
        self._conversation.call(self._channel, BasicConsume(queue=queue, arguments=arguments))

    def subscribe_again(self) -> None:
        """On a new channel, which ends the subscription of the old one."""
        assert self._conversation is not None, "it is open"
        old = self._channel
        self._acks.forget()
        self._channel, _ = self._conversation.open_channel()
        self._conversation.close_channel(old)

    def stop(self) -> None:
        """Not needed any more; nobody is told of its end."""
        self._is_over = True
        if self._conversation is not None and self._conversation.opened:
            self._conversation.close()
        elif self._transport is not None:
            self._transport.abort()

    # What happened.

    def _happened(self, events: list[Event], now: int) -> None:
        for event in events:
            if self._is_over:
                return
            self._handle(event, now)

    def _handle(self, event: Event, now: int) -> None:
        conversation = self._conversation
        assert conversation is not None, "something was heard"
        if isinstance(event, Delivered):
            self._delivered(event, now)
        elif isinstance(event, Opened):
            self._channel, _ = conversation.open_channel()
        elif isinstance(event, Replied):
            if event.channel != self._channel:
                return
            if isinstance(event.method, ChannelOpenOk):
                conversation.call(self._channel, BasicQos(0, PREFETCH_COUNT, False))
            elif isinstance(event.method, BasicQosOk):
                self._listener.link_opened(self, now)
            else:
                assert isinstance(event.method, BasicConsumeOk), "nothing else was asked for"
        elif isinstance(event, ConsumerCancelled):
            self._end("the queue was deleted at the source", None, now)
        elif isinstance(event, ChannelClosed):
            if event.channel == self._channel and event.error is not None:
                self._end(str(event.error), event.error, now)
        elif isinstance(event, ConnectionClosed):
            error = event.error
            self._end("the connection was closed" if error is None else str(error), error, now)

    def _delivered(self, event: Delivered, now: int) -> None:
        if event.channel != self._channel:
            return
        kind = event.properties.type_
        if kind == GREETING:
            self._listener.greeted(self, event.body, now)
        elif kind == BATCH:
            self._listener.batch_received(self, event.body, now)
        else:
            self._end("the source sent messages as to a consumer: it is not a Penstock", None, now)
            return
        if not self._is_over and event.channel == self._channel:
            self._acks.received(event.delivery_tag)

    def acknowledge(self, tag: int) -> None:
        if self._conversation is not None and self._conversation.opened and not self._is_over:
            self._conversation.tell(self._channel, BasicAck(tag, True))

    def _end(self, reason: str, error: ReplyError | None, now: int) -> None:
        if not self._is_over:
            self.stop()
            self._listener.link_ended(self, reason, error, now)


class ReplicaAcks(EndOfTickAnswer):
    """Acknowledges batches when they are durable, and not while this server is short of memory or
    disk. Held by the link.
    """

    def __init__(self, link: ReplicaLink, container: Container) -> None:
        self._link: ReplicaLink = link
        self._container: Container = container
        self._is_listed: bool = False
        # The last batch that arrived, and the last one that waits for the journal up to there.
        self._last_tag: int = 0
        self._tag: int = 0
        self._position: int = 0

    def received(self, tag: int) -> None:
        self._last_tag = tag
        self.look()

    def forget(self) -> None:
        """The tags of another channel follow."""
        self._last_tag = 0
        self._tag = 0

    def look(self) -> None:
        if self._last_tag and not self._is_listed:
            self._is_listed = True
            self._container.answer_list.append(self)

    def flush(self) -> None:
        self._is_listed = False
        durability = self._container.durability
        if not self._tag and self._last_tag:
            self._tag = self._last_tag
            self._position = durability.written
        if self._tag and durability.durable >= self._position and not self._container.alarm:
            self._link.acknowledge(self._tag)
            if self._last_tag == self._tag:
                self._last_tag = 0
            self._tag = 0
            self.look()

    def is_waiting(self) -> bool:
        return self._tag > 0

    def became_durable(self) -> None:
        self.look()

    def outgoing_of(self) -> Outgoing | None:
        return None

    def held(self, sequence: int) -> None:
        """Nothing is published here."""

    def completed(self, sequence: int) -> None:
        """Nothing is published here."""


class SourceDial(DialListener):
    """A link as the network sees it."""

    def __init__(self, link: ReplicaLink) -> None:
        self._link: ReplicaLink = link

    def connected(self, transport: Transport, now: int) -> None:
        self._link.connected(transport, now)

    def received(self, data: bytes, now: int) -> None:
        self._link.received(data, now)

    def writable(self, is_writable: bool, now: int) -> None:
        self._link.writable(is_writable, now)

    def lost(self, reason: str, now: int) -> None:
        self._link.lost(reason, now)
