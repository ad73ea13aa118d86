"""A consumer that moves messages to a stream: each publish and its acknowledgement, or a rejection,
in one transaction.
"""

from typing import Final

from penstock.client.conversation import Conversation
from penstock.client.events import Blocked, ChannelClosed, Delivered, Event, Replied, Unblocked
from penstock.client.uri import Address
from penstock.simulation.clock import VirtualClock
from penstock.simulation.copies import SEPARATOR, name_in
from penstock.simulation.dice import Dice
from penstock.simulation.ledger import Ledger
from penstock.simulation.moving_book import MOVED_HEADER
from penstock.simulation.network import Network
from penstock.simulation.program import Program
from penstock.simulation.publisher import PERSISTENT
from penstock.simulation.scenarios import CARRIED, RECEIPTS, STREAM
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties

INTERVAL_US_MAX: Final = 120_000
PREFETCH: Final = 6
REJECT_CHANCE: Final = 0.3
COMMIT_CHANCE: Final = 0.6
ROLL_BACK_CHANCE: Final = 0.15
CRASH_CHANCE: Final = 0.03
MOVED: Final = BasicProperties(delivery_mode=2, headers={MOVED_HEADER: True})


class Mover(Program):
    """Held by the run."""

    def __init__(
        self, name: str, address: Address, clock: VirtualClock, dice: Dice, network: Network,
        ledger: Ledger,
    ) -> None:  # fmt: skip
        super().__init__(name, address, clock, dice, network, ledger)
        # Bodies we hold, by delivery tag; and those that the open transaction settles.
        self._held: dict[int, bytes] = {}
        self._open: dict[int, bytes] = {}
        self._ending_ticket = 0
        self._commits = False
        clock.after(dice.between(0, INTERVAL_US_MAX), self._work)

    def ready(self, conversation: Conversation) -> None:
        conversation.call(self.channel, m.BasicQos(0, PREFETCH, False))
        conversation.call(self.channel, m.TxSelect())
        conversation.call(self.channel, m.BasicConsume(CARRIED, f"{self.name}.{self.epoch}"))

    def channel_lost(self, event: ChannelClosed) -> None:
        del event
        if self._ending_ticket and self._commits:
            self.history.sighted("a move is in doubt")
        self._held.clear()
        self._open.clear()
        self._ending_ticket = 0

    def told(self, event: Event) -> None:
        if isinstance(event, Delivered):
            self._held[event.delivery_tag] = event.body
        elif isinstance(event, (Blocked, Unblocked)):
            self.history.sighted("a mover is blocked")
        elif not isinstance(event, Replied):
            self.ledger.violated(f"{self.name} was told {event!r}")
        elif event.ticket == self._ending_ticket:
            self._ended()

    def _ended(self) -> None:
        self._ending_ticket = 0
        names = b" ".join(name_in(body) for body in self._open.values()).decode()
        self.history.add(f"{self.name} {'moved' if self._commits else 'rolled back'} {names}")
        if self._commits:
            self.history.sighted("messages are moved")
        else:
            # We still hold them.
            self._held.update(self._open)
        self._open = {}

    def _work(self) -> None:
        if not self.is_leaving:
            limit = INTERVAL_US_MAX // 4 if self.is_calm else INTERVAL_US_MAX
            self.clock.after(self.dice.between(0, limit), self._work)
        conversation = self.conversation
        if conversation is None or self.is_leaving or self._ending_ticket:
            return
        for tag in list(self._held)[: self.dice.between(1, PREFETCH)]:
            self._move(conversation, tag)
        if self._open:
            self._end(conversation)
        self.flush()
        if not self.is_calm and self.dice.chance(CRASH_CHANCE):
            self.history.sighted("a mover crashes")
            self.crash()

    def _move(self, conversation: Conversation, tag: int) -> None:
        body = self._held.pop(tag)
        self._open[tag] = body
        if self.dice.chance(REJECT_CHANCE):
            conversation.tell(self.channel, m.BasicReject(tag, requeue=False))
            return
        conversation.publish(self.channel, "", STREAM, body, MOVED)
        conversation.publish(self.channel, "", RECEIPTS, name_in(body) + SEPARATOR, PERSISTENT)
        conversation.tell(self.channel, m.BasicAck(tag))

    def _end(self, conversation: Conversation) -> None:
        kind = self.dice.fraction()
        if self.is_calm or kind < COMMIT_CHANCE:
            self._commits = True
            self._ending_ticket = conversation.call(self.channel, m.TxCommit())
        elif kind < COMMIT_CHANCE + ROLL_BACK_CHANCE:
            self.history.sighted("a move is rolled back")
            self._commits = False
            self._ending_ticket = conversation.call(self.channel, m.TxRollback())
