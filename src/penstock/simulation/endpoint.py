"""One end of a byte stream that behaves like TCP on a poor network.

Endpoints come in pairs. What one end writes waits there until it moves to the other, in
order: late, torn apart and joined, and not at all while the reader does not read and its buffer is
full. `network` lists the faults of a pair.

Invariants
- bytes arrive in order or not at all; after a lost byte none arrives;
- an endpoint's user gets `lost` exactly once, and no call after it;
- unread bytes at one end never exceed RECEIVE_BYTES_MAX.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
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
# What the system accepts from a writer before it notices that nothing is acknowledged.
VANISHED_BYTES_MAX: Final = 16 * 1024
# The system gives up a silent connection after this long; Linux takes a quarter of an hour, which
# would only be waiting here.
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
    """The user of an endpoint: the host of a node, or a client program."""

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
        # Later writes would come after a gap.
        self._is_reset = False
        self.stalled_until = 0
        # The network is divided between the two ends: what is written waits, and so does the news
        # of an end.
        self.held_until = 0

        # Received data.
        self._unread = bytearray()
        self._is_reading = True
        # Set when the other end is gone and we have not noticed, because we do not read.
        self._peer_has_gone = False
        self.is_over = False
        self.was_aborted = False

    # Calls from the user.

    def write(self, data: bytes) -> None:
        if self.is_over or self._is_closing:
            return
        if self._peer_has_gone:
            self._history.sighted("a reset is noticed by writing")
            self._soon(self._lose)
            return
        if self._is_reset:
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
        self.was_aborted = True
        self._end()
        self._tell_peer(self.peer.reset_arrived)
        self._soon(self._tell_user)

    def has_hung_up(self) -> bool:
        return self._peer_has_gone

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._soon(self._read)

    # Faults.

    def reset(self) -> None:
        """Something between the two ends reset the line; this end is notified."""
        self._unsent.clear()
        self._is_reset = True
        self._after(self._latency, self.reset_arrived)

    # Sending.

    def peer_has_room(self) -> None:
        self._move_soon()

    def _move_soon(self) -> None:
        if self._is_moving or self.is_over or not (self._unsent or self._is_closing):
            return
        self._is_moving = True
        delay = self._latency + self._dice.between(0, self._latency)
        if self._dice.chance(RETRANSMIT_CHANCE):
            delay += RETRANSMIT_US
        stalled = max(self.stalled_until, self.held_until) - self._clock.microseconds
        self._after(max(delay, stalled), self._move)

    def _move(self) -> None:
        self._is_moving = False
        if self.is_over:
            return
        if max(self.stalled_until, self.held_until) > self._clock.microseconds:
            self._move_soon()
            return
        if self.is_cut:
            self._vanish()
        elif self._unsent:
            self._send_segment()
        if self._is_closing and not self._unsent:
            self._tell_peer(self.peer.end_arrived)
            self._lose()

    def _send_segment(self) -> None:
        room = RECEIVE_BYTES_MAX - self.peer.unread_size
        if room <= 0:
            self._history.sighted("a full receive buffer stops the sender")
            return
        count = min(self._segment_size(len(self._unsent)), room)
        data = bytes(self._unsent[:count])
        del self._unsent[:count]
        self.peer.arrived(data)
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
            held = self.held_until - self._clock.microseconds
            self._after(max(self._latency, held), notice)

    # Receiving.

    @property
    def unread_size(self) -> int:
        return len(self._unread)

    def arrived(self, data: bytes) -> None:
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
            self.peer.peer_has_room()
        self._notice_end()

    def _give(self, data: bytes) -> None:
        self._history.add(f"{self._name} < {len(data)} {crc32(data):08x}")
        if self.user is not None:
            self.user.received(data)

    def end_arrived(self) -> None:
        """The other end closed in order: what it sent before is still to be read."""
        self._peer_has_gone = True
        self._notice_end()

    def reset_arrived(self) -> None:
        if self._is_reading:
            self._lose()
        elif not self.is_over:
            self._history.sighted("a reset waits for a paused reader")
            self._peer_has_gone = True

    def _notice_end(self) -> None:
        if self._peer_has_gone and self._is_reading and not self._unread:
            self._lose()

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
