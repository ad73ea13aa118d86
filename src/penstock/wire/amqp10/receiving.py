"""The receiving end of a link: grants credit, assembles deliveries (specification 2.6.7, 2.6.14).

Invariants
- No delivery is accepted beyond the credit that was given. When credit is lowered, what the sender
  may have sent before it knew of that is tolerated: `credit` goes below 0, down to `-overdraft`.
- A partly received delivery holds at most the link's largest message; `expects_whole` is false
  while there is one.
- Flows are coalesced: `offer` only notes what is wanted, `flow_if_needed` sends it to the peer when
  half of it has been used up.
"""

from mypy_extensions import mypyc_attr

from penstock.wire.amqp10.conditions_generated import INVALID_FIELD
from penstock.wire.amqp10.errors import LinkFault
from penstock.wire.amqp10.link import RECEIVER, Link
from penstock.wire.amqp10.performatives_generated import Flow, Transfer
from penstock.wire.amqp10.serial import difference
from penstock.wire.amqp10.states import LinkState
from penstock.wire.amqp10.values import Composite
from penstock.wire.amqp10.window import SessionWindow


@mypyc_attr(allow_interpreted_subclasses=True)
class DeliveryListener:
    """The receiver of the deliveries of one link. May raise faults of all three levels."""

    def delivery_received(
        self,
        link: "ReceivingLink",
        delivery_id: int,
        tag: bytes,
        payload: bytes,
        settled: bool,
        message_format: int,
        state: Composite | None,
    ) -> None:
        """A whole delivery. The session's window waits for `session.taken(1)`; an unsettled one
        also for `Session.settle`. Of one that began on an earlier attachment of the link,
        `link.delivery_is_resumed` is set meanwhile.
        """
        raise NotImplementedError

    def sender_settled(
        self, link: "ReceivingLink", delivery_id: int, tag: bytes, state: Composite | None
    ) -> None:
        """The sender has settled a delivery that we have not: it is over."""
        raise NotImplementedError

    def drained(self, link: "ReceivingLink") -> None:
        """The sender has no more: the remaining credit is used up."""


@mypyc_attr(allow_interpreted_subclasses=True)
class RequestListener(DeliveryListener):
    """A listener that handles each delivery when it arrives, and settles it then: a resumed one is
    like any other, and nothing is left for its sender to settle.
    """

    def request_received(
        self, link: "ReceivingLink", delivery_id: int, payload: bytes, settled: bool
    ) -> None:
        """As `delivery_received`."""
        raise NotImplementedError

    def delivery_received(
        self,
        link: "ReceivingLink",
        delivery_id: int,
        tag: bytes,
        payload: bytes,
        settled: bool,
        message_format: int,
        state: Composite | None,
    ) -> None:
        self.request_received(link, delivery_id, payload, settled)

    def sender_settled(
        self, link: "ReceivingLink", delivery_id: int, tag: bytes, state: Composite | None
    ) -> None:
        """We have settled already."""


class ReceivingLink(Link):
    """Held by its session; the owner gives credit and settles."""

    def __init__(
        self, session: SessionWindow, name: str, listener: DeliveryListener, message_bytes_max: int
    ) -> None:
        super().__init__(session, name, RECEIVER)
        self.listener: DeliveryListener = listener
        # Our value, from our attach.
        self.own_message_bytes_max: int = message_bytes_max
        # Checked by the frame loop: attached, and no delivery partly received.
        self.expects_whole: bool = False
        # Delivery tags of what the peer sent unsettled and we have not settled, by delivery id.
        self.unsettled: dict[int, bytes] = {}

        # The credit that the owner wants to give, and whether the peer does not know it yet.
        self.wanted: int = 0
        self._is_lower: bool = False
        # Deliveries beyond `credit` that had been allowed once.
        self.overdraft: int = 0

        # rcv-settle-mode of the delivery that is being passed on; None when it has none of its own.
        self.delivery_settle_mode: int | None = None
        # Whether that delivery began on an earlier attachment of the link.
        self.delivery_is_resumed: bool = False

        # The delivery in the making.
        self.first: Transfer | None = None
        self.assembly: bytearray = bytearray()
        self.is_settled: bool = False
        self.held_state: Composite | None = None

    def attached(self) -> None:
        super().attached()
        self.expects_whole = True

    def silence(self) -> None:
        super().silence()
        self.forget_assembly()
        self.expects_whole = False

    def forget_assembly(self) -> None:
        self.first = None
        self.held_state = None
        self.expects_whole = self.is_attached
        if self.assembly:
            self.assembly = bytearray()

    def offer(self, credit: int) -> None:
        """This many deliveries are wanted from now on; sent by the next `flow_if_needed`."""
        if credit < self.wanted and credit < self.credit:
            self._is_lower = True
        self.wanted = credit

    def flow_if_needed(self) -> None:
        if not self.is_attached and self.state is not LinkState.ATTACH_SENT:
            return
        missing = self.wanted - self.credit
        # While the sender drains, more credit would be drained away.
        is_due = missing > 0 and not self.is_draining
        is_due = is_due and (missing * 2 >= self.wanted or self.credit <= 0)
        if is_due or self._is_lower:
            self.overdraft = max(0, self.overdraft + self.credit - self.wanted)
            self.credit = self.wanted
            self.send_flow(False)
        else:
            self.session.flow_if_needed()

    def drain(self) -> None:
        """Ask the sender to use up the credit at once, or to give it back."""
        self.is_draining = True
        self.send_flow(False)

    def send_flow(self, echo: bool) -> None:
        self._is_lower = False
        flow = Flow(
            handle=self.handle, link_credit=max(self.credit, 0), drain=self.is_draining, echo=echo
        )
        if self.remote is not None:
            # Not known before the sender's attach.
            flow.delivery_count = self.delivery_count
        self.session.send_flow(flow)

    def flow_from_sender(self, flow: Flow) -> bool:
        """Whether draining has ended."""
        if flow.available is not None:
            self.available = flow.available
        if flow.delivery_count is not None:
            ahead = difference(flow.delivery_count, self.delivery_count)
            if ahead < 0 or ahead > self.credit + self.overdraft:
                was = f"{self.delivery_count} with credit {self.credit}"
                text = f"delivery-count {flow.delivery_count} after {was}"
                raise LinkFault(INVALID_FIELD, text)
            self.delivery_count = flow.delivery_count
            self.credit -= ahead
        if self.is_draining and self.credit <= 0:
            self.is_draining = False
            return True
        return False

    def forget_range(self, first: int, last: int) -> list[tuple[int, bytes]]:
        """Settled by either side: what was unsettled in the range, in its order."""
        found: list[tuple[int, bytes]] = []
        unsettled = self.unsettled
        if not unsettled:
            return found
        for delivery_id in ids_between(first, last, unsettled):
            tag = unsettled.pop(delivery_id, None)
            if tag is not None:
                found.append((delivery_id, tag))
        return found


def ids_between(first: int, last: int, known: dict[int, bytes]) -> list[int]:
    """The ids of a range that may be known: never more than there are."""
    span = (last - first) & 0xFFFF_FFFF
    if span < len(known):
        return [(first + step) & 0xFFFF_FFFF for step in range(span + 1)]
    return [delivery_id for delivery_id in known if (delivery_id - first) & 0xFFFF_FFFF <= span]
