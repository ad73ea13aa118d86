"""Byte streams that behave like TCP on a bad day.

A stream is a pair of endpoints. What one end writes waits there until it moves to the other, in
order: late, torn apart and joined, and not at all while the reader does not read and its buffer is
full. Three things go wrong: a line is *reset* (both ends are lost), it *stalls* (nothing moves for
a while), or it is *cut* (what is written vanishes and nobody is told), in one direction or in both.

Invariants
- bytes arrive in order or not at all; behind a byte that vanished none arrives;
- an endpoint's user hears `lost` exactly once, and nothing after it;
- unread bytes at one end never exceed RECEIVE_BYTES_MAX.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Final
from zlib import crc32

from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.history import History
from penstock.world.network import Transport

# Marks and buffers are far smaller than real ones, so that back-pressure needs few bytes. A real
# server's marks are in `server.sockets`.
WRITE_BYTES_HIGH: Final = 32 * 1024
WRITE_BYTES_LOW: Final = 8 * 1024
RECEIVE_BYTES_MAX: Final = 16 * 1024
# What the system takes over from a writer before it notices that nothing is acknowledged.
VANISHED_BYTES_MAX: Final = 16 * 1024
# The system gives a silent line up after this long; Linux takes a quarter of an hour, which would
# only be waiting here.
GIVE_UP_US: Final = 10_000_000

LATENCY_US_MIN: Final = 50
LATENCY_US_MAX: Final = 1_500
# Now and then a segment is lost on the way and sent again.
RETRANSMIT_CHANCE: Final = 0.01
RETRANSMIT_US: Final = 200_000
# How often a segment carries everything, any part, or just a few octets.
WHOLE_CHANCE: Final = 0.70
PART_CHANCE: Final = 0.22
FEW_OCTETS: Final = 9


class StreamUser(ABC):
    """Who speaks over an endpoint: the host of a node, or a client program."""

    @abstractmethod
    def received(self, data: bytes) -> None: ...

    @abstractmethod
    def lost(self) -> None: ...

    @abstractmethod
    def writable_changed(self, writable: bool) -> None: ...


class Endpoint(Transport):
    """One end of a line. Held by the line and, as its transport, by its user."""

    def __init__(self, name: str, clock: VirtualClock, dice: Dice, history: History) -> None:
        self._name = name
        self._clock = clock
        self._dice = dice
        self._history = history
        self._latency = dice.between(LATENCY_US_MIN, LATENCY_US_MAX)
        self.peer: Endpoint = self
        self.user: StreamUser | None = None

        # What is to be sent.
        self._unsent = bytearray()
        self._vanished = 0
        self._is_moving = False
        self._is_writable = True
        self._is_closing = False
        self.is_cut = False
        self.stalled_until = 0

        # What has come.
        self._unread = bytearray()
        self._is_reading = True
        # Set when the other end is gone and we have not noticed, because we do not read.
        self._peer_has_gone = False
        self.is_over = False

    # What a user does.

    def write(self, data: bytes) -> None:
        if self.is_over or self._is_closing:
            return
        if self._peer_has_gone:
            self._history.sighted("a reset is noticed by writing")
            self._soon(self._lose)
            return
        self._unsent += data
        if self._is_writable and len(self._unsent) > WRITE_BYTES_HIGH:
            self._set_writable(False)
        self._move_soon()

    def close(self) -> None:
        if not self.is_over and not self._is_closing:
            self._is_closing = True
            self._move_soon()

    def abort(self) -> None:
        if self.is_over:
            return
        self._history.add(f"{self._name} aborts")
        self._end()
        self._tell_peer(self.peer._reset_arrived)
        self._soon(self._tell_user)

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._soon(self._read)

    # What goes wrong.

    def reset(self) -> None:
        """Something between the two ends reset the line; this end hears of it."""
        self._unsent.clear()
        self._after(self._latency, self._reset_arrived)

    # Sending.

    def _move_soon(self) -> None:
        if self._is_moving or self.is_over or not (self._unsent or self._is_closing):
            return
        self._is_moving = True
        delay = self._latency + self._dice.between(0, self._latency)
        if self._dice.chance(RETRANSMIT_CHANCE):
            delay += RETRANSMIT_US
        stalled = self.stalled_until - self._clock.microseconds
        self._after(max(delay, stalled), self._move)

    def _move(self) -> None:
        self._is_moving = False
        if self.is_over:
            return
        if self.stalled_until > self._clock.microseconds:
            self._move_soon()
            return
        if self.is_cut:
            self._vanish()
        elif self._unsent:
            self._send_segment()
        if self._is_closing and not self._unsent:
            self._tell_peer(self.peer._end_arrived)
            self._lose()

    def _send_segment(self) -> None:
        room = RECEIVE_BYTES_MAX - len(self.peer._unread)
        if room <= 0:
            self._history.sighted("a full receive buffer stops the sender")
            return
        count = min(self._segment_size(len(self._unsent)), room)
        data = bytes(self._unsent[:count])
        del self._unsent[:count]
        self.peer._arrived(data)
        self._drained()
        self._move_soon()

    def _segment_size(self, waiting: int) -> int:
        kind = self._dice.fraction()
        if kind < WHOLE_CHANCE:
            return waiting
        if kind < WHOLE_CHANCE + PART_CHANCE:
            return self._dice.between(1, waiting)
        return self._dice.between(1, min(waiting, FEW_OCTETS))

    def _vanish(self) -> None:
        if self._unsent and not self._vanished:
            self._after(GIVE_UP_US, self._lose)
        count = min(len(self._unsent), VANISHED_BYTES_MAX - self._vanished)
        self._vanished += count
        del self._unsent[:count]
        self._drained()

    def _drained(self) -> None:
        if not self._is_writable and len(self._unsent) < WRITE_BYTES_LOW:
            self._set_writable(True)

    def _set_writable(self, writable: bool) -> None:
        self._is_writable = writable
        if self.user is not None:
            self.user.writable_changed(writable)

    def _tell_peer(self, notice: Callable[[], None]) -> None:
        if not self.is_cut:
            self._after(self._latency, notice)

    # Receiving.

    def _arrived(self, data: bytes) -> None:
        if self.is_over:
            return
        if self._is_reading and not self._unread:
            self._give(data)
        else:
            self._unread += data

    def _read(self) -> None:
        if not self._is_reading or self.is_over:
            return
        if self._unread:
            data = bytes(self._unread)
            self._unread.clear()
            self._give(data)
            self.peer._move_soon()
        if self._peer_has_gone and self._is_reading and not self._unread:
            self._lose()

    def _give(self, data: bytes) -> None:
        self._history.add(f"{self._name} < {len(data)} {crc32(data):08x}")
        if self.user is not None:
            self.user.received(data)

    def _end_arrived(self) -> None:
        """The other end closed in order: what it said before is still to be read."""
        self._peer_has_gone = True
        if self._is_reading and not self._unread:
            self._lose()

    def _reset_arrived(self) -> None:
        if self._is_reading:
            self._lose()
        elif not self.is_over:
            self._history.sighted("a reset waits for a paused reader")
            self._peer_has_gone = True

    def _lose(self) -> None:
        if not self.is_over:
            self._end()
            self._tell_user()

    def _end(self) -> None:
        self.is_over = True
        self._unsent.clear()
        self._unread.clear()

    def _tell_user(self) -> None:
        self._history.add(f"{self._name} is lost")
        if self.user is not None:
            self.user.lost()

    def _soon(self, action: Callable[[], None]) -> None:
        self._clock.after(0, action)

    def _after(self, microseconds: int, action: Callable[[], None]) -> None:
        self._clock.after(microseconds, action)


class Line:
    """Both ends of one connection, for whoever breaks it. Held by the network."""

    def __init__(self, name: str, near: Endpoint, far: Endpoint, clock: VirtualClock) -> None:
        self.name = name
        self.near = near
        self.far = far
        self._clock = clock
        near.peer = far
        far.peer = near

    @property
    def is_over(self) -> bool:
        return self.near.is_over and self.far.is_over

    def reset(self) -> None:
        self.near.reset()
        self.far.reset()

    def cut(self, from_near: bool, from_far: bool) -> None:
        """From now on nothing gets through in these directions, for ever."""
        self.near.is_cut = self.near.is_cut or from_near
        self.far.is_cut = self.far.is_cut or from_far

    def stall(self, microseconds: int) -> None:
        until = self._clock.microseconds + microseconds
        self.near.stalled_until = until
        self.far.stalled_until = until


class Listener(ABC):
    """Who accepts lines: the host of a node."""

    @abstractmethod
    def accept(self, endpoint: Endpoint, peer_host: str) -> StreamUser | None:
        """The user of the new line's far end; None refuses it."""


