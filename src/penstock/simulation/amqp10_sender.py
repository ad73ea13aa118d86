"""A sender over AMQP 1.0: what was in doubt when its link ended is sent again, as something new or,
over a link that outlives its connection, as the same delivery.
"""

from collections import deque
from typing import Final

from penstock.client.uri import Address
from penstock.simulation.amqp10_message import copy_of, head_of
from penstock.simulation.amqp10_sender_link import LastingLink, SenderLink, SendingProgram
from penstock.simulation.clock import VirtualClock
from penstock.simulation.copies import Copy
from penstock.simulation.dice import Dice
from penstock.simulation.ledger import Ledger
from penstock.simulation.lives import Lives
from penstock.simulation.network import Network
from penstock.simulation.plans import Scenario
from penstock.simulation.publisher import (
    BURST_MAX,
    CRASH_US_MAX,
    INTERVAL_US_MAX,
    TRY_REFUSED_CHANCE,
    WINDOW,
    Order,
)
from penstock.wire.amqp10.conditions_generated import INVALID_FIELD
from penstock.wire.amqp10.performatives_generated import Accepted, Flow, Released
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import Composite

ANONYMOUS_CHANCE: Final = 0.4
# Sent settled: it may be lost.
SETTLED_CHANCE: Final = 0.05
# What a sender does besides sending, per burst.
PROVOCATIONS: Final = (
    ("", 140),
    ("detach", 2),
    ("suspend", 2),
    ("wrong flow", 2),
    ("end session", 1),
    ("crash", 2),
)
# For a sender whose link lasts: it should reconnect often.
LASTING_PROVOCATIONS: Final = (*PROVOCATIONS, ("suspend", 6), ("crash", 14))
# Where a message is sent to, by the link or by its own `to`.
ANYWHERE: Final[Order] = ("*", "*")


class Amqp10Sender(SendingProgram):
    """Held by the run."""

    def __init__(
        self, name: str, address: Address, clock: VirtualClock, dice: Dice, network: Network,
        ledger: Ledger, scenario: Scenario, lives: Lives,
    ) -> None:  # fmt: skip
        super().__init__(name, address, clock, dice, network, ledger)
        self._scenario = scenario
        self.lives = lives
        routes = ledger.topology.routes
        self.orders: deque[Order] = deque(
            dice.choose(routes) for _ in range(scenario.messages_per_publisher)
        )
        # Sent in vain or in doubt; they come before everything new.
        self.again: deque[Order] = deque()
        self._serial = 0
        self._attach_count = 0
        self._lasts = dice.chance(scenario.lasting_share)
        # One link for everything, or one for each route.
        self._is_anonymous = self._lasts or dice.chance(ANONYMOUS_CHANCE)
        self._senders: dict[Order, SenderLink] = {}
        clock.after(dice.between(0, INTERVAL_US_MAX), self._work)

    @property
    def is_done(self) -> bool:
        return not (self.orders or self.again or self._outstanding())

    def _outstanding(self) -> int:
        return sum(sender.outstanding() for sender in self._senders.values())

    def session_ready(self, session: Session) -> None:
        """Links are attached when they are needed."""

    # Sending.

    def _work(self) -> None:
        if not self.is_leaving:
            limit = INTERVAL_US_MAX // 4 if self.is_calm else INTERVAL_US_MAX
            self.clock.after(self.dice.between(0, limit), self._work)
        if self.session is None or self.is_leaving:
            return
        if not self.is_calm:
            provocations = LASTING_PROVOCATIONS if self._lasts else PROVOCATIONS
            self._provoke(self.dice.weighted(provocations))
        for _ in range(self.dice.between(1, BURST_MAX)):
            if not self._send_next():
                break
        self.flush()

    def _send_next(self) -> bool:
        """Whether one more could be sent."""
        line = self.line
        if self.session is None or line is None or line.is_over:
            return False
        if not line.is_writable:
            self.history.sighted("a sender's write buffer is full")
            return False
        if any(sender.is_half_sent() for sender in self._senders.values()):
            return False
        if self._lasts and not self._sender_for(ANYWHERE).resume():
            self._attach(self._sender_for(ANYWHERE))
            return False
        if not (self.again or self.orders) or self._outstanding() >= WINDOW:
            return False
        order = (self.again or self.orders)[0]
        sender = self._sender_for(ANYWHERE if self._is_anonymous else order)
        if not sender.is_ready:
            self._attach(sender)
            return False
        if not sender.has_capacity():
            self.history.sighted("a sender has no credit")
            return False
        (self.again or self.orders).popleft()
        copy = self._next_copy(*order)
        self.ledger.published(copy)
        sender.send(copy, is_settled=self.dice.chance(SETTLED_CHANCE) and not self._lasts)
        return True

    def _sender_for(self, order: Order) -> SenderLink:
        sender = self._senders.get(order)
        if sender is None:
            make = LastingLink if self._lasts else SenderLink
            sender = make(self, None if order is ANYWHERE else order)
            self._senders[order] = sender
        return sender

    def _attach(self, sender: SenderLink) -> None:
        if sender.link is None and self.line is not None and self.session is not None:
            self._attach_count += 1
            self.keep_link(sender, sender.attach(self.line.wire, self.session, self._attach_count))

    def _next_copy(self, exchange: str, key: str) -> Copy:
        self._serial += 1
        return copy_of(self, self._scenario, self._serial, exchange, key)

    def head(self, copy: Copy) -> bytes:
        return head_of(copy, self._is_anonymous)

    def _provoke(self, what: str) -> None:
        attached = [sender for sender in self._senders.values() if sender.is_ready]
        if what == "crash":
            self.history.sighted("a sender crashes")
            self.clock.after(self.dice.between(0, CRASH_US_MAX), self.crash)
        elif what == "end session":
            self.history.sighted("a sender ends its session")
            self.end_session()
        elif what and attached:
            sender = self.dice.choose(attached)
            self.history.sighted(f"a sender provokes: {what}")
            if what == "wrong flow":
                self._flow_wrongly(sender)
            else:
                self.detach(sender, closed=what == "detach")

    def _flow_wrongly(self, sender: SenderLink) -> None:
        """Claim to have sent more than there was credit for."""
        link = sender.link
        if link is not None and self.session is not None:
            sender.expected.add(INVALID_FIELD)
            ahead = link.delivery_count + 100_000
            self.session.send_flow(Flow(handle=link.handle, delivery_count=ahead, link_credit=0))

    # Answers.

    def answered(self, copy: Copy, outcome: Composite | None) -> None:
        said = "nothing" if outcome is None else outcome.wire_name()
        self.history.add(f"{self.name} {said} {copy.name.decode()}")
        if isinstance(outcome, Accepted):
            self.ledger.confirmed(copy, refused=False)
        elif isinstance(outcome, Released):
            self.ledger.released(copy)
        else:
            self.history.sighted("a publish is refused")
            self.ledger.confirmed(copy, refused=True)
            if self.dice.chance(TRY_REFUSED_CHANCE):
                self.again.append((copy.exchange, copy.key))

    def doubted(self, copy: Copy) -> None:
        """It is sent once more, as another one."""
        self.history.sighted("a delivery in doubt is sent again")
        self.ledger.doubted(copy)
        self.again.append((copy.exchange, copy.key))
