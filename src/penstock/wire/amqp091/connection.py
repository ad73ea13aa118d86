"""The AMQP 0-9-1 connection as a machine: bytes in, calls to a listener and bytes out.

The same class plays both roles. It checks everything that can be checked without knowing what a
method means: the protocol header, frames, the order of the handshake, which channels are open, how
contents are assembled. The listener gives methods their meaning.

Invariants
- `receive` takes any split of the byte stream and never raises for a mistake of the peer: it
  answers with channel.close or connection.close and tells the listener once.
- No more than one incomplete frame is kept between reads, unless the listener has said `must_stop`;
  contents in the making are bounded by `Limits`.
- After connection.close is sent or answered everything but close and close-ok is discarded; after a
  fault in the framing itself everything is, because the start of the next frame is unknown.
"""

from typing import Final

from penstock.formats.amqp091_frames import (
    BODY_FRAME,
    CONTENT_HEADER_SIZE_MIN,
    FRAME_END,
    FRAME_HEAD_SIZE,
    FRAME_OVERHEAD,
    HEADER_FRAME,
    METHOD_FRAME,
    PROTOCOL_HEADER,
)
from penstock.formats.octets import Malformed, read_u32, read_u64
from penstock.wire.amqp091.channel import Channel
from penstock.wire.amqp091.errors import ConnectionFault, Fault
from penstock.wire.amqp091.hearer import FRAME_NAMES, Hearer
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp091.listener import ConnectionListener
from penstock.wire.amqp091.long_frame import LONG_FRAME_SIZE, LongFrame
from penstock.wire.amqp091.methods_generated import BASIC_ACK
from penstock.wire.amqp091.reply_codes_generated import FRAME_ERROR
from penstock.wire.amqp091.states import ChannelState, ConnectionState, Role
from penstock.wire.outgoing import Outgoing
from penstock.wire.sniff import HEADER_SIZE, Announced, sniff

_CLASS_BASIC: Final = 60
_METHOD_PUBLISH: Final = 40
_METHOD_DELIVER: Final = 60
_METHOD_ACK: Final = 80
_ACK_PAYLOAD_SIZE: Final = 13


