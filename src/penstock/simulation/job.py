"""A job beside the broker: it sends one request at a time and is answered when that is durable.

Like the pages of the HTTP server, it acts on a virtual host within a tick and is answered when the
journal has become durable. If the node goes down in between, the answer is lost.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.broker.state import DEFAULT_VHOST
from penstock.broker.vhost import VirtualHost
from penstock.node.durable_answer import DurableAnswer
from penstock.node.node import Node
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.ledger import Ledger
from penstock.simulation.workplace import Workplace

INTERVAL_US_MAX: Final = 80_000


class Job(ABC):
    """Held by the run."""

    def __init__(
        self, name: str, clock: VirtualClock, dice: Dice, ledger: Ledger, place: Workplace
    ) -> None:
        self.name = name
        self.clock = clock
        self.dice = dice
        self.ledger = ledger
        self.history = ledger.history
        self._place = place
        # The start of the host that was asked, while it has not answered.
        self._asked_life = 0
        self._asked_count = 0
        self.is_calm = False
        self.is_leaving = False
        clock.after(dice.between(0, INTERVAL_US_MAX), self._work)

    @abstractmethod
    def turn(self, vhost: VirtualHost, now: int) -> None:
        """Do the next step; no answer is pending."""

    @abstractmethod
    def answer_lost(self) -> None:
        """The last request may have taken effect or not."""

    def _work(self) -> None:
        if self.is_leaving:
            return
        self.clock.after(self.dice.between(0, INTERVAL_US_MAX), self._work)
        place = self._place
        if not place.is_up or place.node.storage_failure:
            # A node whose disk has failed confirms nothing more, and is about to stop.
            return
        if self._asked_life:
            if self._asked_life == place.life:
                return
            self._asked_life = 0
            self.history.sighted("the answer to a job is lost")
            self.history.add(f"{self.name} hears no answer")
            self.answer_lost()
        self.turn(place.node.state.vhost(DEFAULT_VHOST), place.now())
        place.schedule_flush()

    @property
    def node(self) -> Node:
        return self._place.node

    def when_safe(self, then: Callable[[], None]) -> None:
        """Call back when what this turn did is durable."""
        self._asked_life = self._place.life
        self._asked_count += 1
        DurableAnswer(self._place.node, partial(self._answered, self._asked_count, then))

    def _answered(self, number: int, then: Callable[[], None]) -> None:
        if not self._asked_life or number != self._asked_count:
            # Of a root that was deposed: the job has given up waiting for it.
            return
        self._asked_life = 0
        then()
