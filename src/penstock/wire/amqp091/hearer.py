"""The receiving half of a connection, frame by frame: the general path.

One whole frame comes in; it is a heartbeat, a method on channel 0, a method on a channel, or part
of a content that is assembled here. `connection.Connection` finds the frames in the octets and
takes a shorter path where it can; it is the only user of this class.

Invariants
- Faults and `Malformed`, whether raised here or by the listener, end in `_fail` and nowhere else.
- A closing connection handles only close and close-ok, and so does a closing channel.
- A server that has answered a close goes on reading and discarding until the client closes the
  socket: what the client had sent before it read the answer must not cause a reset.
"""

from typing import Final

from penstock.formats.amqp091_frames import (
    BODY_FRAME,
    CONTENT_HEADER_SIZE_MIN,
    HEADER_FRAME,
    HEARTBEAT_FRAME,
    METHOD_FRAME,
    encode_frame,
)
from penstock.formats.octets import Malformed, read_u16, read_u32, read_u64
from penstock.wire.amqp091.channel import Channel
from penstock.wire.amqp091.errors import ChannelFault, ConnectionFault, Fault
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp091.listener import ConnectionListener
from penstock.wire.amqp091.methods_generated import (
    BASIC_ACK,
    CHANNEL_CLOSE,
    CHANNEL_CLOSE_OK,
    CHANNEL_OPEN,
    CHANNEL_OPEN_OK,
    CONNECTION_CLOSE,
    CONNECTION_CLOSE_OK,
    NAMES,
    SENT_BY_CLIENT,
    SENT_BY_PEER,
    SENT_BY_SERVER,
    WITH_CONTENT,
    BasicAck,
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionTune,
    UnknownMethod,
    decode_method,
)
from penstock.wire.amqp091.reply_codes_generated import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    FRAME_ERROR,
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    REPLY_SUCCESS,
    RESOURCE_ERROR,
    SYNTAX_ERROR,
    UNEXPECTED_FRAME,
)
from penstock.wire.amqp091.speaker import UNSET, Speaker
from penstock.wire.amqp091.states import (
    RECEIVED,
    ChannelState,
    ConnectionState,
    Role,
    expected_in,
)
from penstock.wire.outgoing import Outgoing

FRAME_NAMES: Final = {
    METHOD_FRAME: "method",
    HEADER_FRAME: "content header",
    BODY_FRAME: "content body",
    HEARTBEAT_FRAME: "heartbeat",
}

_CLASS_CONNECTION: Final = 10