class Connection(Hearer):
    """Held by the owner of the transport (server or client), which feeds it bytes and time."""

    def __init__(
        self, role: Role, listener: ConnectionListener, outgoing: Outgoing, limits: Limits
    ) -> None:
        super().__init__(role, listener, outgoing, limits)
        self._no_channel: Channel = Channel(0, ChannelState.CLOSING)
        # The content method of the fast path; returns and get-ok take the general one.
        self._content_method: int = _METHOD_PUBLISH if role is Role.SERVER else _METHOD_DELIVER
        # An incomplete frame, and how many octets must be there before it is worth another look.
        self._pending: bytearray = bytearray()
        self._wanted: int = 0
        # An incomplete frame that is long; nothing else is kept then.
        self._long: LongFrame | None = None

        # The last whole content: most contents repeat it, and a comparison of octets then replaces
        # looking at every field.
        self._channel: Channel = self._no_channel
        self._method: bytes = b""
        self._header: bytes = b""
        # Its octets from the end of the method frame up to the body, how many they are from the
        # header frame on, and how many follow them.
        self._head: bytes = b""
        self._head_size: int = 0
        self._rest_size: int = 0
        # The last octet of its body's size, which is looked at before all others.
        self._size_octet: int = -1
        # The same with the method frame before it, kept once a content was repeated.
        self._repeats: bool = False
        self._prelude: bytes = b""
        self._prelude_size: int = 0

    def receive(self, data: bytes, now: int) -> None:
        self.last_received = now
        if self._deaf or self.state is ConnectionState.ENDED:
            return
        if self.must_stop:
            self._stop_long()
            self._pending += data
            return
        if self._long is not None:
            self._go_on_with(self._long, data)
            return
        if self._pending:
            if len(self._pending) + len(data) < self._wanted:
                self._pending += data
                return
            data = b"".join([self._pending, data])
            self._pending = bytearray()
        position = 0
        if (
            self.state is ConnectionState.AWAITING_HEADER
            or self.state is ConnectionState.AWAITING_START
        ):
            position = self._begin(data)
            if position < 0:
                return
        self._scan(data, position)

    def buffered(self) -> int:
        """Bytes kept between reads: the incomplete frame and the partly received contents."""
        long = 0 if self._long is None else self._long.received()
        return len(self._pending) + long + self._assembling

    def assembling(self) -> int:
        """Bytes of the partly received contents alone."""
        return self._assembling

    def content_head(self, header: bytes) -> bytes:
        """For the content that is being passed to the listener: the octets between its method and
        its body, both frame-ends included, so that a delivery on a channel of the same number can
        pass them on as they are. Empty when they did not come in one piece.
        """
        return self._head if header is self._header and self._rest_size else b""

    def refuse(self, number: int, error: Fault, identity: int) -> None:
        """Answer a method that was received earlier and cannot be done."""
        self._fail(number, error, identity)

    def _scan(self, data: bytes, position: int) -> None:
        """The hot loop: all whole frames from `position` on. The rest is kept."""
        end = len(data)
        current = self._no_channel
        content_method = self._content_method
        payload_max = self.frame_max  # as RabbitMQ's: some clients forget the octets around it
        while end - position >= FRAME_OVERHEAD and not self.must_stop:
            body = position + self._prelude_size
            after = body + self._rest_size
            if (
                self._repeats
                and after <= end
                and self._channel.expects_method
                and data[position:body] == self._prelude
                and data[after - 1] == FRAME_END
            ):
                self._repeated_content(data[body : after - 1])
                position = after
                continue
            size = (
                data[position + 3] << 24
                | data[position + 4] << 16
                | data[position + 5] << 8
                | data[position + 6]
            )
            after = position + size + FRAME_OVERHEAD
            if size > payload_max or after > end:
                break
            if data[after - 1] != FRAME_END:
                self._framing_fault(f"frame-end octet expected, got {data[after - 1]}")
                return
            kind = data[position]
            number = data[position + 1] << 8 | data[position + 2]
            if number != current.number:
                current = self._channels.get(number, self._no_channel)
            if (
                current.expects_method
                and kind == METHOD_FRAME
                and size > 4
                and data[position + 8] == _CLASS_BASIC
                and data[position + 7] | data[position + 9] == 0
            ):
                method = data[position + 10]
                if method == content_method:
                    whole = self._whole_content(data, position, after, current)
                    if whole:
                        position = whole
                        continue
                elif method == _METHOD_ACK and size == _ACK_PAYLOAD_SIZE:
                    self._acknowledged(data, position, number)
                    position = after
                    continue
            self._frame(kind, number, data[position + FRAME_HEAD_SIZE : after - 1])
            if self._deaf or self.state is ConnectionState.ENDED:
                return
            position = after
            payload_max = self.frame_max
            current = self._channels.get(number, self._no_channel)
        if position < end:
            self._keep(data, position)

    def _repeated_content(self, body: bytes) -> None:
        """The fastest path: a content that repeats the last one in everything but its body's octets."""
        try:
            self.listener.content_received(self._channel.number, self._method, self._header, body)
        except (Fault, Malformed) as error:
            self._fail(self._channel.number, error, read_u32(self._method, 0))

    def _whole_content(self, data: bytes, position: int, header: int, channel: Channel) -> int:
        """The fast path: pass on a content of which all frames lie in `data`, the body in one.

        Returns where the next frame begins, or 0 when the general path must look at it. `position`
        is the method frame, `header` where its header frame should be.
        """
        repeats = self._is_head_repeated(data, header, channel)
        if not repeats and not self._read_head(data, header, channel):
            return 0
        body = header + self._head_size
        after = body + self._rest_size
        method = data[position + FRAME_HEAD_SIZE : header - 1]
        self._repeats = repeats and self._rest_size > 0 and method == self._method
        if self._repeats:
            self._prelude = data[position:body]
            self._prelude_size = body - position
            # The first of them is the object that the listener may have cached.
            method = self._method
        self._method = method
        try:
            # mypyc does not take a slice that ends before it starts for an empty one.
            octets = data[body : after - 1] if self._rest_size else b""
            self.listener.content_received(channel.number, method, self._header, octets)
        except (Fault, Malformed) as error:
            self._fail(channel.number, error, read_u32(method, 0))
        return after

    def _is_head_repeated(self, data: bytes, header: int, channel: Channel) -> bool:
        """Whether the content differs from the last one in method and body's octets at most."""
        body = header + self._head_size
        after = body + self._rest_size
        return (
            after <= len(data)
            and channel is self._channel
            and data[header + 18] == self._size_octet
            and data[header - 1 : body] == self._head
            and data[after - 1] == FRAME_END
        )

    def _read_head(self, data: bytes, header: int, channel: Channel) -> bool:
        """Check and keep all that lies between method frame and body. False when it is incomplete
        or invalid.
        """
        end = len(data)
        if (
            end - header < CONTENT_HEADER_SIZE_MIN + FRAME_OVERHEAD
            or data[header] != HEADER_FRAME
            or data[header + 1] << 8 | data[header + 2] != channel.number
            or data[header + 3] | data[header + 4] != 0
        ):
            return False
        header_size = data[header + 5] << 8 | data[header + 6]
        body = header + header_size + FRAME_OVERHEAD
        if (
            header_size < CONTENT_HEADER_SIZE_MIN
            or header_size > self.frame_max
            or body > end
            or data[body - 1] != FRAME_END
            or data[header + 8] != _CLASS_BASIC
            or data[header + 7] != 0
            or data[header + 11] | data[header + 12] | data[header + 13] | data[header + 14] != 0
        ):
            return False
        body_size = (
            data[header + 15] << 24
            | data[header + 16] << 16
            | data[header + 17] << 8
            | data[header + 18]
        )
        rest_size = 0
        described = data[header + FRAME_HEAD_SIZE : body - 1]
        if body_size:
            after = body + body_size + FRAME_OVERHEAD
            if (
                after > end
                or body_size > self.frame_max
                or body_size > self.limits.message_bytes_max
                or data[after - 1] != FRAME_END
                or not _is_body_of(data, body, header)
            ):
                return False
            body += FRAME_HEAD_SIZE
            rest_size = body_size + 1
        self._channel = channel
        self._header = described
        self._head = data[header - 1 : body]
        self._size_octet = data[header + 18]
        self._head_size = body - header
        self._rest_size = rest_size
        return True

    def _acknowledged(self, data: bytes, position: int, number: int) -> None:
        try:
            self.listener.acknowledged(
                number, read_u64(data, position + 11), data[position + 19] & 1 != 0
            )
        except (Fault, Malformed) as error:
            self._fail(number, error, BASIC_ACK)

    def _begin(self, data: bytes) -> int:
        """Handle the protocol header: returns where the first frame begins, or -1 when it has not
        arrived.
        """
        announced = sniff(data)
        if self.role is Role.CLIENT:
            if data[:1] != PROTOCOL_HEADER[:1]:
                return 0
            if announced is Announced.UNDECIDED:
                self._keep_octets(data, len(data) + 1)
                return -1
            text = f"the server does not support AMQP 0-9-1, it answered {data[:HEADER_SIZE]!r}"
            self._end(ConnectionFault(FRAME_ERROR, text))
            return -1
        if announced is Announced.UNDECIDED:
            self._keep_octets(data, len(data) + 1)
            return -1
        if announced is not Announced.AMQP_0_9_1:
            self.outgoing.push(PROTOCOL_HEADER)
            text = f"protocol header expected, got {announced.value}: {data[:HEADER_SIZE]!r}"
            self._end(ConnectionFault(FRAME_ERROR, text))
            return -1
        self.state = ConnectionState.HEADER_AGREED
        try:
            self.listener.protocol_agreed()
        except (Fault, Malformed) as error:
            self._fail(0, error, 0)
        return HEADER_SIZE

    def _keep(self, data: bytes, position: int) -> None:
        """Keep an incomplete frame, after a check of its size; or all input that was not handled
        because the listener said to stop.
        """
        if self.must_stop:
            self._keep_octets(memoryview(data)[position:], 0)
            return
        kind = data[position]
        if kind not in FRAME_NAMES:
            self._framing_fault(f"unknown frame type {kind}")
            return
        wanted = FRAME_HEAD_SIZE
        if len(data) - position >= FRAME_HEAD_SIZE:
            size = read_u32(data, position + 3)
            if size > self.frame_max:
                self._framing_fault(f"frame of {size} octets is larger than {self.frame_max}")
                return
            if size >= LONG_FRAME_SIZE:
                self._long = LongFrame(data, position, size)
                return
            wanted = size + FRAME_OVERHEAD
        self._keep_octets(memoryview(data)[position:], wanted)

    def _keep_octets(self, data: bytes | memoryview, wanted: int) -> None:
        self._pending = bytearray(data)
        self._wanted = wanted

    def _forget_input(self) -> None:
        self._pending = bytearray()
        self._long = None

    def _go_on_with(self, long: LongFrame, data: bytes) -> None:
        end = long.missing
        if len(data) < end:
            long.add(data)
            return
        if data[end - 1] != FRAME_END:
            self._framing_fault(f"frame-end octet expected, got {data[end - 1]}")
            return
        payload = long.payload(data)
        self._long = None
        self._frame(long.head[0], long.head[1] << 8 | long.head[2], payload)
        if not self._deaf and self.state is not ConnectionState.ENDED:
            self._scan(data, end)

    def _stop_long(self) -> None:
        """The listener has said to stop: the frame is kept like everything that comes meanwhile."""
        if self._long is not None:
            self._keep_octets(self._long.octets(), 0)
            self._long = None


def _is_body_of(data: bytes, body: int, header: int) -> bool:
    """Whether a body frame of the header's channel and body size has its head at `body`."""
    return (
        data[body] == BODY_FRAME
        and data[body + 1] == data[header + 1]
        and data[body + 2] == data[header + 2]
        and data[body + 3] == data[header + 15]
        and data[body + 4] == data[header + 16]
        and data[body + 5] == data[header + 17]
        and data[body + 6] == data[header + 18]
    )
