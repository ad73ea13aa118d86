"""The client's side of one AMQP 0-9-1 connection, sans-IO: bytes in, events out, commands in.

A skin (or the simulator) feeds it bytes and time and writes what gathers in `outgoing`. It opens
the connection by itself as the broker's methods arrive; everything else happens on command.

Invariants
- Every event is returned once, in the order of the bytes.
- A closed channel leaves the connection and the other channels alone.
- After `ConnectionClosed` there are no events and no commands.
"""

from typing import Final

from penstock.client import errors
from penstock.client.channel import Channel, PendingCall
from penstock.client.confirms import OutstandingPublishes, Settled
from penstock.client.events import (
    Blocked,
    ChannelClosed,
    Confirmed,
    ConnectionClosed,
    ConsumerCancelled,
    Delivered,
    Event,
    Flow,
    Opened,
    Replied,
    Returned,
    SecretUpdated,
    Unblocked,
)
from penstock.client.login import ClientLogin
from penstock.client.transaction import ClientTransaction
from penstock.client.uri import Address
from penstock.formats.amqp091_delivery import CONSUMER_TAG_AT, TAG_AND_FLAG_SIZE
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.connection import Connection
from penstock.wire.amqp091.content import BasicProperties, encode_header
from penstock.wire.amqp091.errors import ChannelFault, ConnectionFault
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp091.listener import ConnectionListener
from penstock.wire.amqp091.reply_codes_generated import (
    ACCESS_REFUSED,
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    REPLY_SUCCESS,
    UNEXPECTED_FRAME,
)
from penstock.wire.amqp091.states import Role
from penstock.wire.outgoing import Outgoing

# Encoded basic.publish methods kept for reuse; a program that uses more routes than this only has
# to encode them again.
ROUTES_KEPT_MAX: Final = 1000

# Consumer tags decoded once and kept; they are few and live long.
TAGS_KEPT_MAX: Final = 1000

# All contents are of class basic, whose method ids fill the lower of their two octets.
_METHOD_ID_AT: Final = 3

# Where a get-ok's names begin.
_GET_OK_NAMES_AT: Final = 4 + TAG_AND_FLAG_SIZE

NO_PROPERTIES: Final = BasicProperties()

SETTLEMENTS: Final = (m.BasicAck, m.BasicNack, m.BasicReject)
CLOSINGS: Final = (m.ChannelClose, m.ChannelCloseOk, m.ConnectionClose, m.ConnectionCloseOk)


