"""The moves of a virtual host: those that go on, and the last ones that are over.

What a move does is in `move`, which knows virtual hosts; so what a virtual host holds of its moves
stands here.
"""

from enum import Enum
from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.errors import ResourceError
from penstock.broker.timers import Timer

# Each takes a step per millisecond; an operator who wants more at once waits for some to end.
RUNNING_MAX: Final = 16
# Of those that are over, for whoever asks what became of one; the oldest are forgotten.
ENDED_KEPT: Final = 100


class MoveState(Enum):
    RUNNING = "running"
    DONE = "done"
    # It could not go on; the reason says why.
    STOPPED = "stopped"
    CANCELLED = "cancelled"


@mypyc_attr(allow_interpreted_subclasses=True)
class MoveGate:
    """Whether moves may go on. This one, without alarms and disk, is always open."""

    def is_closed(self) -> bool:
        """Publishers are blocked, and so are moves."""
        return False

    def written(self) -> int:
        """The end of what the last tick wrote to the journal, and of what is safe of it. A move takes
        its next step when the one before it is safe, so that it never runs ahead of the disk.
        """
        return 0

    def durable(self) -> int:
        return 0


class RunningMove(Timer):
    """One move as its virtual host knows it; `Move` does the work. Held by the table."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.number: int = 0
        self.source: str = source
        self.state: MoveState = MoveState.RUNNING
        # Why it is over, where that is not plain.
        self.reason: str = ""

    def fire(self, now: int) -> None:
        raise NotImplementedError

    def end(self, state: MoveState, reason: str) -> None:
        if self.state is MoveState.RUNNING:
            self.state = state
            self.reason = reason


class MoveTable:
    """Held by a virtual host. Moves are not written down: after a restart there are none, and each
    message is where its last step left it.
    """

    def __init__(self) -> None:
        self.moves: dict[int, RunningMove] = {}
        self._next_number: int = 1

    def add(self, move: RunningMove) -> None:
        """Raises `ResourceError` when too many go on."""
        running = [known for known in self.moves.values() if known.state is MoveState.RUNNING]
        if len(running) >= RUNNING_MAX:
            raise ResourceError(
                f"{RUNNING_MAX} moves are already in progress; wait until one of them is over, or "
                "cancel one"
            )
        move.number = self._next_number
        self._next_number += 1
        self.moves[move.number] = move
        if len(self.moves) > RUNNING_MAX + ENDED_KEPT:
            for number, known in self.moves.items():
                if known.state is not MoveState.RUNNING:
                    del self.moves[number]
                    break

    def of_queue(self, source: str) -> list[RunningMove]:
        """In the order in which they began."""
        return [move for move in self.moves.values() if move.source == source]
