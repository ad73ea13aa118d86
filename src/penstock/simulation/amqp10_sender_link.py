"""The links that programs in the simulation send over: one that ends with its attachment, and one that
outlives it and is resumed.
"""

from abc import abstractmethod
from collections import deque
from typing import Final

from penstock.simulation.amqp10_message import address_of
from penstock.simulation.amqp10_program import Amqp10Program, LinkUser
from penstock.simulation.copies import Copy
from penstock.simulation.lives import Lives
from penstock.wire.amqp10.conditions_generated import INVALID_FIELD, NOT_FOUND
from penstock.wire.amqp10.connection import Connection
from penstock.wire.amqp10.errors import LinkFault
from penstock.wire.amqp10.link import RCV_FIRST, RCV_SECOND
from penstock.wire.amqp10.performatives_generated import (
    Accepted,
    Attach,
    Modified,
    Rejected,
    Released,
    Source,
    Target,
    Transfer,
)
from penstock.wire.amqp10.sending import SendingLink, SentDelivery, SettlementListener
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import Composite

# Some let the node settle only after they have.
SECOND_CHANCE: Final = 0.3
# How long links are kept after a lost connection: very briefly, and longer than any program is
# away.
TIMEOUTS_SECONDS: Final = (1, 20, 20)
# Within this time a link of the longer kind is known to be kept.
KEPT_MS: Final = 10_000
# How often an outcome that was received with the map is settled.
SETTLES_CHANCE: Final = 0.5


def is_outcome(state: Composite | None) -> bool:
    return isinstance(state, (Accepted, Rejected, Released, Modified))


class SendingProgram(Amqp10Program):
    """A program with links that it sends over."""

    lives: Lives

    @abstractmethod
    def answered(self, copy: Copy, outcome: Composite | None) -> None:
        """The node's final outcome for a copy."""

    @abstractmethod
    def doubted(self, copy: Copy) -> None:
        """Its outcome is unknown."""

    @abstractmethod
    def head(self, copy: Copy) -> bytes:
        """What comes before the body."""


class SentCopy(SentDelivery):
    """A delivery that waits for its outcome. Held by the wire's link."""

    def __init__(self, copy: Copy, tag: bytes = b"") -> None:
        super().__init__()
        self.copy = copy
        self.tag = tag


class SenderLink(LinkUser):
    """Held by its program."""

    def __init__(self, program: SendingProgram, order: tuple[str, str] | None) -> None:
        super().__init__()
        self.program = program
        # None for the anonymous terminus.
        self._order = order
        self.rcv_settle_mode = RCV_SECOND if program.dice.chance(SECOND_CHANCE) else RCV_FIRST
        # Without an outcome, in the order of their sending.
        self.unanswered: dict[bytes, Copy] = {}

    @property
    def sending(self) -> SendingLink | None:
        link = self.link
        assert link is None or isinstance(link, SendingLink), "a sender's own"
        return link

    def attach(self, wire: Connection, session: Session, number: int) -> SendingLink:
        order = self._order
        target = Target(None if order is None else address_of(*order))
        attach = Attach(source=Source(), target=target, rcv_settle_mode=self.rcv_settle_mode)
        if order is not None and order[0] == "":
            watch = self.program.ledger.watches.get(order[1])
            if watch is not None and watch.plan.may_vanish:
                self.expected.add(NOT_FOUND)
        name = f"{self.program.name}.{number}"
        return wire.attach_sender(session, name, CopySettlement(self), attach)

    def outstanding(self) -> int:
        return len(self.unanswered)

    def is_half_sent(self) -> bool:
        return self.sending is not None and self.sending.is_waiting()

    def has_capacity(self) -> bool:
        return self.is_ready and self.sending is not None and self.sending.capacity() > 0

    def resume(self) -> bool:
        """Send what is left from an earlier attachment; returns whether everything was sent."""
        return True

    def send(self, copy: Copy, *, is_settled: bool) -> None:
        link = self.sending
        assert link is not None, "asked for its capacity before"
        head = self.program.head(copy)
        if is_settled:
            self.program.history.sighted("a message is sent settled")
            self.program.ledger.doubted(copy)
            link.send_settled(head, copy.section)
            return
        self.unanswered[copy.name] = copy
        link.send(self.sent(copy), head, copy.section)

    def sent(self, copy: Copy) -> SentCopy:
        return SentCopy(copy)

    def updated(
        self, link: SendingLink, sent: SentCopy, state: Composite | None, settled: bool
    ) -> None:
        if self.link is not link or (not settled and not is_outcome(state)):
            return
        if not settled:
            session = self.program.session
            assert session is not None, "heard on it"
            session.settle_sent(sent.delivery_id, sent.delivery_id, state)
        if self.unanswered.pop(sent.copy.name, None) is None:
            self.program.ledger.violated(f"{sent.copy.name!r} was answered twice")
            return
        self.program.answered(sent.copy, state)

    def detached(self, fault: LinkFault | None, closed: bool) -> None:
        copies = list(self.unanswered.values())
        self.unanswered.clear()
        for copy in copies:
            self.program.doubted(copy)