class Network:
    """All lines of a stage. Held by the stage; programs dial through it."""

    def __init__(self, clock: VirtualClock, dice: Dice, history: History) -> None:
        self._clock = clock
        self._dice = dice
        self._history = history
        self._listeners: dict[str, Listener] = {}
        self._lines: list[Line] = []
        self._line_count = 0
        # Nobody gets through to anybody before this time.
        self.refuses_until = 0

    def listen(self, address: str, listener: Listener) -> None:
        self._listeners[address] = listener

    def lines(self) -> list[Line]:
        """Those with at least one end that is not lost."""
        self._lines = [line for line in self._lines if not line.is_over]
        return self._lines

    def dial(self, address: str, program: str, answered: Callable[[Endpoint | None], None]) -> None:
        """Answers later, with the near end of a new line or with None."""
        delay = self._dice.between(LATENCY_US_MIN, LATENCY_US_MAX) * 2
        self._clock.after(delay, partial(self._connect, address, program, answered))

    def _connect(
        self, address: str, program: str, answered: Callable[[Endpoint | None], None]
    ) -> None:
        if self._clock.microseconds < self.refuses_until:
            self._history.sighted("a connection is refused")
            self._history.add(f"{program} is refused by {address}")
            answered(None)
            return
        self._line_count += 1
        name = f"{program}-{address}-{self._line_count}"
        dice = self._dice.fork(name)
        near = Endpoint(f"{name}>", self._clock, dice.fork("near"), self._history)
        far = Endpoint(f"{name}<", self._clock, dice.fork("far"), self._history)
        line = Line(name, near, far, self._clock)
        self._lines.append(line)
        self._history.add(f"{name} connects")
        far.user = self._listeners[address].accept(far, "127.0.0.1")
        answered(near)
        if far.user is None:
            far.abort()
