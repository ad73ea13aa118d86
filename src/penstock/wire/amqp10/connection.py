"""The AMQP 1.0 connection as a machine: bytes in, calls to listeners and bytes out.

The same class plays both roles. It checks everything that can be checked without knowing what a
message means: protocol headers, frames, the order of the handshake, channels, handles, windows and
credit. The listeners give performatives their meaning.

Invariants
- `receive` takes any split of the byte stream and never raises for a mistake of the peer: it
  answers with detach, end or close and tells the listener once.
- No more than one incomplete frame is kept between reads, or `Limits.ahead_bytes_max` while our
  listener has not answered yet, or the rest of a read after the listener has set `must_stop`;
  partly received deliveries are bounded by `Limits`.
- After close is sent everything but open and close is discarded; after a fault in the framing
  itself everything is, because the start of the next frame is unknown.
"""

from itertools import product
from typing import Final

from penstock.formats.octets import Malformed, read_u32
from penstock.wire.amqp10.conditions_generated import (
    CONNECTION_FRAMING_ERROR,
    RESOURCE_LIMIT_EXCEEDED,
)
from penstock.wire.amqp10.errors import ConnectionFault, Fault
from penstock.wire.amqp10.framing import FRAME_HEAD_SIZE, PROTOCOL_HEADER, SASL_HEADER
from penstock.wire.amqp10.hearer import Hearer
from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.listener import ConnectionListener
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED, Session
from penstock.wire.amqp10.states import (
    CONNECTION_RECEIVED,
    PROTOCOL,
    SASL_HELD,
    ConnectionState,
    Role,
    SaslState,
)
from penstock.wire.outgoing import Outgoing
from penstock.wire.sniff import HEADER_SIZE, Announced, sniff

_TRANSFER: Final = 0x14
_DISPOSITION: Final = 0x15
# A transfer's fields up to the length of its tag reach no further into the frame.
_TRANSFER_SIZE_MIN: Final = 32
# The shortest disposition that accepts.
_DISPOSITION_SIZE_MIN: Final = 22
# The longest that may follow a tag: message-format, settled and the fields of `_PLAIN_TAILS`.
_AFTER_TAG_MAX: Final = 12
# message-format 0 or null.
_ZERO_FORMATS: Final = b"\x43\x40"
# settled, accepted and nothing behind or not batchable: how nearly every disposition ends.
_ACCEPTED_ENDS: Final = frozenset(
    {b"\x41\x00\x53\x24\x45", b"\x41\x00\x53\x24\x45\x42", b"\x41\x00\x53\x24\x45\x41"}
)


def _plain_tails() -> frozenset[bytes]:
    """All encodings of the fields after settled in which each has its default."""
    # more, rcv-settle-mode, state, resume, aborted, batchable
    choices = [b"\x40\x42", b"\x40", b"\x40", b"\x40\x42", b"\x40\x42", b"\x40\x41\x42"]
    return frozenset(
        bytes(tail) for size in range(len(choices) + 1) for tail in product(*choices[:size])
    )


_PLAIN_TAILS: Final = _plain_tails()


