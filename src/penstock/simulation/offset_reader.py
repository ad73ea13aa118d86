"""A reader of a stream: by offsets that it remembers itself, or by a cursor that the broker does.

Either must deliver every message, at the offset where it was before.
"""

from typing import Final

from penstock.broker.queues.reading import OFFSET_ARGUMENT
from penstock.client.conversation import Conversation
from penstock.client.events import ChannelClosed, Delivered, Event, Replied
from penstock.client.uri import Address
from penstock.dialects.amqp091.stream_subscribe import CURSOR_ARGUMENT
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.ledger import Ledger
from penstock.simulation.network import Network
from penstock.simulation.program import Program
from penstock.simulation.stream_book import StreamBook
from penstock.wire.amqp091 import methods_generated as m

INTERVAL_US_MAX: Final = 120_000
PREFETCH_MAX: Final = 12
CURSOR_CHANCE: Final = 0.6
ACTIONS: Final = (
    ("settle one", 30),
    ("settle all", 40),
    ("wait", 15),
    ("give back", 3),
    ("cancel", 3),
    ("close channel", 3),
    ("crash", 3),
)


class OffsetReader(Program):
    """Held by the run; reads one stream."""

    def __init__(
        self, name: str, address: Address, clock: VirtualClock, dice: Dice, network: Network,
        ledger: Ledger, book: StreamBook, stream: str,
    ) -> None:  # fmt: skip
        super().__init__(name, address, clock, dice, network, ledger)
        self._book = book
        self._stream = stream
        self._prefetch = dice.between(1, PREFETCH_MAX)
        # An operator creates the cursor before the reader subscribes.
        self.cursor = name if dice.chance(CURSOR_CHANCE) else ""
        self._readings = book.readings_of(name, stream, self.cursor)
        # The offset that must come next; -1 when a cursor says where we are.
        self._next = -1
        # Offsets we hold, by delivery tag.
        self._held: dict[int, int] = {}
        self._tag = ""
        self._tag_count = 0
        clock.after(dice.between(0, INTERVAL_US_MAX), self._work)

    def ready(self, conversation: Conversation) -> None:
        conversation.call(self.channel, m.BasicQos(0, self._prefetch, False))
        self._subscribe(conversation)

    def _subscribe(self, conversation: Conversation) -> None:
        arguments: dict[str, object] = {CURSOR_ARGUMENT: self.cursor}
        self._next = -1
        if not self.cursor:
            self._next = self._readings.limit
            arguments = {OFFSET_ARGUMENT: self._next}
        self._tag_count += 1
        self._tag = f"{self.name}.{self._tag_count}"
        conversation.call(
            self.channel, m.BasicConsume(self._stream, self._tag, arguments=arguments)
        )

    def channel_lost(self, event: ChannelClosed) -> None:
        del event
        self._held.clear()
        self._tag = ""

    # What comes.

    def told(self, event: Event) -> None:
        if isinstance(event, Delivered):
            if event.consumer_tag == self._tag:
                self._delivered(event)
        elif not isinstance(event, Replied):
            self.ledger.violated(f"{self.name} was told {event!r}")

    def _delivered(self, message: Delivered) -> None:
        headers = message.properties.headers or {}
        offset = headers.get(OFFSET_ARGUMENT)
        if not isinstance(offset, int):
            self.ledger.violated(f"{self.name} got a message without its offset")
            return
        self._book.read(self.name, self._stream, offset, message.body)
        if self._next >= 0 and offset != self._next:
            if offset < self._next or not self._book.may_skip(self._readings, offset):
                self.ledger.violated(f"{self.name} got offset {offset} in place of {self._next}")
        elif (
            self._next < 0
            and offset > self._readings.limit
            and not self._book.may_skip(self._readings, offset)
        ):
            self.ledger.violated(
                f"{self.name} goes on at {offset}, and settled only up to {self._readings.limit}"
            )
        if offset < self._readings.limit:
            self.history.sighted("a reader reads again")
        self._next = offset + 1
        self._held[message.delivery_tag] = offset
        if len(self._held) > self._prefetch:
            self.ledger.violated(f"{self.name} holds {len(self._held)}, more than it asked for")
        self.history.add(f"{self.name} read {offset}")

    # Settlement.

    def _work(self) -> None:
        if not self.is_leaving:
            limit = INTERVAL_US_MAX // 4 if self.is_calm else INTERVAL_US_MAX
            self.clock.after(self.dice.between(0, limit), self._work)
        conversation = self.conversation
        if conversation is None or self.is_leaving:
            return
        if not self._tag:
            self._subscribe(conversation)
        elif self._held:
            self._act(conversation, "settle all" if self.is_calm else self.dice.weighted(ACTIONS))
        self.flush()

    def _act(self, conversation: Conversation, action: str) -> None:
        if action == "settle one":
            tag = self.dice.choose(list(self._held))
            self._readings.settled(self._held.pop(tag))
            conversation.tell(self.channel, m.BasicAck(tag))
        elif action == "settle all":
            for offset in self._held.values():
                self._readings.settled(offset)
            last = max(self._held)
            self._held.clear()
            conversation.tell(self.channel, m.BasicAck(last, multiple=True))
        elif action in {"give back", "cancel"}:
            self._begin_anew(conversation, action)
        elif action == "close channel":
            self.close_channel(conversation)
        elif action == "crash":
            self.history.sighted("a reader crashes")
            self.crash()

    def _begin_anew(self, conversation: Conversation, action: str) -> None:
        """Messages that are requeued, or held by a subscription that ends, are delivered only after
        a new subscription.
        """
        self.history.sighted(f"a reader begins anew: {action}")
        self.history.add(f"{self.name} begins anew: {action}")
        if action == "give back":
            conversation.tell(self.channel, m.BasicNack(max(self._held), True, True))
            self._held.clear()
        conversation.call(self.channel, m.BasicCancel(self._tag))
        if self._held:
            conversation.tell(self.channel, m.BasicNack(max(self._held), True, True))
            self._held.clear()
        self._tag = ""