class CopySettlement(SettlementListener):
    """Held by the wire's link, for one attachment."""

    def __init__(self, user: SenderLink) -> None:
        self._user = user

    def credit_changed(self, link: SendingLink) -> None:
        """Handled in the next turn."""

    def delivery_updated(
        self, link: SendingLink, sent: SentDelivery, state: Composite | None, settled: bool
    ) -> None:
        if isinstance(sent, SentCopy):
            self._user.updated(link, sent, state, settled)


class LastingLink(SenderLink):
    """Outlives its attachments: a delivery without an outcome is sent again as the same one, and
    must not be in any queue twice.
    """

    def __init__(self, program: SendingProgram, order: tuple[str, str] | None) -> None:
        super().__init__(program, order)
        self._timeout = program.dice.choose(TIMEOUTS_SECONDS)
        # The start of the node in which each was sent first.
        self._lives: dict[bytes, int] = {}
        # To be sent again: whether as a delivery that the node knows; and tags whose outcomes came
        # with the attach.
        self._owed: deque[tuple[Copy, bool]] = deque()
        self._heard: deque[bytes] = deque()

    def attach(self, wire: Connection, session: Session, number: int) -> SendingLink:
        self._owed.clear()
        self._heard.clear()
        attach = Attach(
            source=Source(),
            target=Target(timeout=self._timeout, expiry_policy="connection-close"),
            rcv_settle_mode=self.rcv_settle_mode,
            unsettled=dict.fromkeys(self.unanswered, None) or None,
        )
        return wire.attach_sender(
            session, f"{self.program.name}.lasting", CopySettlement(self), attach
        )

    def sent(self, copy: Copy) -> SentCopy:
        self._lives[copy.name] = self.program.lives.life
        return SentCopy(copy, copy.name)

    def attached(self, attach: Attach) -> None:
        theirs = attach.unsettled or {}
        for tag, copy in list(self.unanswered.items()):
            state = theirs.get(tag)
            if is_outcome(state):
                self.program.history.sighted("an outcome is heard from the map")
                del self.unanswered[tag]
                self.program.answered(copy, state)
                if self.program.dice.chance(SETTLES_CHANCE):
                    self._heard.append(tag)
            elif tag in theirs:
                self._owed.append((copy, True))
            elif self._is_kept(copy) and not attach.incomplete_unsettled:
                self._owed.append((copy, False))
            else:
                del self.unanswered[tag]
                self.program.doubted(copy)

    def _is_kept(self, copy: Copy) -> bool:
        """Whether the node must know the delivery if it has arrived."""
        is_same_life = self._lives.get(copy.name) == self.program.lives.life
        age = self.program.clock.now() - copy.sent_ms
        return is_same_life and self._timeout * 1000 > KEPT_MS > age

    def resume(self) -> bool:
        link = self.sending
        while (self._owed or self._heard) and link is not None and self.has_capacity():
            if self._heard:
                tag = self._heard.popleft()
                link.send_as(Transfer(delivery_tag=tag, settled=True, resume=True), b"")
                continue
            copy, is_known = self._owed.popleft()
            what = "is resumed" if is_known else "is sent again with its tag"
            self.program.history.sighted(f"a delivery {what}")
            transfer = Transfer(delivery_tag=copy.name, settled=False, resume=is_known)
            sent = SentCopy(copy, copy.name)
            link.send_again(sent, transfer, self.program.head(copy) + copy.section)
        return self.is_ready and not self._owed and not self._heard

    def detached(self, fault: LinkFault | None, closed: bool) -> None:
        # The remaining ones are still unanswered. If the node had a reason to close the link, we
        # may have lost our connection before we got the detach.
        if closed or INVALID_FIELD in self.expected:
            super().detached(fault, closed)
