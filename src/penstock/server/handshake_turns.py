"""A few handshakes at a time.

A handshake takes the broker a fraction of a millisecond, or one with an RSA key, and a message takes
it a thousandth of that. When a fleet reconnects, or somebody attacks, the others must not wait for
all handshakes that have something to say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

# Steps of handshakes in one turn of the event loop: some milliseconds at most. The others wait for
# the next turn, in the order in which they came.
STEPS_PER_TURN: Final = 8


class HandshakeStep(ABC):
    """A handshake whose peer has said something."""

    __slots__ = ()

    @abstractmethod
    def shake_hands(self) -> None:
        """Take what was said. Does nothing when the handshake is over, or given up."""


class HandshakeTurns:
    """Held by the door that TLS clients come through."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        # In the order in which they came; a handshake waits once, however often its peer speaks.
        self._waiting: dict[HandshakeStep, None] = {}
        self._is_scheduled = False

    def add(self, step: HandshakeStep) -> None:
        self._waiting[step] = None
        self._schedule()

    def discard(self, step: HandshakeStep) -> None:
        self._waiting.pop(step, None)

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_scheduled = False
        for step in list(self._waiting)[:STEPS_PER_TURN]:
            del self._waiting[step]
            step.shake_hands()
        self._schedule()
