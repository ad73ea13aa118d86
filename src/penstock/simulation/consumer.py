"""A consumer with prefetch that acknowledges, requeues, rejects, gets, cancels, and crashes."""

from collections.abc import Callable
from typing import Final

from penstock.client.conversation import Conversation
from penstock.client.events import (
    ChannelClosed,
    ConsumerCancelled,
    Delivered,
    Event,
    Replied,
)
from penstock.client.uri import Address
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.ledger import Ledger
from penstock.simulation.network import Network
from penstock.simulation.plans import Scenario
from penstock.simulation.program import Program
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.reply_codes_generated import NOT_FOUND

INTERVAL_US_MAX: Final = 120_000
PAUSE_US_MAX: Final = 1_500_000
GETS_CHANCE: Final = 0.15
# Some read two queues over one channel, whose delivery tags then mix.
TWO_QUEUES_CHANCE: Final = 0.3
# Some limit the channel as a whole instead of each subscription.
LIMITS_CHANNEL_CHANCE: Final = 0.3
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
    """Held by the run; consumes from one queue, or from two over one channel."""

    def __init__(
        self, name: str, address: Address, clock: VirtualClock, dice: Dice, network: Network,
        ledger: Ledger, scenario: Scenario, queue: str,
    ) -> None:  # fmt: skip
        super().__init__(name, address, clock, dice, network, ledger)
        self._queues = [queue]
        if dice.chance(TWO_QUEUES_CHANCE):
            plans = ledger.topology.queues
            others = [plan.name for plan in plans if plan.name != queue and not plan.is_unread]
            self._queues.append(dice.choose(others))
        self.prefetch = dice.between(1, scenario.prefetch_max)
        self._pauses = scenario.consumers_pause
        # Some ask for one message at a time instead of subscribing.
        self.gets = dice.chance(GETS_CHANCE)
        has_quorum_queue = any(
            ledger.watches[name].plan.arguments.get("x-queue-type") == "quorum"
            for name in self._queues
        )
        # RabbitMQ's quorum queues know no limit of the channel, and neither do ours.
        self._limits_channel = not has_quorum_queue and dice.chance(LIMITS_CHANNEL_CHANCE)
        # Delivery tags we hold, oldest first, with queue and name of the copies they brought.
        self.held: dict[int, tuple[str, bytes]] = {}
        # Tags of a channel count up by one.
        self._last_tag = 0
        # Subscriptions there were on this channel, and those that we have not cancelled.
        self._subscribed: dict[str, str] = {}
        self._active: dict[str, str] = {}
        self._tag_count = 0
        self._getting_ticket = 0
        # While it is not answered, everything we hold or get is being requeued.
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
        conversation.call(self.channel, m.BasicQos(0, self.prefetch, self._limits_channel))
        if not self.gets:
            self._subscribe(conversation)

    def _subscribe(self, conversation: Conversation) -> None:
        """To every queue of ours that we have no subscription to."""
        for queue in self._queues:
            if queue in self._active:
                continue
            self._expect_absence(queue)
            self._tag_count += 1
            tag = f"{self.name}.{self._tag_count}"
            self._active[queue] = tag
            self._subscribed[tag] = queue
            conversation.call(self.channel, self.subscription(queue, tag))

    def _expect_absence(self, queue: str) -> None:
        if self.ledger.watches[queue].plan.may_vanish:
            self.expected_code = NOT_FOUND

    def subscription(self, queue: str, tag: str) -> m.BasicConsume:
        return m.BasicConsume(queue, tag)

    def channel_lost(self, event: ChannelClosed) -> None:
        del event
        self.held.clear()
        self._last_tag = 0
        self._active.clear()
        self._subscribed.clear()
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
        elif isinstance(event, ConsumerCancelled):
            self._cancelled(self._subscribed[event.consumer_tag], event.consumer_tag)
        else:
            self.ledger.violated(f"{self.name} was told {event!r}")

    def _cancelled(self, queue: str, tag: str) -> None:
        self.history.sighted("a consumer hears that its queue is deleted")
        if not self.ledger.watches[queue].plan.may_vanish:
            self.ledger.violated(f"{self.name} was told that {queue} is deleted")
        if self._active.get(queue) == tag:
            del self._active[queue]

    def _delivered(self, message: Delivered) -> None:
        tag = message.consumer_tag
        queue = self._subscribed[tag] if tag else self._queues[0]
        # Order is promised to one subscription, not across subscriptions.
        subscription = f"{self.name}.{self.epoch}.{tag}"
        name = self.ledger.delivered(queue, subscription, message.body, message.redelivered)
        if message.delivery_tag != self._last_tag + 1:
            self.ledger.violated(
                f"{self.name} got delivery tag {message.delivery_tag} behind {self._last_tag}"
            )
        self._last_tag = message.delivery_tag
        if not self._recovering_ticket:
            self.took(message.delivery_tag, queue, name)
        # Of an earlier subscription we may hold as much again.
        shares = 1 if self._limits_channel else max(1, len(self._subscribed))
        if len(self.held) > self.prefetch * shares:
            self.ledger.violated(f"{self.name} holds {len(self.held)}, more than it asked for")
        if self.ledger.watches[queue].is_dead_queue:
            headers = message.properties.headers or {}
            self.history.sighted(f"a dead letter: {headers.get('x-first-death-reason')}")
        flag = " again" if message.redelivered else ""
        self.history.add(f"{self.name} got {message.delivery_tag} {name.decode()}{flag}")

    def took(self, tag: int, queue: str, name: bytes) -> None:
        self.held[tag] = (queue, name)

    # Settlement.

    def _work(self) -> None:
        if not self.is_leaving:
            limit = INTERVAL_US_MAX // 4 if self.is_calm else INTERVAL_US_MAX
            self.clock.after(self.dice.between(0, limit), self._work)
        conversation = self.conversation
        if conversation is None or self.is_leaving or self._recovering_ticket:
            return
        if self._pauses and not self.is_calm and self.dice.chance(PAUSE_CHANCE):
            self._pause()
        if self.gets and not self._getting_ticket and len(self.held) < self.prefetch:
            self._expect_absence(self._queues[0])
            self._getting_ticket = conversation.call(self.channel, m.BasicGet(self._queues[0]))
        elif not self.gets:
            self._subscribe(conversation)
        action = self.next_action()
        if action:
            self._actions[action](conversation)
        self.turn_ended(conversation)
        self.flush()

    def next_action(self) -> str:
        """What to do in this turn; empty for nothing."""
        if not self.held:
            return ""
        return "acknowledge all" if self.is_calm else self.dice.weighted(ACTIONS)

    def turn_ended(self, conversation: Conversation) -> None:
        """Nothing more to do: an acknowledgement counts when it is sent."""

    def settled(self, tag: int, queue: str, name: bytes) -> None:
        del tag
        self.ledger.acknowledged(queue, name)

    def _pause(self) -> None:
        if self.line is not None:
            self.history.sighted("a consumer stops reading")
            endpoint = self.line.endpoint
            endpoint.pause_reading()
            self.clock.after(self.dice.between(0, PAUSE_US_MAX), endpoint.resume_reading)

    def _wait(self, conversation: Conversation) -> None:
        """Hold on to everything for another turn."""

    def _acknowledge_one(self, conversation: Conversation) -> None:
        tag, (queue, name) = self._take_one()
        self.settled(tag, queue, name)
        conversation.tell(self.channel, m.BasicAck(tag))

    def _acknowledge_all(self, conversation: Conversation) -> None:
        if len(self.held) > 1:
            self.history.sighted("one acknowledgement for many")
        last = max(self.held)
        for tag, (queue, name) in self.held.items():
            self.settled(tag, queue, name)
        self.held.clear()
        conversation.tell(self.channel, m.BasicAck(last, multiple=True))

    def _requeue_one(self, conversation: Conversation) -> None:
        tag, _ = self._take_one()
        self.history.sighted("a consumer requeues")
        conversation.tell(self.channel, m.BasicNack(tag, requeue=True))

    def _requeue_all(self, conversation: Conversation) -> None:
        last = max(self.held)
        self.held.clear()
        conversation.tell(self.channel, m.BasicNack(last, multiple=True, requeue=True))

    def _reject_one(self, conversation: Conversation) -> None:
        tag, (queue, name) = self._take_one()
        self.ledger.rejected(queue, name)
        conversation.tell(self.channel, m.BasicReject(tag, requeue=False))

    def _take_one(self) -> tuple[int, tuple[str, bytes]]:
        tag = self.dice.choose(list(self.held))
        return tag, self.held.pop(tag)

    def _cancel(self, conversation: Conversation) -> None:
        """What is held stays ours; the next turn subscribes anew."""
        if self._active:
            self.history.sighted("a consumer cancels")
            queue = self.dice.choose(list(self._active))
            conversation.call(self.channel, m.BasicCancel(self._active.pop(queue)))

    def _recover(self, conversation: Conversation) -> None:
        self.history.sighted("a consumer recovers")
        self.held.clear()
        self._recovering_ticket = conversation.call(self.channel, m.BasicRecover(requeue=True))

    def _close_channel(self, conversation: Conversation) -> None:
        self.history.sighted("a consumer closes its channel")
        self.close_channel(conversation)

    def _crash(self, conversation: Conversation) -> None:
        del conversation
        self.history.sighted("a consumer crashes")
        self.crash()
