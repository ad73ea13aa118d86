"""The link that a program in the simulation receives over, with what it holds unsettled.

One that lasts is known to the node by its name; when it attaches again it names what it holds, with
the outcomes it has chosen, and continues from there.
"""

from typing import Final

from penstock.simulation.amqp10_message import Received, address_of
from penstock.simulation.amqp10_program import Amqp10Program, LinkUser
from penstock.wire.amqp10.conditions_generated import NOT_FOUND, RESOURCE_DELETED
from penstock.wire.amqp10.connection import Connection
from penstock.wire.amqp10.errors import LinkFault
from penstock.wire.amqp10.link import (
    RCV_FIRST,
    RCV_SECOND,
    SND_MIXED,
    SND_SETTLED,
)
from penstock.wire.amqp10.performatives_generated import (
    Accepted,
    Attach,
    Source,
    Target,
)
from penstock.wire.amqp10.receiving import DeliveryListener, ReceivingLink
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import Composite

SECOND_CHANCE: Final = 0.3
SETTLED_CHANCE: Final = 0.08
TIMEOUTS_SECONDS: Final = (1, 20)
# How often only half of what is held is named, so that nothing new comes before another attach.
INCOMPLETE_CHANCE: Final = 0.1
# How often credit is given before the node has attached.
CREDIT_AHEAD_CHANCE: Final = 0.5


class Holding:
    """An unsettled delivery. Held by its link."""

    def __init__(self, delivery_id: int, tag: bytes, name: bytes) -> None:
        self.delivery_id = delivery_id
        self.tag = tag
        self.name = name
        # The outcome that was sent, where the node is to settle first.
        self.outcome: Composite | None = None


