"""Answers to what one link received unsettled, by ranges of deliveries.

Deliveries are numbered as they come. Most are complete at once and accepted together at the end of
the tick with one disposition; one that is held, or whose journal record is not durable yet, delays
its own answer and all later ones. Where rcv-settle-mode is second the outcome is only sent, and the
delivery stays until the sender has settled it.

A link that outlives its connection also remembers outcomes by delivery tag: when its producer
attaches again and still has a delivery unsettled, it gets the same outcome, and nothing is enqueued
twice.

Invariants: every number is answered once, in order; `_ids[i]` (and `_tags[i]`, where tags are kept)
belongs to number `_answered + 1 + i`.
"""

from typing import Final

from penstock.dialects.container import Container
from penstock.dialects.ordered_answers import OrderedAnswers
from penstock.wire.amqp10.conditions_generated import RESOURCE_LIMIT_EXCEEDED
from penstock.wire.amqp10.link import RCV_FIRST, RCV_SECOND
from penstock.wire.amqp10.performatives_generated import Error, Rejected
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.session import OUTCOME_ACCEPTED, Session
from penstock.wire.amqp10.values import Composite
from penstock.wire.outgoing import Outgoing

# What a producer may send ahead. Twice the window of a thousand that clients often use; a flow
# is due when half of it is used, so flows are rare and the sender never waits for one.
CREDIT: Final = 2_000
# While a queue refuses: enough to notice when it no longer does.
CREDIT_WHEN_REFUSED: Final = 16
# Outcomes that a link remembers for a producer that comes back: more than it can have under way.
# 64 kB to 256 kB for a link that asks for it.
REMEMBERED_MAX: Final = 4_096
# Stands for the id of a delivery whose producer is detached.
_NO_ID: Final = -1
_MASK: Final = 0xFFFF_FFFF
# The reason for a message that a queue refused, at once or later.
_REFUSED: Final = Rejected(Error(RESOURCE_LIMIT_EXCEEDED, "a queue does not take more messages"))


