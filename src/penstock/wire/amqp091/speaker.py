"""The sending half of a connection: methods and contents, tuning, heartbeats, both closings.

`hearer.Hearer` adds the receiving half; it is the only user of this class.

Invariants
- What may be sent now is decided by `states.SENT`; a method that comes too late, after a close, is
  dropped.
- The listener gets `channel_ended` and `connection_ended` at most once each, and no call about a
  channel after its connection ended.
"""

from typing import Final

from penstock.formats.amqp091_frames import (
    FRAME_OVERHEAD,
    HEARTBEAT,
    METHOD_FRAME,
    PROTOCOL_HEADER,
    encode_content,
    encode_frame,
    encode_split_content,
)
from penstock.wire.amqp091.channel import Channel
from penstock.wire.amqp091.errors import ChannelFault, ConnectionFault
from penstock.wire.amqp091.limits import (
    CHANNEL_MAX_FLOOR,
    FRAME_MAX_BEFORE_TUNING,
    FRAME_MAX_FLOOR,
    Limits,
)
from penstock.wire.amqp091.listener import ConnectionListener
from penstock.wire.amqp091.methods_generated import (
    ChannelClose,
    ChannelOpen,
    ConnectionClose,
    ConnectionTune,
    Method,
)
from penstock.wire.amqp091.reply_codes_generated import (
    CONNECTION_FORCED,
    NOT_ALLOWED,
    REPLY_SUCCESS,
)
from penstock.wire.amqp091.states import SENT, ChannelState, ConnectionState, Role
from penstock.wire.outgoing import Outgoing
from penstock.wire.pausable import PausableInput

# When the handshake or the closing began is taken from the first tick after it.
UNSET: Final = -1
# The specification ends a connection after two silent intervals; RabbitMQ waits for about three,
# and clients with late heartbeats rely on that.
MISSED_INTERVALS: Final = 3
# Between two heartbeats to a client whose open is withheld: a fraction of the time for which ours bears
# silence then (`Limits.handshake_ms`).
HELD_BEAT_MS: Final = 2500


