"""A consumer whose acknowledgements count when their transaction is committed, and not before."""

from typing import Final

from penstock.client.conversation import Conversation
from penstock.client.events import ChannelClosed, Event, Replied
from penstock.client.uri import Address
from penstock.simulation.clock import VirtualClock
from penstock.simulation.consumer import Consumer
from penstock.simulation.dice import Dice
from penstock.simulation.ledger import Ledger
from penstock.simulation.network import Network
from penstock.simulation.plans import Scenario
from penstock.wire.amqp091 import methods_generated as m

# Other consumers test requeueing and rejecting; here they would only reduce the transactions.
ACTIONS: Final = (
    ("acknowledge one", 40),
    ("acknowledge all", 20),
    ("wait", 20),
    ("cancel", 3),
    ("close channel", 4),
    ("crash", 4),
)
# What ends a turn; otherwise the transaction stays open for the next one.
COMMIT_CHANCE: Final = 0.4
ROLL_BACK_CHANCE: Final = 0.15


class TransactionalConsumer(Consumer):
    """Held by the run."""

    def __init__(
        self, name: str, address: Address, clock: VirtualClock, dice: Dice, network: Network,
        ledger: Ledger, scenario: Scenario, queue: str,
    ) -> None:  # fmt: skip
        super().__init__(name, address, clock, dice, network, ledger, scenario, queue)
        # Acknowledged in the open transaction, by delivery tag, and how we asked for its end.
        self._open: dict[int, tuple[str, bytes]] = {}
        self._ending_ticket = 0
        self._commits = False

    def ready(self, conversation: Conversation) -> None:
        conversation.call(self.channel, m.TxSelect())
        super().ready(conversation)

    def next_action(self) -> str:
        if self._ending_ticket or not self.held:
            return ""
        return "acknowledge all" if self.is_calm else self.dice.weighted(ACTIONS)

    def settled(self, tag: int, queue: str, name: bytes) -> None:
        self._open[tag] = (queue, name)

    def turn_ended(self, conversation: Conversation) -> None:
        # The channel may just have been closed.
        if not self._open or self._ending_ticket or self.conversation is None:
            return
        kind = self.dice.fraction()
        if self.is_calm or kind < COMMIT_CHANCE:
            for queue, name in self._open.values():
                self.ledger.acknowledged(queue, name)
            self._commits = True
            self._ending_ticket = conversation.call(self.channel, m.TxCommit())
        elif kind < COMMIT_CHANCE + ROLL_BACK_CHANCE:
            self.history.sighted("acknowledgements are rolled back")
            self._commits = False
            self._ending_ticket = conversation.call(self.channel, m.TxRollback())

    def told(self, event: Event) -> None:
        if isinstance(event, Replied) and event.ticket == self._ending_ticket:
            self._ended()
        else:
            super().told(event)

    def _ended(self) -> None:
        self._ending_ticket = 0
        names = b" ".join(name for _, name in self._open.values()).decode()
        self.history.add(f"{self.name} {'committed' if self._commits else 'rolled back'} {names}")
        if self._commits:
            self.history.sighted("acknowledgements are committed")
            for queue, name in self._open.values():
                self.ledger.acknowledgement_committed(queue, name)
        else:
            # We still hold them, and can acknowledge them once more.
            self.held.update(self._open)
        self._open = {}

    def channel_lost(self, event: ChannelClosed) -> None:
        super().channel_lost(event)
        if self._ending_ticket and self._commits:
            self.history.sighted("a commit of acknowledgements is in doubt")
        elif self._open:
            self.history.sighted("acknowledgements are lost with their channel")
        self._open = {}
        self._ending_ticket = 0
