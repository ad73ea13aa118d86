"""A program that deletes queues with their messages, and declares them again a little later.

It acts within a tick, like the pages of the HTTP server. Unacknowledged deliveries then belong to a
deleted queue; what is published meanwhile reaches no queue.
"""

from typing import Final

from penstock.broker.topology import BindQueue, DeclareQueue, DeleteQueue
from penstock.broker.vhost import VirtualHost
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.host import Host
from penstock.simulation.job import Job
from penstock.simulation.ledger import Ledger, QueueWatch

DELETE_CHANCE: Final = 0.05
DECLARE_CHANCE: Final = 0.3


class Remover(Job):
    """Held by the run; deletes one queue."""

    def __init__(
        self, name: str, clock: VirtualClock, dice: Dice, ledger: Ledger, host: Host,
        watch: QueueWatch,
    ) -> None:  # fmt: skip
        super().__init__(name, clock, dice, ledger, host)
        self._watch = watch

    def turn(self, vhost: VirtualHost, now: int) -> None:
        if self._watch.plan.name in vhost.queues:
            if not self.is_calm and self.dice.chance(DELETE_CHANCE):
                self._delete(vhost, now)
        elif self.is_calm or self.dice.chance(DECLARE_CHANCE):
            self._declare(vhost, now)

    def answer_lost(self) -> None:
        """It waits for no answer."""

    def _delete(self, vhost: VirtualHost, now: int) -> None:
        watch = self._watch
        queue = vhost.queues[watch.plan.name]
        self.history.add(f"{self.name} deletes {queue.name}")
        self.history.sighted("a queue is deleted")
        if queue.unacked_count:
            self.history.sighted("a queue is deleted while messages are out")
        queue.observers.remove(watch)
        watch.deleted()
        vhost.apply(DeleteQueue(queue.name), now)

    def _declare(self, vhost: VirtualHost, now: int) -> None:
        plan = self._watch.plan
        self.history.add(f"{self.name} declares {plan.name}")
        vhost.apply(DeclareQueue(plan.name, durable=True, arguments=dict(plan.arguments)), now)
        for binding in self.ledger.topology.bindings:
            if binding.queue == plan.name:
                vhost.apply(BindQueue(plan.name, binding.exchange, binding.key), now)
        vhost.queues[plan.name].observers.append(self._watch)
        self._watch.declared()
