"""A consumer without acknowledgements: what it is sent is dequeued, whether it arrives or not."""

from typing import Final

from penstock.client.uri import Address
from penstock.simulation.clock import VirtualClock
from penstock.simulation.consumer import Consumer
from penstock.simulation.dice import Dice
from penstock.simulation.ledger import Ledger
from penstock.simulation.network import Network
from penstock.simulation.plans import Scenario
from penstock.wire.amqp091 import methods_generated as m

ACTIONS: Final = (("", 60), ("cancel", 6), ("close channel", 2), ("crash", 4))


class CarelessConsumer(Consumer):
    """Held by the run."""

    def __init__(
        self, name: str, address: Address, clock: VirtualClock, dice: Dice, network: Network,
        ledger: Ledger, scenario: Scenario, queue: str,
    ) -> None:  # fmt: skip
        super().__init__(name, address, clock, dice, network, ledger, scenario, queue)
        # Other consumers test basic.get.
        self.gets = False

    def subscription(self, queue: str, tag: str) -> m.BasicConsume:
        return m.BasicConsume(queue, tag, no_ack=True)

    def took(self, tag: int, queue: str, name: bytes) -> None:
        del tag
        self.history.sighted("a consumer without acknowledgements gets a message")
        if (queue, name) not in self.ledger.taken:
            self.ledger.violated(f"{self.name} got {name!r}, which {queue} still counts as its own")
        self.ledger.acknowledged(queue, name)

    def next_action(self) -> str:
        return "" if self.is_calm else self.dice.weighted(ACTIONS)