class Connection(Hearer):
    """Held by the owner of the transport (server or client), which feeds it bytes and time."""

    def __init__(
        self,
        role: Role,
        listener: ConnectionListener,
        outgoing: Outgoing,
        limits: Limits,
        container_id: str,
        sasl_required: bool = True,
    ) -> None:
        super().__init__(role, listener, outgoing, limits, container_id, sasl_required)
        # An incomplete frame, and how many octets must be there before it is worth another look.
        self._pending: bytearray = bytearray()
        self._wanted: int = 0
        self._is_scanning: bool = False

    def receive(self, data: bytes, now: int) -> None:
        self.last_received = now
        if self._deaf or self.state is ConnectionState.ENDED:
            return
        if self.must_stop:
            self._pending += data
            return
        if self._is_held():
            self._keep(bytes(self._pending) + data, 0, 0)
            return
        if self._pending:
            if len(self._pending) + len(data) < self._wanted:
                self._pending += data
                return
            data = bytes(self._pending) + data
            self._pending = bytearray()
        self._scan(data)

    def buffered(self) -> int:
        """Bytes kept between reads: the incomplete frame and the partly received deliveries."""
        return len(self._pending) + self.assembler.octets

    def _is_held(self) -> bool:
        """Whether input waits for an answer of our listener on which it depends."""
        if self.sasl is SaslState.NONE:
            return self.state is ConnectionState.OPEN_RECEIVED
        return self.sasl in SASL_HELD

    def _resume(self) -> None:
        if self._pending and not self._is_scanning and not self.must_stop and not self._is_held():
            data = bytes(self._pending)
            self._pending = bytearray()
            self._scan(data)

    def _scan(self, data: bytes) -> None:
        """Headers and frames in turn, until everything is handled or kept."""
        self._is_scanning = True
        position = 0
        try:
            while position >= 0:
                if self._awaits_header:
                    position = self._header(data, position)
                else:
                    position = self._frames(data, position)
        finally:
            self._is_scanning = False

    def _header(self, data: bytes, position: int) -> int:
        """Returns where the first frame begins, or -1 when there is no more to do."""
        if position >= len(data):
            return -1
        announced = sniff(data[position : position + HEADER_SIZE])
        if announced is Announced.UNDECIDED:
            self._keep(data, position, len(data) - position + 1)
            return -1
        wants_sasl = self.sasl is not SaslState.NONE
        if announced is Announced.AMQP_1_0_SASL and (wants_sasl or self._may_begin_sasl()):
            self._awaits_header = False
            if not wants_sasl:
                self.outgoing.push(SASL_HEADER)
                self.sasl = SaslState.OFFERING
                self._tell_sasl_began()
        elif announced is Announced.AMQP_1_0 and not wants_sasl and not self._must_begin_sasl():
            self._awaits_header = False
            self.state = CONNECTION_RECEIVED[self.state, PROTOCOL]
            if self.state is ConnectionState.HEADER_RECEIVED:
                self._say_header()
        else:
            if self.role is Role.SERVER:
                # Who asks for TLS where there is none is told to log in, which is the other layer.
                wants_sasl = self._must_begin_sasl() or announced is Announced.AMQP_1_0_TLS
                self.outgoing.push(SASL_HEADER if wants_sasl else PROTOCOL_HEADER)
            got = data[position : position + HEADER_SIZE]
            text = f"protocol header expected, got {announced.value}: {got!r}"
            self._end(ConnectionFault(CONNECTION_FRAMING_ERROR, text))
            return -1
        return -1 if self.state is ConnectionState.ENDED else position + HEADER_SIZE

    def _may_begin_sasl(self) -> bool:
        return (
            self.role is Role.SERVER
            and not self._is_authenticated
            and self.state is ConnectionState.START
        )

    def _must_begin_sasl(self) -> bool:
        return self.role is Role.SERVER and self.sasl_required and not self._is_authenticated

    def _tell_sasl_began(self) -> None:
        try:
            self.listener.sasl_began()
        except (Fault, Malformed) as error:
            self._fail(None, None, error)

    def _frames(self, data: bytes, position: int) -> int:
        """The hot loop: all whole frames from `position` on; the rest is kept.

        Returns where a protocol header must be, or -1 when there is no more to do.
        """
        end = len(data)
        number = -1
        session: Session | None = None
        while end - position >= FRAME_HEAD_SIZE:
            if self.must_stop:
                self._pending = bytearray(data[position:])
                self._wanted = 0
                return -1
            size = (
                data[position] << 24
                | data[position + 1] << 16
                | data[position + 2] << 8
                | data[position + 3]
            )
            if size > self.incoming_frame_max or size < FRAME_HEAD_SIZE:
                self._wrong_size(size)
                return -1
            after = position + size
            if after > end:
                break
            if (
                size >= _DISPOSITION_SIZE_MIN
                and data[position + 4] == 2
                and data[position + 9] == 0x53
                and data[position + 11] == 0xC0
                and data[position + 5] | data[position + 8] == 0
                and self.state is ConnectionState.OPENED
            ):
                channel = data[position + 6] << 8 | data[position + 7]
                if channel != number or session is None:
                    number = channel
                    session = self._incoming_channels.get(channel)
                if session is not None and session.is_open:
                    code = data[position + 10]
                    if code == _TRANSFER and self._transfer(data, position, after, session):
                        position = after
                        continue
                    if code == _DISPOSITION and self._accepted(data, position, after, session):
                        position = after
                        continue
            self._frame(data, position, after)
            position = after
            # It may have ended the session.
            number = -1
            if self._deaf or self.state is ConnectionState.ENDED:
                return -1
            if self._awaits_header:
                return position
            if self._is_held():
                break
        if position < end:
            self._keep_frame(data, position)
        return -1

    def _transfer(self, data: bytes, position: int, after: int, session: Session) -> bool:
        """The fast path: pass on a plain delivery of one frame.

        False when the general path must look at it, with nothing changed.
        """
        if after - position < _TRANSFER_SIZE_MIN:
            return False
        stop = position + 13 + data[position + 12]
        count = data[position + 13]
        at = position + 14
        code = data[at]
        if code == 0x52:
            handle = data[at + 1]
            at += 2
        elif code == 0x43:
            handle = 0
            at += 1
        else:
            return False
        code = data[at]
        if code == 0x70:
            delivery_id = data[at + 1] << 24 | data[at + 2] << 16 | data[at + 3] << 8 | data[at + 4]
            at += 5
        elif code == 0x52:
            delivery_id = data[at + 1]
            at += 2
        elif code == 0x43:
            delivery_id = 0
            at += 1
        else:
            return False
        tag_at = at + 2
        at = tag_at + data[at + 1]
        if data[tag_at - 2] != 0xA0 or at + _AFTER_TAG_MAX > after or count < 5 or stop > after:
            return False
        tag = data[tag_at:at]
        message_format = 0
        code = data[at]
        if code == 0x52:
            message_format = data[at + 1]
            at += 1
        elif code not in _ZERO_FORMATS:
            return False
        code = data[at + 1]
        if code < 0x40 or code > 0x42:
            return False
        at += 2
        if stop - at != count - 5 or (count > 5 and data[at:stop] not in _PLAIN_TAILS):
            return False
        return self._deliver(
            session, handle, delivery_id, tag, data[stop:after], code == 0x41, message_format
        )

    def _deliver(
        self,
        session: Session,
        handle: int,
        delivery_id: int,
        tag: bytes,
        payload: bytes,
        settled: bool,
        message_format: int,
    ) -> bool:
        link = session.receivers.get(handle)
        if (
            link is None
            or not link.expects_whole
            or link.credit <= 0
            or session.incoming_window <= 0
            or len(payload) > link.own_message_bytes_max
        ):
            return False
        if not settled:
            if delivery_id in link.unsettled:
                return False
            link.unsettled[delivery_id] = tag
        link.credit -= 1
        link.delivery_count = (link.delivery_count + 1) & 0xFFFF_FFFF
        session.next_incoming_id = (session.next_incoming_id + 1) & 0xFFFF_FFFF
        session.remote_outgoing_window -= 1
        session.incoming_window -= 1
        session.untaken += 1
        try:
            link.listener.delivery_received(
                link, delivery_id, tag, payload, settled, message_format, None
            )
        except (Fault, Malformed) as error:
            self._fail(session, link, error)
        return True

    def _accepted(self, data: bytes, position: int, after: int, session: Session) -> bool:
        """The fast path of dispositions: a receiver has accepted and settled."""
        at = position + 14
        if data[at] != 0x41 or position + 13 + data[position + 12] != after:
            return False
        code = data[at + 1]
        if code == 0x70:
            first = read_u32(data, at + 2)
            at += 6
        elif code == 0x52:
            first = data[at + 2]
            at += 3
        elif code == 0x43:
            first = 0
            at += 2
        else:
            return False
        code = data[at]
        last = first
        if code == 0x70 and at + 5 < after:
            last = read_u32(data, at + 1)
            at += 5
        elif code == 0x52:
            last = data[at + 1]
            at += 2
        elif code == 0x43:
            last = 0
            at += 1
        elif code == 0x40:
            at += 1
        else:
            return False
        if at >= after or data[at:after] not in _ACCEPTED_ENDS:
            return False
        if data[position + 13] != (5 if after - at == 5 else 6):
            return False
        if (last - first) & 0x8000_0000:
            return False
        self._update_sent(session, first, last, OUTCOME_ACCEPTED, True)
        return True

    def _wrong_size(self, size: int) -> None:
        if size < FRAME_HEAD_SIZE:
            self._framing_fault(f"frame of {size} octets")
        else:
            text = f"frame of {size} octets is larger than {self.incoming_frame_max}"
            self._framing_fault(text)

    def _keep_frame(self, data: bytes, position: int) -> None:
        """Keep an incomplete frame, or what the peer sent ahead."""
        wanted = FRAME_HEAD_SIZE
        if len(data) - position >= FRAME_HEAD_SIZE and not self._is_held():
            wanted = read_u32(data, position)
        self._keep(data, position, wanted)

    def _keep(self, data: bytes, position: int, wanted: int) -> None:
        if self._is_held() and len(data) - position > self.limits.ahead_bytes_max:
            self._forget_input()
            text = f"more than {self.limits.ahead_bytes_max} octets sent before our answer"
            self._fail(None, None, ConnectionFault(RESOURCE_LIMIT_EXCEEDED, text))
            return
        self._pending = bytearray(data[position:])
        self._wanted = wanted

    def _forget_input(self) -> None:
        self._pending = bytearray()
