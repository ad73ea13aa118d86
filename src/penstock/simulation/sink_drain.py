"""Empties the queue that is too small for what sinks publish to it, a few messages at a time."""

from typing import Final

from penstock.broker.entry import QueueEntry
from penstock.broker.vhost import VirtualHost
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.job import Job
from penstock.simulation.ledger import Ledger
from penstock.simulation.scenarios import NARROW
from penstock.simulation.sink_book import SinkBook
from penstock.simulation.workplace import Workplace

TAKEN_MAX: Final = 4


class SinkDrain(Job):
    """Held by the run."""

    def __init__(
        self, name: str, clock: VirtualClock, dice: Dice, ledger: Ledger, place: Workplace,
        book: SinkBook,
    ) -> None:  # fmt: skip
        super().__init__(name, clock, dice, ledger, place)
        self._book = book

    def turn(self, vhost: VirtualHost, now: int) -> None:
        queue = vhost.queue(NARROW)
        if any(sink.waits_for for sink in vhost.sinks.values()):
            self.history.sighted("a sink waits for room")
        taken: list[QueueEntry] = []
        for _ in range(self.dice.between(1, TAKEN_MAX)):
            entry = queue.get(now)
            if entry is None:
                break
            taken.append(entry)
        if not taken:
            return
        queue.acknowledge_many(taken)
        for entry in taken:
            self._book.take(entry.message.body)
        self.when_safe(self._book.taken_is_safe)

    def answer_lost(self) -> None:
        self._book.taken_is_in_doubt()
