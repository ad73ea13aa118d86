"""Lines between programs and nodes, and their faults.

There are three: a line is *reset* (both ends are lost), it *stalls* (nothing moves for a while), or
it is *cut* (written data is lost silently), in one direction or in both. Besides, the network may be
*divided*: between two machines nothing moves in one direction or both, until it heals; then what was
written arrives after all.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.endpoint import LATENCY_US_MAX, LATENCY_US_MIN, Endpoint, StreamUser
from penstock.simulation.history import History

# A caller that gets no answer gives up after this long.
DIAL_US_MAX: Final = 2_000_000


class Line:
    """Both ends of one connection, for injecting faults. Held by the network."""

    def __init__(
        self,
        name: str,
        near: Endpoint,
        far: Endpoint,
        clock: VirtualClock,
        ends: tuple[str, str] = ("", ""),
    ) -> None:
        self.name = name
        # Who dialled, and who was dialled.
        self.ends = ends
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
    """Accepts lines: the host of a node."""

    @abstractmethod
    def accept(self, endpoint: Endpoint, peer_host: str) -> StreamUser | None:
        """The user of the new line's far end; None refuses it."""

    def answers_from(self) -> int:
        """No connection is answered before this time, in microseconds: the process is paused."""
        return 0


class Network:
    """All lines of a run. Held by the run; programs dial through it."""

    def __init__(self, clock: VirtualClock, dice: Dice, history: History) -> None:
        self._clock = clock
        self._dice = dice
        self._history = history
        self._listeners: dict[str, Listener] = {}
        self._lines: list[Line] = []
        self._line_count = 0
        # No connection succeeds before this time.
        self.refuses_until = 0
        # By the names of sender and receiver: nothing gets through before this time.
        self._divided: dict[tuple[str, str], int] = {}

    def divide(self, sender: str, receiver: str, until: int) -> None:
        """Nothing that the one sends reaches the other before that time."""
        self._divided[sender, receiver] = until
        for line in self.lines():
            if line.ends == (sender, receiver):
                line.near.held_until = until
            elif line.ends == (receiver, sender):
                line.far.held_until = until

    def unite(self) -> None:
        """The network heals at once."""
        self._divided.clear()
        for line in self.lines():
            for end in (line.near, line.far):
                end.held_until = 0
                end.peer_has_room()

    def _reachable_from(self, program: str, address: str) -> int:
        """When a connection between these two can be made, in microseconds."""
        listener = self._listeners.get(address)
        return max(
            self._divided.get((program, address), 0),
            self._divided.get((address, program), 0),
            0 if listener is None else listener.answers_from(),
        )

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
        wait = self._reachable_from(program, address) - self._clock.microseconds
        if wait > 0:
            if wait > DIAL_US_MAX:
                self._clock.after(DIAL_US_MAX, partial(answered, None))
            else:
                self._clock.after(wait, partial(self._connect, address, program, answered))
            return
        listener = self._listeners.get(address)
        if listener is None or self._clock.microseconds < self.refuses_until:
            self._history.sighted("a connection is refused")
            self._history.add(f"{program} is refused by {address}")
            answered(None)
            return
        self._line_count += 1
        name = f"{program}-{address}-{self._line_count}"
        dice = self._dice.fork(name)
        near = Endpoint(f"{name}>", self._clock, dice.fork("near"), self._history)
        far = Endpoint(f"{name}<", self._clock, dice.fork("far"), self._history)
        line = Line(name, near, far, self._clock, (program, address))
        self._lines.append(line)
        self._history.add(f"{name} connects")
        far.user = listener.accept(far, "127.0.0.1")
        answered(near)
        if far.user is None:
            far.abort()
