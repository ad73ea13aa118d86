"""A receiver over AMQP 1.0: it accepts, releases, rejects, drains, detaches, is detached, resumes."""

from collections.abc import Callable
from typing import Final

from penstock.client.uri import Address
from penstock.simulation.amqp10_receiver_link import Holding, ReceiverLink
from penstock.simulation.amqp10_sender_link import SendingProgram
from penstock.simulation.clock import VirtualClock
from penstock.simulation.consumer import INTERVAL_US_MAX, TWO_QUEUES_CHANCE
from penstock.simulation.copies import Copy
from penstock.simulation.dice import Dice
from penstock.simulation.ledger import Ledger
from penstock.simulation.lives import Lives
from penstock.simulation.network import Network
from penstock.simulation.plans import Scenario
from penstock.wire.amqp10.conditions_generated import INVALID_FIELD
from penstock.wire.amqp10.link import RCV_FIRST
from penstock.wire.amqp10.performatives_generated import (
    Flow,
    Modified,
    Rejected,
    Released,
)
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED, Session
from penstock.wire.amqp10.values import Composite

# It stops reading now and then, and continues to settle what it holds: it learns later what the
# node does meanwhile.
PAUSE_CHANCE: Final = 0.04
PAUSE_US_MAX: Final = 400_000
# How often it settles what it holds in the same write that makes the node detach its link.
IN_ONE_BREATH_CHANCE: Final = 0.7

# What it does with what it holds, per turn.
ACTIONS: Final = (
    ("accept one", 30),
    ("accept all", 30),
    ("wait", 15),
    ("release one", 5),
    ("fail one", 4),
    ("reject one", 3),
    ("drain", 4),
    ("detach", 2),
    ("suspend", 3),
    ("wrong flow", 4),
    ("end session", 1),
    ("crash", 2),
    ("settle and crash", 3),
)
# So soon after a settlement that the node may receive it or not.
CRASH_US_MAX: Final = 3_000