class Hearer(Speaker):
    """Handles the whole frames of one connection."""

    def __init__(
        self, role: Role, listener: ConnectionListener, outgoing: Outgoing, limits: Limits
    ) -> None:
        super().__init__(role, listener, outgoing, limits)
        self._peer_says: frozenset[int] = SENT_BY_CLIENT if role is Role.SERVER else SENT_BY_SERVER
        # Set when the start of the next frame is unknown.
        self._deaf: bool = False
        # Bytes of partly received contents, all channels together.
        self._assembling: int = 0
        # How many assembled contents were completed or given up.
        self.released_count: int = 0

    def accept_peer(self) -> None:
        """The other end is a server of this cluster: it may send the class cluster."""
        self._peer_says |= SENT_BY_PEER

    def _frame(self, kind: int, number: int, payload: bytes) -> None:
        """The general path, for one whole frame."""
        identity = 0
        try:
            if kind == METHOD_FRAME:
                identity = read_u32(payload, 0)
                if number == 0:
                    self._connection_method(identity, payload)
                else:
                    self._channel_method(number, identity, payload)
            elif kind == HEARTBEAT_FRAME:
                if number != 0 or payload:
                    raise ConnectionFault(
                        FRAME_ERROR, f"heartbeat with {len(payload)} octets on channel {number}"
                    )
            elif kind in FRAME_NAMES:
                channel = self._channels.get(number)
                if channel is not None and channel.method:
                    identity = read_u32(channel.method, 0)
                self._content_frame(kind, number, payload)
            else:
                self._framing_fault(f"unknown frame type {kind}")
        except (Fault, Malformed) as error:
            self._fail(number, error, identity)

    def _connection_method(self, identity: int, payload: bytes) -> None:
        if identity == CONNECTION_CLOSE:
            self._peer_closes(ConnectionClose.decode(payload))
            return
        if self.state is ConnectionState.CLOSING:
            if identity == CONNECTION_CLOSE_OK:
                self.listener.method_received(0, ConnectionCloseOk.decode(payload))
                self._end(None)
            return
        self._check_known(identity)
        if identity >> 16 != _CLASS_CONNECTION:
            text = f"{NAMES[identity]} on channel 0, which is for connection methods"
            raise ConnectionFault(COMMAND_INVALID, text)
        after = RECEIVED.get((self.state, identity))
        if after is None or identity not in self._peer_says:
            text = f"{NAMES[identity]} received, {expected_in(self.state)} expected"
            raise ConnectionFault(COMMAND_INVALID, text)
        method = decode_method(payload)
        if isinstance(method, ConnectionTune):
            self._note_offer(method)
        self.state = after
        self.listener.method_received(0, method)

    def _check_known(self, identity: int) -> None:
        if identity not in NAMES:
            text = f"class {identity >> 16} has no method {identity & 0xFFFF}"
            raise ConnectionFault(NOT_IMPLEMENTED, text)

    def _peer_closes(self, close: ConnectionClose) -> None:
        fault: ConnectionFault | None = None
        if close.reply_code != REPLY_SUCCESS:
            fault = ConnectionFault(
                close.reply_code, close.reply_text, close.class_id, close.method_id
            )
            fault.from_peer = True
        if self.state is not ConnectionState.CLOSING:
            self._forget_channels()
            self.state = ConnectionState.CLOSING
            self._phase_began = UNSET
            self.listener.method_received(0, close)
            self._tell(fault)
        self.outgoing.push(encode_frame(METHOD_FRAME, 0, ConnectionCloseOk().encode()))
        if self.role is Role.CLIENT:
            self._end(None)

    def _channel_method(self, number: int, identity: int, payload: bytes) -> None:
        if self.state is ConnectionState.CLOSING:
            return
        channel = self._channels.get(number)
        if channel is not None and channel.state is ChannelState.CLOSING:
            self._method_while_closing(channel, identity)
            return
        self._check_channel_number(number)
        self._check_known(identity)
        if identity not in self._peer_says or identity >> 16 == _CLASS_CONNECTION:
            text = f"a {self.role.value} cannot receive {NAMES[identity]} on channel {number}"
            raise ConnectionFault(COMMAND_INVALID, text)
        if channel is None:
            if identity != CHANNEL_OPEN:
                text = f"expected 'channel.open' on channel {number}, got {NAMES[identity]}"
                raise ConnectionFault(CHANNEL_ERROR, text)
            self._check_channel_count()
            method = decode_method(payload)
            self._channels[number] = Channel(number, ChannelState.OPEN)
            self.listener.method_received(number, method)
            return
        if channel.expected_frame != METHOD_FRAME:
            raise self._unexpected(channel, METHOD_FRAME)
        self._method_on_channel(channel, identity, payload)

    def _check_channel_number(self, number: int) -> None:
        if self.state is not ConnectionState.OPEN:
            text = f"frame on channel {number}, {expected_in(self.state)} expected"
            raise ConnectionFault(COMMAND_INVALID, text)

    def _check_channel_count(self) -> None:
        """As RabbitMQ reads channel-max: this many may be open, whatever their numbers."""
        count = len(self._channels)
        if count >= self.channel_max:
            text = (
                f"number of channels opened ({count}) has reached the negotiated channel_max "
                f"({self.channel_max})"
            )
            raise ConnectionFault(NOT_ALLOWED, text)

    def _method_while_closing(self, channel: Channel, identity: int) -> None:
        number = channel.number
        if identity == CHANNEL_CLOSE_OK:
            del self._channels[number]
            self.listener.method_received(number, ChannelCloseOk())
            if channel.tell_when_closed:
                self.listener.channel_ended(number, None)
        elif identity == CHANNEL_CLOSE:
            # Both sides closed at once; the peer has still to send its close-ok.
            self._answer_close(number)

    def _answer_close(self, number: int) -> None:
        self.outgoing.push(encode_frame(METHOD_FRAME, number, ChannelCloseOk().encode()))

    def _method_on_channel(self, channel: Channel, identity: int, payload: bytes) -> None:
        number = channel.number
        if identity == CHANNEL_CLOSE:
            self._peer_closes_channel(channel, ChannelClose.decode(payload))
            return
        if channel.state is ChannelState.OPENING:
            if identity != CHANNEL_OPEN_OK:
                text = f"expected 'channel.open-ok' on channel {number}, got {NAMES[identity]}"
                raise ConnectionFault(CHANNEL_ERROR, text)
            method = decode_method(payload)
            channel.opened()
            self.listener.method_received(number, method)
            return
        if identity in {CHANNEL_OPEN, CHANNEL_OPEN_OK}:
            raise ConnectionFault(CHANNEL_ERROR, f"second '{NAMES[identity]}' on channel {number}")
        if identity == CHANNEL_CLOSE_OK:
            text = f"channel.close-ok without channel.close on channel {number}"
            raise ConnectionFault(COMMAND_INVALID, text)
        if identity == BASIC_ACK:
            ack = BasicAck.decode(payload)
            self.listener.acknowledged(number, ack.delivery_tag, ack.multiple)
        elif identity in WITH_CONTENT:
            self._hold(channel, len(payload))
            channel.content_started(payload)
        else:
            self.listener.method_received(number, decode_method(payload))

    def _peer_closes_channel(self, channel: Channel, close: ChannelClose) -> None:
        number = channel.number
        fault: ChannelFault | None = None
        if close.reply_code != REPLY_SUCCESS:
            fault = ChannelFault(
                close.reply_code, close.reply_text, close.class_id, close.method_id
            )
            fault.from_peer = True
        self._release(channel)
        channel.closing()
        try:
            self.listener.method_received(number, close)
            self.listener.channel_ended(number, fault)
        finally:
            # Unless the listener closed the whole connection meanwhile.
            if self._channels.pop(number, None) is not None:
                self._answer_close(number)

    def _content_frame(self, kind: int, number: int, payload: bytes) -> None:
        if self.state is ConnectionState.CLOSING:
            return
        if number == 0:
            text = f"{FRAME_NAMES[kind]} frame on channel 0, which is for connection methods"
            raise ConnectionFault(UNEXPECTED_FRAME, text)
        self._check_channel_number(number)
        channel = self._channels.get(number)
        if channel is None:
            text = f"expected 'channel.open' on channel {number}, got a {FRAME_NAMES[kind]} frame"
            raise ConnectionFault(CHANNEL_ERROR, text)
        if channel.state is ChannelState.CLOSING:
            return
        if channel.expected_frame != kind:
            raise self._unexpected(channel, kind)
        if kind == HEADER_FRAME:
            self._content_header(channel, payload)
        else:
            self._content_body(channel, payload)

    def _unexpected(self, channel: Channel, kind: int) -> ConnectionFault:
        expected = FRAME_NAMES[channel.expected_frame]
        text = f"expected {expected} frame on channel {channel.number}, got {FRAME_NAMES[kind]}"
        return ConnectionFault(UNEXPECTED_FRAME, text)

    def _content_header(self, channel: Channel, header: bytes) -> None:
        if len(header) < CONTENT_HEADER_SIZE_MIN:
            raise Malformed(f"content header of {len(header)} octets")
        class_id = read_u16(header, 0)
        wanted = read_u16(channel.method, 0)
        if class_id != wanted:
            text = f"expected content header for class {wanted}, got one for class {class_id}"
            raise ConnectionFault(UNEXPECTED_FRAME, text)
        body_size = read_u64(header, 4)
        if body_size > self.limits.message_bytes_max:
            largest = self.limits.message_bytes_max
            text = f"message size {body_size} is larger than configured max size {largest}"
            raise ChannelFault(PRECONDITION_FAILED, text)
        self._hold(channel, len(header))
        channel.header_arrived(header, body_size)
        if body_size == 0:
            self._deliver_content(channel, b"")

    def _content_body(self, channel: Channel, fragment: bytes) -> None:
        received = channel.body_received + len(fragment)
        if received > channel.body_size:
            text = f"content body of {received} octets where {channel.body_size} were announced"
            raise ConnectionFault(FRAME_ERROR, text)
        if received == channel.body_size and not channel.body:
            self._deliver_content(channel, fragment)
            return
        self._hold(channel, len(fragment))
        channel.body += fragment
        channel.body_received = received
        if received == channel.body_size:
            self._deliver_content(channel, bytes(channel.body))

    def _deliver_content(self, channel: Channel, body: bytes) -> None:
        method = channel.method
        header = channel.header
        self._release(channel)
        channel.content_done()
        self.listener.content_received(channel.number, method, header, body)

    def _hold(self, channel: Channel, size: int) -> None:
        if self._assembling + size > self.limits.assembly_bytes_max:
            text = f"more than {self.limits.assembly_bytes_max} octets of unfinished contents"
            raise ConnectionFault(RESOURCE_ERROR, text)
        self._assembling += size
        channel.held += size

    def _release(self, channel: Channel) -> None:
        if channel.held:
            self._assembling -= channel.held
            channel.held = 0
            self.released_count += 1

    def _forget_channels(self) -> None:
        super()._forget_channels()
        self._assembling = 0

    def _framing_fault(self, text: str) -> None:
        self._deaf = True
        self._forget_input()
        self._fail(0, ConnectionFault(FRAME_ERROR, text), 0)

    def _fail(self, number: int, error: Exception, identity: int) -> None:
        """Answer an exception that was raised while `identity` on channel `number` was handled."""
        fault = _as_fault(error)
        if fault.class_id == 0 and fault.method_id == 0:
            fault.class_id = identity >> 16
            fault.method_id = identity & 0xFFFF
        if isinstance(fault, ChannelFault) and number != 0:
            self.close_channel(number, fault)
        elif isinstance(fault, ConnectionFault):
            self.close(fault)
        else:
            self.close(ConnectionFault(fault.code, fault.text, fault.class_id, fault.method_id))


def _as_fault(error: Exception) -> Fault:
    if isinstance(error, Fault):
        return error
    if isinstance(error, UnknownMethod):
        return ConnectionFault(NOT_IMPLEMENTED, str(error))
    return ConnectionFault(SYNTAX_ERROR, str(error))