class TargetOutcomes(OrderedAnswers):
    """Held by a target link, also while it is suspended, and by its messages until they are
    complete.
    """

    def __init__(
        self, container: Container, session: Session, link: ReceivingLink, remembers: bool
    ) -> None:
        super().__init__(container.answer_list, container.durability)
        self._container: Container = container
        self._session: Session = session
        self._link: ReceivingLink = link
        # False while the link is suspended.
        self._is_bound: bool = True
        self._ids: list[int] = []
        # Whether the ids follow one another without a gap.
        self._is_run: bool = True
        # Other outcomes than accepted, by number.
        self._outcomes: dict[int, Composite] = {}
        self.was_refused: bool = False

        # Outcomes that were sent and await the sender's settlement, by delivery id.
        self._said: dict[int, Composite] = {}
        # Ids that asked to be settled at once on a link where the sender settles first.
        self._settled_first: set[int] = set()
        # Tags are kept for links that outlive their connection.
        self._remembers: bool = remembers
        self._tags: list[bytes] = []
        self.remembered: dict[bytes, Composite] = {}

    def next(self, delivery_id: int, tag: bytes) -> int:
        """The number of a delivery that has just come unsettled."""
        if not self._is_listed:
            self._is_listed = True
            self._answer_list.append(self)
        ids = self._ids
        if ids and ids[-1] + 1 != delivery_id:
            self._is_run = False
        ids.append(delivery_id)
        if self._remembers:
            self._tags.append(tag)
        self.sequence += 1
        return self.sequence

    def settles_first(self, delivery_id: int) -> None:
        """This delivery is settled at once, whatever its link agreed on."""
        if self._link.rcv_settle_mode == RCV_SECOND:
            self._settled_first.add(delivery_id)

    def decided(self, sequence: int, outcome: Composite) -> None:
        """The outcome is another one than accepted."""
        self._outcomes[sequence] = outcome

    def refused(self, sequence: int) -> None:
        self._outcomes[sequence] = _REFUSED
        self.was_refused = True

    def outgoing_of(self) -> Outgoing | None:
        return self._session.outgoing if self._is_bound else None

    def flush(self) -> None:
        """Answer everything up to the first held one, then look after credit and window."""
        self._is_listed = False
        if self.closed:
            # There is no client left to answer, so there is nothing to wait for either.
            self._waits.clear()
            return
        count = self.answerable() - self._answered
        if count > 0:
            self._answer(count)
        if self._is_bound:
            self.give_credit()

    def give_credit(self) -> None:
        credit = CREDIT
        if self._container.alarm:
            credit = 0
        elif self.was_refused:
            credit = CREDIT_WHEN_REFUSED
            self.was_refused = False
        self._link.offer(credit)
        self._link.flow_if_needed()

    def _answer(self, count: int) -> None:
        ids = self._ids
        link = self._link
        if (
            self._is_run
            and not self._outcomes
            and not self._remembers
            and link.rcv_settle_mode == RCV_FIRST
        ):
            self._session.settle(ids[0], ids[count - 1], OUTCOME_ACCEPTED)
        else:
            self._answer_in_runs(count)
        self._answered += count
        if count == len(ids):
            self._ids = []
            self._tags = []
            self._is_run = True
        else:
            del ids[:count]
            if self._remembers:
                del self._tags[:count]

    def _answer_in_runs(self, count: int) -> None:
        """One disposition for each run of ids with the same outcome."""
        first = last = _NO_ID
        said: Composite = OUTCOME_ACCEPTED
        first_settles = True
        for index in range(count):
            delivery_id = self._ids[index]
            outcome: Composite | None = None
            if self._outcomes:
                outcome = self._outcomes.pop(self._answered + 1 + index, None)
            if outcome is None:
                outcome = OUTCOME_ACCEPTED
            if self._remembers:
                self._remember(self._tags[index], outcome)
            if delivery_id == _NO_ID:
                continue
            settles = self._settles(delivery_id)
            if (
                first == _NO_ID
                or outcome is not said
                or settles is not first_settles
                or (last + 1) & _MASK != delivery_id
            ):
                self._say(first, last, said, first_settles)
                first = delivery_id
                said = outcome
                first_settles = settles
            last = delivery_id
        self._say(first, last, said, first_settles)

    def _settles(self, delivery_id: int) -> bool:
        """Whether we settle it, rather than send the outcome and wait."""
        if self._link.rcv_settle_mode == RCV_FIRST:
            return True
        if delivery_id in self._settled_first:
            self._settled_first.discard(delivery_id)
            return True
        return False

    def _say(self, first: int, last: int, outcome: Composite, settles: bool) -> None:
        if first == _NO_ID:
            return
        if settles:
            self._session.settle(first, last, outcome)
            return
        delivery_id = first
        while True:
            self._said[delivery_id] = outcome
            if delivery_id == last:
                break
            delivery_id = (delivery_id + 1) & _MASK
        self._session.say_state(first, last, outcome)

    def sender_settled(self, delivery_id: int, tag: bytes) -> None:
        """Both sides are done with it."""
        self._said.pop(delivery_id, None)
        self.remembered.pop(tag, None)

    def _remember(self, tag: bytes, outcome: Composite) -> None:
        remembered = self.remembered
        remembered.pop(tag, None)
        remembered[tag] = outcome
        if len(remembered) > REMEMBERED_MAX:
            del remembered[next(iter(remembered))]

    # Suspension.

    def suspend(self) -> None:
        """The attachment is gone. Outcomes that are not sent yet will be remembered."""
        unsettled = self._link.unsettled
        if not self._remembers:
            self._remembers = True
            self._tags = [unsettled.get(delivery_id, b"") for delivery_id in self._ids]
        for delivery_id, outcome in self._said.items():
            tag = unsettled.get(delivery_id)
            if tag is not None:
                self._remember(tag, outcome)
        self._said = {}
        self._settled_first = set()
        self._ids = [_NO_ID] * len(self._ids)
        self._is_run = False
        self._is_bound = False

    def resume(
        self,
        session: Session,
        link: ReceivingLink,
        unsettled: dict[bytes, Composite | None],
        remembers: bool,
    ) -> dict[bytes, Composite | None]:
        """Attached again by a producer that has these unsettled. Returns those of them that we
        know, with their outcomes; all others it has settled, and they are forgotten.
        """
        self._session = session
        self._link = link
        self._is_bound = True
        # While something is pending its tag is needed.
        self._remembers = remembers or bool(self._ids)
        known: dict[bytes, Composite | None] = {}
        for tag in unsettled:
            if tag in self.remembered:
                known[tag] = self.remembered[tag]
            elif tag in self._tags:
                known[tag] = None
        self.remembered = {tag: outcome for tag, outcome in self.remembered.items() if tag in known}
        return known

    def repeat(self, delivery_id: int, tag: bytes, settled: bool) -> None:
        """A delivery that we know came again."""
        if tag in self._tags:
            if not settled:
                self._ids[self._tags.index(tag)] = delivery_id
                self._is_run = False
            return
        outcome = self.remembered.pop(tag, None)
        if outcome is None or settled:
            return
        sequence = self.next(delivery_id, tag)
        if outcome is not OUTCOME_ACCEPTED:
            self._outcomes[sequence] = outcome