class Amqp10Receiver(SendingProgram):
    """Held by the run; receives from one queue, or from two over one session."""

    def __init__(
        self, name: str, address: Address, clock: VirtualClock, dice: Dice, network: Network,
        ledger: Ledger, scenario: Scenario, lives: Lives, queue: str,
    ) -> None:  # fmt: skip
        super().__init__(name, address, clock, dice, network, ledger)
        self.lives = lives
        queues = [queue]
        if dice.chance(TWO_QUEUES_CHANCE):
            plans = ledger.topology.queues
            others = [plan.name for plan in plans if plan.name != queue and not plan.is_unread]
            queues.append(dice.choose(others))
        self.receivers = [
            ReceiverLink(
                self,
                source,
                dice.between(1, scenario.prefetch_max),
                lasts=self.is_plain and dice.chance(scenario.lasting_share),
                may_settle=self.is_plain,
            )
            for source in queues
        ]
        # A link that does not last was suspended on this session.
        self._leaves_behind = False
        self.actions: dict[str, Callable[[], None]] = {
            "accept one": self._accept_one,
            "accept all": self._accept_all,
            "wait": self._wait,
            "release one": self._release_one,
            "fail one": self._fail_one,
            "reject one": self._reject_one,
            "drain": self._drain,
            "detach": self._detach,
            "suspend": self._suspend,
            "wrong flow": self._flow_wrongly,
            "end session": self._end_session,
            "crash": self._crash,
            "settle and crash": self._settle_and_crash,
        }
        clock.after(dice.between(0, INTERVAL_US_MAX), self._work)

    @property
    def is_plain(self) -> bool:
        """Whether its links may last, or be settled by the node."""
        return True

    def session_ready(self, session: Session) -> None:
        self.attach_all()

    def attach_all(self) -> None:
        if self.line is None or self.session is None:
            return
        for receiver in self.receivers:
            if receiver.link is None:
                self.keep_link(receiver, receiver.attach(self.line.wire, self.session))

    def _work(self) -> None:
        if not self.is_leaving:
            limit = INTERVAL_US_MAX // 4 if self.is_calm else INTERVAL_US_MAX
            self.clock.after(self.dice.between(0, limit), self._work)
        if self.session is None or self.is_leaving or self.line is None:
            return
        if not self.is_calm and self.dice.chance(PAUSE_CHANCE):
            self._pause()
        self.attach_all()
        for receiver in self.receivers:
            if receiver.is_incomplete and receiver.is_ready and self.dice.chance(0.5):
                # Now with the whole map.
                self.detach(receiver, closed=False)
        if self._leaves_behind and (self.is_calm or self.dice.chance(0.2)):
            self._end_session()
        action = self.next_action()
        if action:
            self.actions[action]()
        self.turn_ended()
        for receiver in self.receivers:
            receiver.give_credit()
        self.flush()

    def next_action(self) -> str:
        """What to do in this turn; empty for nothing."""
        if self.is_calm:
            return "accept all"
        return self.dice.weighted(ACTIONS)

    def turn_ended(self) -> None:
        """Nothing more to do: an outcome counts when it is sent."""

    def _pause(self) -> None:
        if self.line is not None:
            self.history.sighted("a receiver stops reading")
            endpoint = self.line.endpoint
            endpoint.pause_reading()
            self.clock.after(self.dice.between(0, PAUSE_US_MAX), endpoint.resume_reading)

    # Outcomes.

    def any_held(self) -> tuple[ReceiverLink, Holding] | None:
        found = [(link, holding) for link in self.receivers for holding in link.undecided()]
        return self.dice.choose(found) if found else None

    def _settle(self, receiver: ReceiverLink, holding: Holding, outcome: Composite) -> None:
        session = self.session
        if session is None:
            return
        if receiver.rcv_settle_mode == RCV_FIRST:
            del receiver.held[holding.tag]
            session.settle(holding.delivery_id, holding.delivery_id, outcome)
        else:
            holding.outcome = outcome
            session.say_state(holding.delivery_id, holding.delivery_id, outcome)

    def _wait(self) -> None:
        """Hold on to everything for another turn."""

    def _accept_one(self) -> None:
        found = self.any_held()
        if found is not None:
            receiver, holding = found
            self.ledger.acknowledged(receiver.queue, holding.name)
            self._settle(receiver, holding, OUTCOME_ACCEPTED)

    def _accept_all(self) -> None:
        """With one disposition for each run of ids, over all links of the session."""
        session = self.session
        if session is None:
            return
        ids: list[int] = []
        for receiver in self.receivers:
            for holding in receiver.undecided():
                self.ledger.acknowledged(receiver.queue, holding.name)
                if receiver.rcv_settle_mode == RCV_FIRST:
                    del receiver.held[holding.tag]
                    ids.append(holding.delivery_id)
                else:
                    self._settle(receiver, holding, OUTCOME_ACCEPTED)
        ids.sort()
        while ids:
            count = 1
            while count < len(ids) and ids[count] == ids[0] + count:
                count += 1
            if count > 1:
                self.history.sighted("one disposition for many")
            session.settle(ids[0], ids[count - 1], OUTCOME_ACCEPTED)
            del ids[:count]

    def _release_one(self) -> None:
        self._give_back(Released())

    def _fail_one(self) -> None:
        self._give_back(Modified(delivery_failed=True))

    def _give_back(self, outcome: Composite) -> None:
        found = self.any_held()
        if found is not None:
            self.history.sighted(f"a receiver says: {outcome.wire_name()}")
            self._settle(*found, outcome)

    def _reject_one(self) -> None:
        found = self.any_held()
        if found is not None:
            receiver, holding = found
            self.ledger.rejected(receiver.queue, holding.name)
            self._settle(receiver, holding, Rejected())

    # Links.

    def _any_link(self) -> ReceiverLink | None:
        ready = [receiver for receiver in self.receivers if receiver.is_ready]
        return self.dice.choose(ready) if ready else None

    def _drain(self) -> None:
        receiver = self._any_link()
        link = None if receiver is None else receiver.receiving
        if link is not None and link.credit > 0 and not link.is_draining:
            link.drain()

    def _detach(self) -> None:
        receiver = self._any_link()
        if receiver is not None:
            self.history.sighted("a receiver detaches")
            self.detach(receiver, closed=True)

    def _suspend(self) -> None:
        receiver = self._any_link()
        if receiver is not None:
            self.history.sighted("a receiver suspends its link")
            self.detach(receiver, closed=False)
            # It is kept until the session ends, with what it had.
            self._leaves_behind = self._leaves_behind or not receiver.lasts

    def _flow_wrongly(self) -> None:
        """Claim to have seen more than was sent: the node detaches, and settlements after that come
        too late.
        """
        receiver = self._any_link()
        link = None if receiver is None else receiver.receiving
        if receiver is None or link is None or self.session is None:
            return
        self.history.sighted("a receiver has its link detached")
        receiver.expected.add(INVALID_FIELD)
        ahead = link.delivery_count + 100_000
        self.session.send_flow(Flow(handle=link.handle, delivery_count=ahead, link_credit=1))
        if self.dice.chance(IN_ONE_BREATH_CHANCE):
            self.settle_late(receiver)

    def settle_late(self, receiver: ReceiverLink) -> None:
        """Settle what the node has requeued."""
        self._accept_all()

    def _end_session(self) -> None:
        self.history.sighted("a receiver ends its session")
        self.end_session()
        self._leaves_behind = False

    def _crash(self) -> None:
        self.history.sighted("a receiver crashes")
        self.crash()

    def _settle_and_crash(self) -> None:
        self.history.sighted("a receiver crashes as it settles")
        self._accept_all()
        self.clock.after(self.dice.between(0, CRASH_US_MAX), self.crash)

    # A receiver sends nothing; programs that do both override this.

    def answered(self, copy: Copy, outcome: Composite | None) -> None:
        self.ledger.violated(f"{self.name} heard {outcome} of {copy.name!r}")

    def doubted(self, copy: Copy) -> None:
        self.ledger.violated(f"{self.name} doubts {copy.name!r}")

    def head(self, copy: Copy) -> bytes:
        return b""
