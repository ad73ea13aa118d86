"""A publisher with confirms: what was in doubt when a line or channel ended is published again."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from penstock.broker.exchanges.delayed import DELAY_HEADER
from penstock.client.conversation import Conversation
from penstock.client.events import (
    Blocked,
    ChannelClosed,
    Confirmed,
    Event,
    Replied,
    Returned,
    Unblocked,
)
from penstock.client.uri import Address
from penstock.simulation.clock import VirtualClock
from penstock.simulation.copies import Copy, body_of
from penstock.simulation.dice import Dice
from penstock.simulation.ledger import Ledger
from penstock.simulation.network import Network
from penstock.simulation.plans import Scenario
from penstock.simulation.program import Program
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties
from penstock.wire.amqp091.reply_codes_generated import NOT_FOUND

INTERVAL_US_MAX: Final = 250_000
BURST_MAX: Final = 6
WINDOW: Final = 30
# What a publisher does besides publishing, per burst.
CLOSE_CHANNEL_CHANCE: Final = 0.01
CHANNEL_ERROR_CHANCE: Final = 0.01
CRASH_CHANCE: Final = 0.01
# A crash happens when the answer to the last output may be on its way.
CRASH_US_MAX: Final = 6_000
REDECLARE_CHANCE: Final = 0.2
IGNORES_BLOCKED_CHANCE: Final = 0.3
# A refused message is tried again this often; the others are given up.
TRY_REFUSED_CHANCE: Final = 0.6

# Some are over before the next crash, others wait through several.
DELAY_MS_MAX: Final = 4_000

PERSISTENT: Final = BasicProperties(delivery_mode=2)

Order = tuple[str, str]  # exchange and routing key of one message to be published


class Publisher(Program):
    """Held by the run."""

    def __init__(
        self, name: str, address: Address, clock: VirtualClock, dice: Dice, network: Network,
        ledger: Ledger, scenario: Scenario,
    ) -> None:  # fmt: skip
        super().__init__(name, address, clock, dice, network, ledger)
        self._scenario = scenario
        routes = ledger.topology.routes
        self.orders: deque[Order] = deque(
            dice.choose(routes) for _ in range(scenario.messages_per_publisher)
        )
        # Published in vain or in doubt; they come before everything new.
        self.again: deque[Order] = deque()
        self._serial = 0
        self.outstanding = 0
        # Which of our connections was told that it is blocked.
        self._blocked_epoch = 0
        self._ignores_blocked = dice.chance(IGNORES_BLOCKED_CHANCE)
        clock.after(dice.between(0, INTERVAL_US_MAX), self._work)

    @property
    def is_done(self) -> bool:
        return not (self.has_more() or self.outstanding)

    def ready(self, conversation: Conversation) -> None:
        self.tell_topology(conversation)
        conversation.call(self.channel, m.ConfirmSelect())

    def tell_topology(self, conversation: Conversation) -> None:
        """Declare what is there already, as applications do; it must be found equal."""
        if not self.dice.chance(REDECLARE_CHANCE):
            return
        topology = self.ledger.topology
        for exchange in topology.exchanges:
            kind, arguments = topology.declared(exchange)
            conversation.call(
                self.channel,
                m.ExchangeDeclare(exchange, kind, durable=True, arguments=arguments),
            )
        # A queue that is deleted now and then is declared by another program.
        plans = [plan for plan in topology.queues if not plan.may_vanish]
        for plan in plans:
            arguments = dict(plan.arguments)
            conversation.call(
                self.channel, m.QueueDeclare(plan.name, durable=True, arguments=arguments)
            )
        names = [plan.name for plan in plans]
        for binding in topology.bindings:
            if binding.queue in names:
                conversation.call(
                    self.channel, m.QueueBind(binding.queue, binding.exchange, binding.key)
                )

    # Publishing.

    def _work(self) -> None:
        if not self.is_leaving:
            limit = INTERVAL_US_MAX // 4 if self.is_calm else INTERVAL_US_MAX
            self.clock.after(self.dice.between(0, limit), self._work)
        conversation = self.conversation
        if conversation is None or self.is_leaving:
            return
        if not self.is_calm and self._provokes(conversation):
            self.flush()
            return
        said: list[Copy] = []
        for _ in range(self.dice.between(1, BURST_MAX)):
            if not self.may_publish():
                break
            said.append(self.publish_next(conversation))
        self.burst_ended(conversation, said)
        if not self.is_calm and self.dice.chance(CRASH_CHANCE):
            self.history.sighted("a publisher crashes")
            self.clock.after(self.dice.between(0, CRASH_US_MAX), self.crash)
        self.flush()

    def burst_ended(self, conversation: Conversation, said: list[Copy]) -> None:
        """Nothing more to do: the broker confirms by itself."""

    def has_more(self) -> bool:
        return bool(self.orders or self.again)

    def may_publish(self) -> bool:
        line = self.line
        if line is None or self.outstanding >= WINDOW or not self.has_more():
            return False
        if not line.is_writable:
            self.history.sighted("a publisher's write buffer is full")
            return False
        return self._blocked_epoch != self.epoch or self._ignores_blocked

    def publish_next(self, conversation: Conversation) -> Copy:
        copy = self.next_copy()
        self.ledger.published(copy)
        properties = PERSISTENT if copy.is_persistent else None
        if copy.exchange in self.ledger.topology.delayed:
            properties = self._delay(copy)
        self.say(conversation, copy, properties)
        return copy

    def next_copy(self) -> Copy:
        exchange, key = (self.again or self.orders).popleft()
        self._serial += 1
        name = f"{self.name}.{self._serial}".encode()
        size = self.dice.between(0, self._scenario.body_bytes_max)
        return Copy(
            name,
            self.name,
            self.epoch,
            self._serial,
            exchange,
            key,
            body_of(name, size),
            self.ledger.topology.queues_for(exchange, key),
            self.dice.chance(0.5),
            self._is_persistent(),
            sent_ms=self.clock.now(),
        )

    def say(
        self, conversation: Conversation, copy: Copy, properties: BasicProperties | None
    ) -> None:
        self.outstanding += 1
        if len(copy.body) > conversation.frame_max:
            self.history.sighted("a body over several frames")
        conversation.publish(
            self.channel,
            copy.exchange,
            copy.key,
            copy.body,
            properties,
            mandatory=copy.is_mandatory,
            note=copy,
        )

    def _delay(self, copy: Copy) -> BasicProperties:
        """A delayed message that cannot be routed is not returned. A transient one is lost with its
        node in any case, which other programs test.
        """
        delay = self.dice.between(1, DELAY_MS_MAX)
        copy.is_mandatory = False
        copy.is_persistent = True
        copy.not_before = self.clock.now() + delay
        return BasicProperties(delivery_mode=2, headers={DELAY_HEADER: delay})

    def _is_persistent(self) -> bool:
        share = self._scenario.persistent_share
        return share > 0 and self.dice.chance(share)

    def _provokes(self, conversation: Conversation) -> bool:
        kind = self.dice.fraction()
        if kind < CLOSE_CHANNEL_CHANCE:
            self.history.sighted("a publisher closes its channel")
            self.close_channel(conversation)
        elif kind < CLOSE_CHANNEL_CHANCE + CHANNEL_ERROR_CHANCE:
            self.expected_code = NOT_FOUND
            conversation.call(self.channel, m.QueueDeclare("nowhere", passive=True))
        else:
            return False
        return True

    # Answers.

    def told(self, event: Event) -> None:
        if isinstance(event, Confirmed):
            self._confirmed(event)
        elif isinstance(event, Returned):
            self.history.sighted("a message is returned")
            self.ledger.returned(event.body)
        elif isinstance(event, Blocked):
            self.history.sighted("a publisher is blocked")
            self._blocked_epoch = self.epoch
        elif isinstance(event, Unblocked):
            self._blocked_epoch = 0
        elif not isinstance(event, Replied):
            self.ledger.violated(f"{self.name} was told {event!r}")

    def _confirmed(self, event: Confirmed) -> None:
        copies = copies_of(event.settled)
        if not copies:
            self.ledger.violated(f"{self.name} heard confirm {event.delivery_tag} twice")
        if len(copies) > 1:
            self.history.sighted("one confirm for many")
        for copy in copies:
            self.outstanding -= 1
            self.answered(copy, event.nack)
            if event.nack:
                self.history.sighted("a publish is refused")
                if self.dice.chance(TRY_REFUSED_CHANCE):
                    self.history.sighted("a refused publish is tried again")
                    self.again.append((copy.exchange, copy.key))
        names = b" ".join(copy.name for copy in copies).decode()
        self.history.add(f"{self.name} {'refused' if event.nack else 'confirmed'} {names}")

    def answered(self, copy: Copy, refused: bool) -> None:
        self.ledger.confirmed(copy, refused)

    def channel_lost(self, event: ChannelClosed) -> None:
        copies = copies_of(event.in_doubt)
        if copies and event.error is not None:
            self.history.sighted("a line is lost during a confirm")
        for copy in copies:
            self.history.sighted("a publish in doubt is repeated")
            self.doubted(copy)
        self.outstanding = 0

    def doubted(self, copy: Copy) -> None:
        self.ledger.doubted(copy)
        self.again.append((copy.exchange, copy.key))


def copies_of(settled: Iterable[object]) -> list[Copy]:
    found: list[Copy] = []
    for part in settled:
        note = getattr(part, "note", None)
        assert isinstance(note, Copy), "every publish leaves its copy as its note"
        found.append(note)
    return found
