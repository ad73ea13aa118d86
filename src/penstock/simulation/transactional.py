"""A publisher that commits instead of waiting for confirms, and now and then rolls back."""

from typing import Final

from penstock.client.conversation import Conversation
from penstock.client.events import ChannelClosed, Event, Replied
from penstock.client.uri import Address
from penstock.simulation.clock import VirtualClock
from penstock.simulation.copies import Copy
from penstock.simulation.dice import Dice
from penstock.simulation.ledger import Ledger
from penstock.simulation.network import Network
from penstock.simulation.plans import Scenario
from penstock.simulation.publisher import Publisher
from penstock.wire.amqp091 import methods_generated as m

# What happens at the end of a burst; otherwise the transaction stays open for the next one.
COMMIT_CHANCE: Final = 0.7
ROLL_BACK_CHANCE: Final = 0.1


class TransactionalPublisher(Publisher):
    """Held by the run."""

    def __init__(
        self,
        name: str,
        address: Address,
        clock: VirtualClock,
        dice: Dice,
        network: Network,
        ledger: Ledger,
        scenario: Scenario,
    ) -> None:
        super().__init__(name, address, clock, dice, network, ledger, scenario)
        # The content of the open transaction, and the request that ends it.
        self._open: list[Copy] = []
        self._ending_ticket = 0
        self._commits = False

    def ready(self, conversation: Conversation) -> None:
        self.tell_topology(conversation)
        conversation.call(self.channel, m.TxSelect())

    def may_publish(self) -> bool:
        return not self._ending_ticket and super().may_publish()

    def burst_ended(self, conversation: Conversation, said: list[Copy]) -> None:
        self._open += said
        if not self._open or self._ending_ticket:
            return
        kind = self.dice.fraction()
        if self.is_calm or kind < COMMIT_CHANCE:
            self.ledger.transactions.append(tuple(self._open))
            self._commits = True
            self._ending_ticket = conversation.call(self.channel, m.TxCommit())
        elif kind < COMMIT_CHANCE + ROLL_BACK_CHANCE:
            self.history.sighted("a transaction is rolled back")
            self._commits = False
            self._ending_ticket = conversation.call(self.channel, m.TxRollback())

    def told(self, event: Event) -> None:
        if isinstance(event, Replied) and event.ticket == self._ending_ticket:
            self._ended(was_committed=isinstance(event.method, m.TxCommitOk))
        else:
            super().told(event)

    def _ended(self, *, was_committed: bool) -> None:
        self._ending_ticket = 0
        self.outstanding -= len(self._open)
        names = b" ".join(copy.name for copy in self._open).decode()
        self.history.add(f"{self.name} {'committed' if was_committed else 'rolled back'} {names}")
        for copy in self._open:
            if was_committed:
                self.ledger.confirmed(copy, refused=False)
            else:
                self._repeat(copy)
        self._open = []

    def channel_lost(self, event: ChannelClosed) -> None:
        super().channel_lost(event)
        if self._ending_ticket and self._commits:
            self.history.sighted("a commit is in doubt")
            for copy in self._open:
                self.ledger.doubted(copy)
                self.again.append((copy.exchange, copy.key))
        else:
            for copy in self._open:
                self._repeat(copy)
        self._open = []
        self._ending_ticket = 0

    def _repeat(self, copy: Copy) -> None:
        """Its transaction did not happen, and it must never be seen."""
        self.ledger.rolled_back(copy)
        self.again.append((copy.exchange, copy.key))