class ReceiverLink(LinkUser):
    """Held by its program."""

    def __init__(
        self, program: Amqp10Program, queue: str, prefetch: int, *, lasts: bool, may_settle: bool
    ) -> None:
        super().__init__()
        self.program = program
        self.queue = queue
        self._prefetch = prefetch
        self.lasts = lasts
        dice = program.dice
        self.rcv_settle_mode = RCV_SECOND if dice.chance(SECOND_CHANCE) else RCV_FIRST
        # The node settles when it sends: a delivery that is lost on the way is lost.
        self.is_careless = may_settle and not lasts and dice.chance(SETTLED_CHANCE)
        self._timeout = dice.choose(TIMEOUTS_SECONDS)
        # By tag, oldest first.
        self.held: dict[bytes, Holding] = {}
        self._subscription = ""
        self._attach_count = 0
        # The map that we attached with did not name everything.
        self.is_incomplete = False

    @property
    def receiving(self) -> ReceivingLink | None:
        link = self.link
        assert link is None or isinstance(link, ReceivingLink), "a receiver's own"
        return link

    def undecided(self) -> list[Holding]:
        """Deliveries that may still get an outcome, on the present attachment."""
        return [holding for holding in self._here() if holding.outcome is None]

    def _here(self) -> list[Holding]:
        """Unsettled deliveries on the present attachment."""
        return [holding for holding in self.held.values() if holding.delivery_id >= 0]

    # Attaching.

    def attach(self, wire: Connection, session: Session) -> ReceivingLink:
        self._attach_count += 1
        # Order is promised to one attachment.
        self._subscription = f"{self.program.name}.{self.queue}.{self._attach_count}"
        name = f"{self.program.name}.{self.queue}" if self.lasts else self._subscription
        source = Source(address_of("", self.queue))
        if self.lasts:
            source.expiry_policy = "connection-close"
            source.timeout = self._timeout
        unsettled = {tag: holding.outcome for tag, holding in self.held.items()}
        self.is_incomplete = len(unsettled) > 1 and self.program.dice.chance(INCOMPLETE_CHANCE)
        if self.is_incomplete:
            self.program.history.sighted("a map of unsettled deliveries is not complete")
            unsettled = dict(list(unsettled.items())[: len(unsettled) // 2])
        for holding in self.held.values():
            # Until it is resumed.
            holding.delivery_id = -1
        attach = Attach(
            source=source,
            target=Target(),
            snd_settle_mode=SND_SETTLED if self.is_careless else SND_MIXED,
            rcv_settle_mode=self.rcv_settle_mode,
            unsettled=unsettled or None,
            incomplete_unsettled=self.is_incomplete,
        )
        if self.program.ledger.watches[self.queue].plan.may_vanish:
            self.expected |= {NOT_FOUND, RESOURCE_DELETED}
        link = wire.attach_receiver(session, name, HoldingListener(self), attach)
        link.offer(self._prefetch)
        if self.program.dice.chance(CREDIT_AHEAD_CHANCE):
            link.flow_if_needed()
        return link

    def attached(self, attach: Attach) -> None:
        """Deliveries that the node no longer knows are settled, or others have them."""
        theirs = attach.unsettled or {}
        if not attach.incomplete_unsettled and not self.is_incomplete:
            for tag in [tag for tag in self.held if tag not in theirs]:
                self.program.history.sighted("a held delivery is not known any more")
                del self.held[tag]
        self.give_credit()

    def give_credit(self) -> None:
        link = self.receiving
        if link is None or not self.is_ready:
            return
        if not link.is_draining:
            # A partly received delivery is neither held nor requested.
            half = 1 if link.first is not None else 0
            link.offer(max(0, self._prefetch - len(self._here()) - half))
        # For the session's window too.
        link.flow_if_needed()

    def detached(self, fault: LinkFault | None, closed: bool) -> None:
        if closed or not self.lasts:
            self.held.clear()

    # What comes.

    def got(
        self,
        delivery_id: int,
        tag: bytes,
        payload: bytes,
        settled: bool,
        state: Composite | None,
        is_resumed: bool,
    ) -> None:
        if is_resumed and settled:
            self._resumed_settled(tag)
            return
        received = Received(payload)
        header = received.header
        redelivered = not header.first_acquirer
        ledger = self.program.ledger
        if header.delivery_count and not redelivered:
            ledger.violated(
                f"{self.program.name} got a message with a failed delivery-count that is not "
                "flagged as such"
            )
        name = ledger.delivered(
            self.queue,
            self._subscription,
            received.body,
            redelivered,
            may_be_resent=self.lasts and self._attach_count > 1,
        )
        flag = " again" if redelivered else ""
        flag += " resumed" if is_resumed else ""
        self.program.history.add(f"{self.program.name} got {tag.hex()} {name.decode()}{flag}")
        if settled:
            self._take(name)
            return
        known = self.held.get(tag)
        if is_resumed:
            self.program.history.sighted("a delivery is resumed by a receiver")
            if known is None or known.name != name:
                ledger.violated(f"{self.program.name} got {name!r} resumed with a wrong tag")
        elif known is not None and not self.is_incomplete:
            ledger.violated(
                f"{self.program.name} holds {tag.hex()} and got it again as a new delivery"
            )
        self.held[tag] = Holding(delivery_id, tag, name)
        if len(self._here()) > self._prefetch:
            ledger.violated(f"{self.program.name} holds more than it gave credit for")

    def _take(self, name: bytes) -> None:
        ledger = self.program.ledger
        self.program.history.sighted("a receiver gets what is settled")
        if not self.is_careless:
            ledger.violated(
                f"{self.program.name} got {name!r} settled although it did not ask for settled "
                "deliveries"
            )
        elif (self.queue, name) not in ledger.taken:
            ledger.violated(f"{self.program.name} got {name!r}, which {self.queue} still has")
        ledger.acknowledged(self.queue, name)

    def _resumed_settled(self, tag: bytes) -> None:
        """The node has applied the outcome in our map."""
        holding = self.held.pop(tag, None)
        if holding is None or holding.outcome is None:
            self.program.ledger.violated(f"{self.program.name} heard that {tag.hex()} is settled")
            return
        self.program.history.sighted("an outcome in the map is applied")
        self._is_sure(holding, holding.outcome)

    def node_settled(self, tag: bytes, state: Composite | None) -> None:
        """We have sent an outcome, and the node has settled; or it has requeued what we got in a
        transaction that was rolled back.
        """
        self.program.history.add(f"{self.program.name} hears {tag.hex()} settled: {state}")
        holding = self.held.pop(tag, None)
        if holding is not None and holding.outcome is not None:
            if state is None:
                self.program.ledger.violated(f"{self.program.name} hears of no outcome")
            self._is_sure(holding, state)

    def _is_sure(self, holding: Holding, outcome: Composite | None) -> None:
        """An acknowledgement that the node has confirmed must survive everything."""
        if isinstance(outcome, Accepted):
            self.program.history.sighted("an acknowledgement is known to be done")
            self.program.ledger.acknowledgement_committed(self.queue, holding.name)


class HoldingListener(DeliveryListener):
    """Held by the wire's link, for one attachment."""

    def __init__(self, user: ReceiverLink) -> None:
        self._user = user

    def delivery_received(
        self,
        link: ReceivingLink,
        delivery_id: int,
        tag: bytes,
        payload: bytes,
        settled: bool,
        message_format: int,
        state: Composite | None,
    ) -> None:
        link.session.taken(1)
        if self._user.link is link:
            is_resumed = link.delivery_is_resumed
            self._user.got(delivery_id, tag, payload, settled, state, is_resumed)

    def sender_settled(
        self, link: ReceivingLink, delivery_id: int, tag: bytes, state: Composite | None
    ) -> None:
        if self._user.link is link:
            self._user.node_settled(tag, state)

    def drained(self, link: ReceivingLink) -> None:
        self._user.program.history.sighted("a link is drained")
