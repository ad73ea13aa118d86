"""A publisher to streams and to queues that leases are taken of, with a book of its own.

Some number their messages, and repeat messages in doubt unchanged.
"""

from collections import deque

from penstock.broker.sent import ID_HEADER, SEQUENCE_HEADER
from penstock.client.conversation import Conversation
from penstock.client.uri import Address
from penstock.simulation.book import Book
from penstock.simulation.clock import VirtualClock
from penstock.simulation.copies import Copy, Fate
from penstock.simulation.dice import Dice
from penstock.simulation.ledger import Ledger
from penstock.simulation.network import Network
from penstock.simulation.plans import Scenario
from penstock.simulation.publisher import PERSISTENT, Order, Publisher
from penstock.wire.amqp091.content import BasicProperties


class BookPublisher(Publisher):
    """Held by the run."""

    def __init__(
        self, name: str, address: Address, clock: VirtualClock, dice: Dice, network: Network,
        ledger: Ledger, scenario: Scenario, book: Book, routes: list[Order],
    ) -> None:  # fmt: skip
        super().__init__(name, address, clock, dice, network, ledger, scenario)
        self._book = book
        self.orders = deque(dice.choose(routes) for _ in range(scenario.messages_per_publisher))
        # To be published once more with the same number, before everything new and in order.
        self._owed: deque[Copy] = deque()

    def has_more(self) -> bool:
        return bool(self._owed) or super().has_more()

    def publish_next(self, conversation: Conversation) -> Copy:
        if self._owed:
            self.history.sighted("a numbered publish is repeated")
            copy = self._owed.popleft()
            copy.fate = Fate.SENT
        else:
            copy = self.next_copy()
            copy.is_mandatory = False
            self._book.published(copy)
        properties = PERSISTENT
        if copy.exchange in self.ledger.topology.delayed:
            properties = self._delay(copy)
        elif self.name in self._book.numbering:
            headers: dict[str, object] = {ID_HEADER: self.name, SEQUENCE_HEADER: copy.serial}
            properties = BasicProperties(headers=headers)
        self.say(conversation, copy, properties)
        return copy

    def answered(self, copy: Copy, refused: bool) -> None:
        if refused:
            self.ledger.violated(f"{copy.name!r} was refused, although nothing may refuse it")
        self._book.confirmed(copy)

    def doubted(self, copy: Copy) -> None:
        copy.fate = Fate.IN_DOUBT
        if self.name in self._book.numbering:
            self._owed = deque(sorted([*self._owed, copy], key=serial_of))
        else:
            self.again.append((copy.exchange, copy.key))


def serial_of(copy: Copy) -> int:
    return copy.serial
