"""A consumer with prefetch that acknowledges, requeues, rejects, gets, cancels, and crashes."""

from collections.abc import Callable
from typing import Final

from penstock.client.conversation import Conversation
from penstock.client.events import ChannelClosed, Delivered, Event, Replied
from penstock.client.uri import Address
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.ledger import Ledger
from penstock.simulation.network import Network
from penstock.simulation.program import Program
from penstock.simulation.scenarios import Scenario
from penstock.wire.amqp091 import methods_generated as m

INTERVAL_US_MAX: Final = 120_000
PAUSE_US_MAX: Final = 1_500_000
GETS_CHANCE: Final = 0.15
PAUSE_CHANCE: Final = 0.10

# What a consumer does with what it holds, per turn.
ACTIONS: Final = (
    ("acknowledge one", 30),
    ("acknowledge all", 30),
    ("wait", 15),
    ("requeue one", 6),
    ("requeue all", 4),
    ("reject one", 4),
    ("cancel", 3),
    ("recover", 2),
    ("close channel", 2),
    ("crash", 2),
)


class Consumer(Program):
    """Held by the stage; consumes from one queue."""

    def __init__(
        self, name: str, address: Address, clock: VirtualClock, dice: Dice, network: Network,
        ledger: Ledger, scenario: Scenario, queue: str,
    ) -> None:  # fmt: skip
        super().__init__(name, address, clock, dice, network, ledger)
        self._queue = queue
        self._prefetch = dice.between(1, scenario.prefetch_max)
        self._pauses = scenario.consumers_pause
        # Some ask for one message at a time instead of subscribing.
        self._gets = dice.chance(GETS_CHANCE)
        # Delivery tags we hold, oldest first, with the copies they brought.
        self._held: dict[int, bytes] = {}
        self._tag = ""
        self._tag_count = 0
        self._subscriptions_here = 0
        self._getting_ticket = 0
        # While it is not answered, everything we hold or get is being taken back.
        self._recovering_ticket = 0
        self._actions: dict[str, Callable[[Conversation], None]] = {
            "acknowledge one": self._acknowledge_one,
            "acknowledge all": self._acknowledge_all,
            "wait": self._wait,
            "requeue one": self._requeue_one,
            "requeue all": self._requeue_all,
            "reject one": self._reject_one,
            "cancel": self._cancel,
            "recover": self._recover,
            "close channel": self._close_channel,
            "crash": self._crash,
        }
        clock.after(dice.between(0, INTERVAL_US_MAX), self._work)

    def ready(self, conversation: Conversation) -> None:
        conversation.call(self.channel, m.BasicQos(0, self._prefetch))
        if not self._gets:
            self._consume(conversation)

    def _consume(self, conversation: Conversation) -> None:
        self._tag_count += 1
        self._subscriptions_here += 1
        self._tag = f"{self.name}.{self._tag_count}"
        conversation.call(self.channel, m.BasicConsume(self._queue, self._tag))

    def channel_lost(self, event: ChannelClosed) -> None:
        del event
        self._held.clear()
        self._tag = ""
        self._subscriptions_here = 0
        self._getting_ticket = 0
        self._recovering_ticket = 0

    # What comes.

    def told(self, event: Event) -> None:
        if isinstance(event, Delivered):
            self._delivered(event)
        elif isinstance(event, Replied):
            if event.ticket == self._getting_ticket:
                self._getting_ticket = 0
            if event.ticket == self._recovering_ticket:
                self._recovering_ticket = 0
            if event.message is not None:
                self.history.sighted("a get finds a message")
                self._delivered(event.message)
        else:
            self.ledger.violated(f"{self.name} was told {event!r}")

    def _delivered(self, message: Delivered) -> None:
        # Order is promised to one subscription, not across subscriptions.
        subscription = f"{self.name}.{self.epoch}.{message.consumer_tag}"
        name = self.ledger.delivered(self._queue, subscription, message.body, message.redelivered)
        if message.delivery_tag in self._held:
            self.ledger.violated(f"{self.name} got delivery tag {message.delivery_tag} twice")
        if not self._recovering_ticket:
            self._held[message.delivery_tag] = name
        if len(self._held) > self._prefetch and self._subscriptions_here == 1:
            self.ledger.violated(f"{self.name} holds more than its prefetch of {self._prefetch}")
        self._look_for_death(message)
        flag = " again" if message.redelivered else ""
        self.history.add(f"{self.name} got {message.delivery_tag} {name.decode()}{flag}")

    def _look_for_death(self, message: Delivered) -> None:
        if self.ledger.watches[self._queue].is_dead_queue:
            headers = message.properties.headers or {}
            self.history.sighted(f"a dead letter: {headers.get('x-first-death-reason')}")

    # What is done with it.

    def _work(self) -> None:
        if not self.is_leaving:
            limit = INTERVAL_US_MAX // 4 if self.is_calm else INTERVAL_US_MAX
            self.clock.after(self.dice.between(0, limit), self._work)
        conversation = self.conversation
        if conversation is None or self.is_leaving or self._recovering_ticket:
            return
        if self._pauses and not self.is_calm and self.dice.chance(PAUSE_CHANCE):
            self._pause()
        if self._gets and not self._getting_ticket and len(self._held) < self._prefetch:
            self._getting_ticket = conversation.call(self.channel, m.BasicGet(self._queue))
        elif not self._gets and not self._tag:
            self._consume(conversation)
        if self._held:
            action = "acknowledge all" if self.is_calm else self.dice.weighted(ACTIONS)
            self._actions[action](conversation)
        self.flush()

    def _pause(self) -> None:
        if self.line is not None:
            self.history.sighted("a consumer stops reading")
            endpoint = self.line.endpoint
            endpoint.pause_reading()
            self.clock.after(self.dice.between(0, PAUSE_US_MAX), endpoint.resume_reading)

    def _wait(self, conversation: Conversation) -> None:
        """Hold on to everything for another turn."""

    def _acknowledge_one(self, conversation: Conversation) -> None:
        tag, name = self._take_one()
        self.ledger.acknowledged(self._queue, name)
        conversation.tell(self.channel, m.BasicAck(tag))

    def _acknowledge_all(self, conversation: Conversation) -> None:
        if len(self._held) > 1:
            self.history.sighted("one acknowledgement for many")
        last = max(self._held)
        for name in self._held.values():
            self.ledger.acknowledged(self._queue, name)
        self._held.clear()
        conversation.tell(self.channel, m.BasicAck(last, multiple=True))

    def _requeue_one(self, conversation: Conversation) -> None:
        tag, _ = self._take_one()
        self.history.sighted("a consumer requeues")
        conversation.tell(self.channel, m.BasicNack(tag, requeue=True))

    def _requeue_all(self, conversation: Conversation) -> None:
        last = max(self._held)
        self._held.clear()
        conversation.tell(self.channel, m.BasicNack(last, multiple=True, requeue=True))

    def _reject_one(self, conversation: Conversation) -> None:
        tag, name = self._take_one()
        self.ledger.rejected(self._queue, name)
        conversation.tell(self.channel, m.BasicReject(tag, requeue=False))

    def _take_one(self) -> tuple[int, bytes]:
        tag = self.dice.choose(list(self._held))
        return tag, self._held.pop(tag)

    def _cancel(self, conversation: Conversation) -> None:
        """What is held stays ours; the next turn subscribes anew."""
        if self._tag:
            self.history.sighted("a consumer cancels")
            conversation.call(self.channel, m.BasicCancel(self._tag))
            self._tag = ""

    def _recover(self, conversation: Conversation) -> None:
        self.history.sighted("a consumer recovers")
        self._held.clear()
        self._recovering_ticket = conversation.call(self.channel, m.BasicRecover(requeue=True))

    def _close_channel(self, conversation: Conversation) -> None:
        self.history.sighted("a consumer closes its channel")
        self.close_channel(conversation)

    def _crash(self, conversation: Conversation) -> None:
        del conversation
        self.crash()