class Speaker(PausableInput):
    """State, channels and output of one connection."""

    def __init__(
        self, role: Role, listener: ConnectionListener, outgoing: Outgoing, limits: Limits
    ) -> None:
        self.role: Role = role
        self.listener: ConnectionListener = listener
        self.outgoing: Outgoing = outgoing
        self.limits: Limits = limits
        self.state: ConnectionState = (
            ConnectionState.AWAITING_HEADER if role is Role.SERVER else ConnectionState.NOT_STARTED
        )
        self._channels: dict[int, Channel] = {}
        self._told: bool = False
        self._tell_when_closed: bool = False

        # The negotiated values; before tuning one of the sides does not know the offer.
        self.frame_max: int = FRAME_MAX_BEFORE_TUNING
        self.channel_max: int = limits.channel_max
        self.heartbeat_seconds: int = 0
        self._offered_frame_max: int = limits.frame_max
        self._offered_channel_max: int = limits.channel_max

        # Time, in milliseconds.
        self.last_received: int = 0
        self._heartbeat_due: int = 0
        self._phase_began: int = UNSET
        # Server: the login or connection.open waits for its answer, an open with heartbeats, and for
        # as long as it takes: the time of the handshake does not run.
        self.is_answer_withheld: bool = False

    def start(self) -> None:
        """Client: send the protocol header; the server answers with connection.start."""
        assert self.state is ConnectionState.NOT_STARTED
        self.outgoing.push(PROTOCOL_HEADER)
        self.state = ConnectionState.AWAITING_START

    def send_method(self, channel: int, method: Method) -> None:
        """Any method without content, except open and close of a channel and connection.close."""
        if channel == 0:
            if self.state is ConnectionState.CLOSING or self.state is ConnectionState.ENDED:
                return
            after = SENT.get((self.state, method.identity()))
            assert after is not None, f"{method!r} must not be sent while {self.state.value}"
            if isinstance(method, ConnectionTune):
                self._note_offer(method)
            self.state = after
        elif not self.channel_open(channel):
            return
        self.outgoing.push(encode_frame(METHOD_FRAME, channel, method.encode()))

    def send_content(self, channel: int, method: bytes, header: bytes, body: bytes) -> None:
        if not self.channel_open(channel):
            return
        if len(body) <= self.frame_max - FRAME_OVERHEAD:
            self.outgoing.push(encode_content(channel, method, header, body))
            return
        for frame in encode_split_content(channel, method, header, body, self.frame_max):
            self.outgoing.push(frame)

    def channel_open(self, number: int) -> bool:
        channel = self._channels.get(number)
        return channel is not None and channel.state is ChannelState.OPEN

    def channel_known(self, number: int) -> bool:
        """True from channel.open until close-ok: the number cannot be used for another channel."""
        return number in self._channels

    def open_channel(self, number: int) -> None:
        """Client: the listener gets channel.open-ok as a method."""
        assert self.role is Role.CLIENT
        assert self.state is ConnectionState.OPEN
        assert 0 < number <= self.channel_max
        assert number not in self._channels
        self._channels[number] = Channel(number, ChannelState.OPENING)
        self.outgoing.push(encode_frame(METHOD_FRAME, number, ChannelOpen().encode()))

    def tuned(self, channel_max: int, frame_max: int, heartbeat_seconds: int) -> None:
        """The listener accepts a tune-ok (server) or decides on one (client).

        Raises a fault when it asks for more than was offered; 0 asks for no limit at all.
        """
        _check_tuning("frame_max", frame_max, self._offered_frame_max, FRAME_MAX_FLOOR)
        _check_tuning("channel_max", channel_max, self._offered_channel_max, CHANNEL_MAX_FLOOR)
        # If neither side has a limit, our own buffers still have one.
        self.frame_max = frame_max or self.limits.frame_max or FRAME_MAX_BEFORE_TUNING
        self.channel_max = channel_max or 0xFFFF
        self.heartbeat_seconds = heartbeat_seconds

    def _note_offer(self, tune: ConnectionTune) -> None:
        self._offered_frame_max = tune.frame_max
        self._offered_channel_max = tune.channel_max

    def tick(self, now: int) -> None:
        """Call about once a second."""
        state = self.state
        is_withheld = self.is_answer_withheld and state is ConnectionState.OPENING
        if state is ConnectionState.OPEN or is_withheld:
            if self.heartbeat_seconds:
                self._beat(now)
            return
        if state is ConnectionState.ENDED:
            return
        if state is ConnectionState.AWAITING_OPEN_OK and self.heartbeat_seconds:
            # The server may hold us for a while, and must not take us for dead; nor we it, as long as
            # it says anything.
            self._say_heartbeat(now)
            self._phase_began = max(self._phase_began, self.last_received)
        if self.is_answer_withheld and state is not ConnectionState.CLOSING:
            self._phase_began = UNSET
        elif self._phase_began == UNSET:
            self._phase_began = now
        elif state is ConnectionState.CLOSING:
            if now - self._phase_began >= self.limits.closing_ms:
                self._end(None)
        elif now - self._phase_began >= self.limits.handshake_ms:
            self._end(ConnectionFault(CONNECTION_FORCED, f"handshake timeout, {self.state.value}"))

    def _beat(self, now: int) -> None:
        interval = self.heartbeat_seconds * 1000
        if now - self.last_received > MISSED_INTERVALS * interval:
            text = f"missed heartbeats from the peer, timeout {self.heartbeat_seconds} s"
            self._end(ConnectionFault(CONNECTION_FORCED, text))
            # The peer is gone: what is pending would never leave.
            self.outgoing.transport.abort()
        else:
            self._say_heartbeat(now)

    def _say_heartbeat(self, now: int) -> None:
        """Every half interval. Also while other frames are sent: consumers write directly, and eight
        bytes per half interval are cheaper than watching every write. A client that is held hears us
        more often: it is to try another server soon when we are gone.
        """
        if now >= self._heartbeat_due:
            interval = self.heartbeat_seconds * 1000 // 2
            if self.is_answer_withheld:
                interval = min(interval, HELD_BEAT_MS)
            self._heartbeat_due = now + interval
            self.outgoing.push_ahead(HEARTBEAT)

    def close(self, fault: ConnectionFault) -> None:
        """Send connection.close with this reason; reply code 200 is an orderly close."""
        if self.state is ConnectionState.CLOSING or self.state is ConnectionState.ENDED:
            return
        close = ConnectionClose(fault.code, fault.reply_text(), fault.class_id, fault.method_id)
        self.outgoing.push(encode_frame(METHOD_FRAME, 0, close.encode()))
        self.state = ConnectionState.CLOSING
        self._phase_began = UNSET
        self._forget_channels()
        if fault.code == REPLY_SUCCESS:
            self._tell_when_closed = True
        else:
            self._tell(fault)

    def close_channel(self, number: int, fault: ChannelFault) -> None:
        """Send channel.close with this reason; reply code 200 is an orderly close."""
        channel = self._channels.get(number)
        if channel is None or channel.state is ChannelState.CLOSING:
            return
        close = ChannelClose(fault.code, fault.reply_text(), fault.class_id, fault.method_id)
        self.outgoing.push(encode_frame(METHOD_FRAME, number, close.encode()))
        self._release(channel)
        channel.closing()
        if fault.code == REPLY_SUCCESS:
            channel.tell_when_closed = True
        else:
            self.listener.channel_ended(number, fault)

    def lost(self) -> None:
        """The transport is gone."""
        if self.state is ConnectionState.CLOSING:
            self._end(None)
        elif self.state is not ConnectionState.ENDED:
            text = "the peer went away without connection.close"
            self._end(ConnectionFault(CONNECTION_FORCED, text))

    def _end(self, fault: ConnectionFault | None) -> None:
        """Nothing more is sent or handled. The transport closes when the pending output is sent."""
        if self.state is ConnectionState.ENDED:
            return
        self.state = ConnectionState.ENDED
        self._forget_channels()
        self._forget_input()
        self.outgoing.close()
        self._tell(fault)

    def _tell(self, fault: ConnectionFault | None) -> None:
        if not self._told:
            self._told = True
            self.listener.connection_ended(fault)

    def _forget_channels(self) -> None:
        for channel in self._channels.values():
            # The frame loop may hold one of them.
            channel.silence()
        self._channels.clear()

    def _release(self, channel: Channel) -> None:
        """A partly received content is given up or complete."""

    def _forget_input(self) -> None:
        """Drop what was kept of an incomplete frame."""


def _check_tuning(name: str, asked: int, offered: int, floor: int) -> None:
    # RabbitMQ's rules and texts.
    if asked != 0 and asked < floor:
        bound = f"lower than the minimum allowed value ({floor})"
    elif offered != 0 and (asked == 0 or asked > offered):
        bound = f"higher than the maximum allowed value ({offered})"
    else:
        return
    raise ConnectionFault(NOT_ALLOWED, f"negotiated {name} = {asked} is {bound}")