class Conversation(ConnectionListener):
    """Held by a skin, a peer link or the simulator; one for each connection that is made."""

    def __init__(
        self,
        address: Address,
        outgoing: Outgoing,
        *,
        name: str = "",
        epoch: int = 0,
        nonce: str = "",
    ) -> None:
        """The nonce is drawn by the skin for this connection alone; SCRAM needs it."""
        limits = Limits(
            frame_max=address.frame_max,
            channel_max=address.channel_max,
            heartbeat_seconds=address.heartbeat_seconds,
        )
        self._address: Address = address
        self._login: ClientLogin = ClientLogin(address, nonce)
        self._name: str = name
        # Distinguishes deliveries of this connection from those of earlier ones.
        self.epoch: int = epoch
        self._wire: Connection = Connection(Role.CLIENT, self, outgoing, limits)
        self._outgoing: Outgoing = outgoing
        self._channels: dict[int, Channel] = {}
        self._events: list[Event] = []
        self._next_ticket: int = 1
        self._opened: bool = False
        self._ended: bool = False
        # New secrets that the broker has not answered yet.
        self._secrets_sent: int = 0
        self._server_properties: dict[str, object] = {}
        self._routes: dict[tuple[str, str, bool], bytes] = {}
        self._tags: dict[bytes, str] = {}

    @property
    def opened(self) -> bool:
        return self._opened and not self._ended

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def frame_max(self) -> int:
        return self._wire.frame_max

    @property
    def heartbeat_seconds(self) -> int:
        """The negotiated heartbeat; 0 is never."""
        return self._wire.heartbeat_seconds

    @property
    def pending_size(self) -> int:
        """Bytes of output that are not written yet."""
        return self._outgoing.size

    # Driven by the world.

    def start(self) -> None:
        self._wire.start()

    def receive(self, data: bytes, now: int) -> list[Event]:
        self._wire.receive(data, now)
        return self.take_events()

    def tick(self, now: int) -> list[Event]:
        """At least twice per heartbeat; also ends a handshake or a close that takes too long."""
        self._wire.tick(now)
        return self.take_events()

    def lost(self) -> list[Event]:
        """The byte stream ended without connection.close."""
        self._wire.lost()
        return self.take_events()

    def take_events(self) -> list[Event]:
        events = self._events
        self._events = []
        return events

    # Commands.

    def open_channel(self) -> tuple[int, int]:
        """The new channel's number and the ticket of its opening; use it once that is answered."""
        number = 1
        while number in self._channels or self._wire.channel_known(number):
            number += 1
        if number > self._wire.channel_max:
            raise errors.ClientError(f"all {self._wire.channel_max} channels are in use")
        state = Channel(number)
        self._channels[number] = state
        self._wire.open_channel(number)
        return number, self._expect(state, m.CHANNEL_OPEN)

    def call(self, channel: int, method: m.Method) -> int:
        """Send a method that has an answer; its `Replied` carries the returned ticket."""
        state = self._channel(channel)
        if isinstance(method, m.ConfirmSelect) and state.publishes is None:
            state.publishes = OutstandingPublishes()
        elif isinstance(method, m.TxSelect) and state.transaction is None:
            state.transaction = ClientTransaction()
        elif state.transaction is not None:
            state.transaction.called(method)
        self._wire.send_method(channel, method)
        return self._expect(state, method.identity())

    def tell(self, channel: int, method: m.Method) -> None:
        """Send a method that has no answer: ack, nack, reject, or anything with no-wait."""
        state = self._channel(channel)
        if isinstance(method, SETTLEMENTS):
            _works(state)
        self._wire.send_method(channel, method)

    def update_secret(self, secret: str, reason: str) -> None:
        """Send a new password, or a later token, before the one of the login expires; answered by
        `SecretUpdated`. A broker that refuses it closes the connection.
        """
        if not self._opened or self._ended:
            raise errors.ConnectionClosedError(errors.NO_REPLY_CODE, "the connection is not open")
        self._secrets_sent += 1
        self._wire.send_method(0, m.ConnectionUpdateSecret(secret.encode(), reason))

    def publish(
        self,
        channel: int,
        exchange: str,
        routing_key: str,
        body: bytes,
        properties: BasicProperties | None = None,
        mandatory: bool = False,
        note: object = None,
    ) -> int:
        """The publish's confirm tag, or 0 on a channel without confirms."""
        state = self._channel(channel)
        method = self._route(exchange, routing_key, mandatory)
        header = encode_header(len(body), properties or NO_PROPERTIES)
        self._wire.send_content(channel, method, header, body)
        _works(state)
        return 0 if state.publishes is None else state.publishes.published(note)

    def publish_encoded(self, channel: int, frames: bytes, count: int, note: object = None) -> int:
        """`count` publishes whose frames `encoding.encode_publish` made for this channel."""
        state = self._channel(channel)
        self._outgoing.push(frames)
        _works(state)
        return 0 if state.publishes is None else state.publishes.published(note, count)

    def outstanding(self, channel: int) -> int:
        """Publishes on the channel that the broker has not answered yet."""
        publishes = self._channel(channel).publishes
        return 0 if publishes is None else len(publishes)

    def in_doubt(self, channel: int) -> list[Settled[object]]:
        """Those publishes, as they stand now; once the channel is closed its event has them."""
        publishes = self._channel(channel).publishes
        return [] if publishes is None else publishes.in_doubt()

    def close_channel(self, channel: int) -> None:
        self._channel(channel)
        self._wire.close_channel(channel, ChannelFault(REPLY_SUCCESS, "goodbye"))

    def close(self) -> None:
        self._wire.close(ConnectionFault(REPLY_SUCCESS, "goodbye"))

    def _channel(self, number: int) -> Channel:
        # The wire drops what is sent too early or too late; here that would be a lost publish.
        if not self._wire.channel_open(number):
            raise errors.ChannelClosedError(errors.NO_REPLY_CODE, f"channel {number} is not open")
        return self._channels[number]

    def _expect(self, state: Channel, identity: int) -> int:
        ticket = self._next_ticket
        self._next_ticket += 1
        state.calls.append(PendingCall(ticket, identity))
        return ticket

    def _route(self, exchange: str, routing_key: str, mandatory: bool) -> bytes:
        key = (exchange, routing_key, mandatory)
        method = self._routes.get(key)
        if method is None:
            if len(self._routes) >= ROUTES_KEPT_MAX:
                self._routes.clear()
            method = m.BasicPublish(exchange, routing_key, mandatory).encode()
            self._routes[key] = method
        return method

    # Calls from the wire.

    def method_received(self, channel: int, method: m.Method) -> None:
        if isinstance(method, CLOSINGS):
            return  # the wire answers them and calls `channel_ended`, `connection_ended`
        if channel == 0:
            self._connection_method(method)
            return
        state = self._channels[channel]
        if isinstance(method, m.BasicNack):
            self._confirmed(channel, method.delivery_tag, method.multiple, nack=True)
        elif isinstance(method, m.BasicCancel):
            self._events.append(ConsumerCancelled(channel, method.consumer_tag))
            if not method.no_wait:
                self._wire.send_method(channel, m.BasicCancelOk(method.consumer_tag))
        elif isinstance(method, m.ChannelFlow):
            self._events.append(Flow(channel, method.active))
            self._wire.send_method(channel, m.ChannelFlowOk(method.active))
        else:
            ticket = state.answered(method.identity())
            if state.transaction is not None:
                state.transaction.answered(method)
            self._events.append(Replied(channel, ticket, method))

    def _connection_method(self, method: m.Method) -> None:
        if isinstance(method, m.ConnectionStart):
            self._server_properties = method.server_properties
            self._wire.send_method(0, self._login.answer_start(method, self._name))
        elif isinstance(method, m.ConnectionSecure):
            self._wire.send_method(0, self._login.answer_secure(method))
        elif isinstance(method, m.ConnectionTune):
            answer = self._login.answer_tune(method)
            self._wire.tuned(answer.channel_max, answer.frame_max, answer.heartbeat)
            self._wire.send_method(0, answer)
            self._wire.send_method(0, m.ConnectionOpen(self._address.vhost))
        elif isinstance(method, m.ConnectionOpenOk):
            self._opened = True
            self._events.append(Opened(self._server_properties))
        elif isinstance(method, m.ConnectionBlocked):
            self._events.append(Blocked(method.reason))
        elif isinstance(method, m.ConnectionUnblocked):
            self._events.append(Unblocked())
        elif isinstance(method, m.ConnectionUpdateSecretOk) and self._secrets_sent:
            self._secrets_sent -= 1
            self._events.append(SecretUpdated())
        else:
            raise ConnectionFault(
                NOT_IMPLEMENTED, f"{method!r} is not a method that a broker sends"
            )

    def content_received(self, channel: int, method: bytes, header: bytes, body: bytes) -> None:
        kind = method[_METHOD_ID_AT]
        if kind == m.BasicDeliver.METHOD_ID:
            names_at = CONSUMER_TAG_AT + 1 + method[CONSUMER_TAG_AT] + TAG_AND_FLAG_SIZE
            octets = method[CONSUMER_TAG_AT + 1 : names_at - TAG_AND_FLAG_SIZE]
            tag = self._tags.get(octets)
            if tag is None:
                tag = self._keep_tag(octets)
            self._events.append(Delivered(self.epoch, channel, tag, names_at, method, header, body))
        elif kind == m.BasicGetOk.METHOD_ID:
            self._got(channel, method, header, body)
        elif kind == m.BasicReturn.METHOD_ID:
            returned = m.BasicReturn.decode(method)
            self._events.append(
                Returned(
                    channel,
                    returned.reply_code,
                    returned.reply_text,
                    returned.exchange,
                    returned.routing_key,
                    header,
                    body,
                )
            )
        else:
            raise ConnectionFault(UNEXPECTED_FRAME, "unexpected content from the broker")

    def _keep_tag(self, octets: bytes) -> str:
        if len(self._tags) >= TAGS_KEPT_MAX:
            self._tags.clear()
        tag = octets.decode("utf-8", "surrogateescape")
        self._tags[octets] = tag
        return tag

    def _got(self, channel: int, method: bytes, header: bytes, body: bytes) -> None:
        answer = m.BasicGetOk.decode(method)
        ticket = self._channels[channel].answered(m.BASIC_GET_OK)
        message = Delivered(self.epoch, channel, "", _GET_OK_NAMES_AT, method, header, body)
        self._events.append(Replied(channel, ticket, answer, message, answer.message_count))

    def acknowledged(self, channel: int, delivery_tag: int, multiple: bool) -> None:
        self._confirmed(channel, delivery_tag, multiple, nack=False)

    def _confirmed(self, channel: int, delivery_tag: int, multiple: bool, *, nack: bool) -> None:
        publishes = self._channels[channel].publishes
        settled = [] if publishes is None else publishes.settle(delivery_tag, multiple)
        self._events.append(Confirmed(channel, delivery_tag, multiple, nack, settled))

    def channel_ended(self, channel: int, fault: ChannelFault | None) -> None:
        error = None
        if fault is not None:
            error = errors.ChannelClosedError(fault.code, fault.reply_text())
        self._drop_channel(channel, error, None)

    def connection_ended(self, fault: ConnectionFault | None) -> None:
        error = None if fault is None else self._explained(fault)
        for channel, state in list(self._channels.items()):
            transaction = None
            if state.transaction is not None and error is not None:
                transaction = state.transaction.error(error)
            self._drop_channel(channel, error, transaction)
        self._ended = True
        self._events.append(ConnectionClosed(error))

    def _drop_channel(
        self, number: int, error: errors.ReplyError | None, transaction: errors.ReplyError | None
    ) -> None:
        state = self._channels.pop(number)
        in_doubt = [] if state.publishes is None else state.publishes.in_doubt()
        self._events.append(ChannelClosed(number, error, in_doubt, transaction))

    def _explained(self, fault: ConnectionFault) -> errors.ConnectionClosedError:
        refused = fault.from_peer and fault.code in {ACCESS_REFUSED, NOT_ALLOWED}
        if refused and not self._opened:
            return errors.LoginRefused(fault.code, fault.reply_text())
        return errors.ConnectionClosedError(fault.code, fault.reply_text())


def _works(state: Channel) -> None:
    """Something was published or settled."""
    if state.transaction is not None:
        state.transaction.has_work = True
