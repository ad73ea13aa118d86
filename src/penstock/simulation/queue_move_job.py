"""An operator who moves messages from queue to queue, in small steps, and cancels now and then."""

from typing import Final

from penstock.broker.move_table import MoveState
from penstock.broker.moves.move import NO_LIMIT, Move, MoveRequest, StepLimits, begin_move
from penstock.broker.vhost import VirtualHost
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.job import Job
from penstock.simulation.ledger import Ledger
from penstock.simulation.queue_move_book import PLACES, QueueMoveBook
from penstock.simulation.workplace import Workplace

STEPS: Final = StepLimits(count=3, looked_at=5)
COUNT_MAX: Final = 12
LIMIT_CHANCE: Final = 0.3
CANCEL_CHANCE: Final = 0.1
LOOK_CHANCE: Final = 0.3


class QueueMoveJob(Job):
    """Held by the run."""

    def __init__(
        self, name: str, clock: VirtualClock, dice: Dice, ledger: Ledger, place: Workplace,
        book: QueueMoveBook,
    ) -> None:  # fmt: skip
        super().__init__(name, clock, dice, ledger, place)
        self._book = book
        # The move that goes on, and the virtual host that it goes on in.
        self._move: Move | None = None
        self._vhost: VirtualHost | None = None

    def turn(self, vhost: VirtualHost, now: int) -> None:
        if self.dice.chance(LOOK_CHANCE):
            for complaint in self._book.broken(self.node):
                self.ledger.violated(complaint)
        if self._move is not None and self._vhost is not vhost:
            self.history.sighted("a move ends with its node")
            self._move = None
        if self._move is None:
            if not self.is_calm:
                self._begin(vhost, now)
        elif self._move.state is not MoveState.RUNNING:
            self._hear(self._move)
            self._move = None
        elif self.dice.chance(CANCEL_CHANCE):
            self._move.cancel()

    def answer_lost(self) -> None:
        """Nothing is asked that is answered later."""

    def _begin(self, vhost: VirtualHost, now: int) -> None:
        source = self.dice.choose(PLACES)
        destination = self.dice.choose([place for place in PLACES if place != source])
        is_limited = self.dice.chance(LIMIT_CHANCE)
        count = self.dice.between(1, COUNT_MAX) if is_limited else NO_LIMIT
        self._move = begin_move(vhost, MoveRequest(source, destination, count=count), now, STEPS)
        self._vhost = vhost
        self.history.add(f"{self.name} moves {count} from {source} to {destination}")

    def _hear(self, move: Move) -> None:
        self.history.sighted(f"a move is {move.state.value}")
        self.history.add(f"{self.name} hears: {move.state.value}, {move.moved_count} moved")
