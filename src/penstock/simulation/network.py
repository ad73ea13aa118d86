"""Lines between programs and nodes, and their faults.

There are three: a line is *reset* (both ends are lost), it *stalls* (nothing moves for a while), or
it is *cut* (written data is lost silently), in one direction or in both.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.endpoint import LATENCY_US_MAX, LATENCY_US_MIN, Endpoint, StreamUser
from penstock.simulation.history import History


class Line:
    """Both ends of one connection, for injecting faults. Held by the network."""

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
    """Accepts lines: the host of a node."""

    @abstractmethod
    def accept(self, endpoint: Endpoint, peer_host: str) -> StreamUser | None:
        """The user of the new line's far end; None refuses it."""


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
