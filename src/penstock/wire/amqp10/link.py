"""What both kinds of link share: names, handles, state and credit (specification 2.6).

Invariants
- `credit` counts deliveries that may still be sent, as far as this side knows; `delivery_count` is
  the sender's count, as both know it. Their sum is the delivery limit.
- `is_attached` is all that the data plane checks; only `connection` changes `state`.
"""

from typing import Final

from penstock.wire.amqp10.performatives_generated import Attach, Source
from penstock.wire.amqp10.states import LinkState
from penstock.wire.amqp10.values import Composite
from penstock.wire.amqp10.window import SessionWindow

# Values of role on the wire.
SENDER: Final = False
RECEIVER: Final = True

# Values of snd-settle-mode and rcv-settle-mode.
SND_UNSETTLED: Final = 0
SND_SETTLED: Final = 1
SND_MIXED: Final = 2
RCV_FIRST: Final = 0
RCV_SECOND: Final = 1


class Link:
    """Parent of `ReceivingLink` and `SendingLink`; held by its session and by the owner."""

    def __init__(self, session: SessionWindow, name: str, is_receiver: bool) -> None:
        self.session: SessionWindow = session
        self.name: str = name
        # Our own role.
        self.is_receiver: bool = is_receiver
        self.state: LinkState = LinkState.DETACHED
        self.is_attached: bool = False
        # Ours and the peer's; -1 while there is none.
        self.handle: int = -1
        self.remote_handle: int = -1

        # What the two attaches agreed on: the sender defines how it settles and the source, the
        # receiver how it settles and the target.
        self.source: Source | None = None
        self.target: Composite | None = None
        self.snd_settle_mode: int = SND_MIXED
        self.rcv_settle_mode: int = RCV_FIRST
        # The largest message the peer takes; 0 is any.
        self.message_bytes_max: int = 0
        # The peer's attach: its unsettled map, properties and capabilities are for the owner.
        self.remote: Attach | None = None

        self.credit: int = 0
        self.delivery_count: int = 0
        self.is_draining: bool = False
        # Deliveries waiting at the sender, as it says.
        self.available: int = 0
        # We have sent an orderly detach; the listener is told of its end with the answer.
        self.tell_when_ended: bool = False
        self.was_closed: bool = False

    def heard(self, attach: Attach) -> None:
        """The peer's attach: the negotiated values are the sender's and the receiver's own."""
        self.remote = attach
        self.remote_handle = attach.handle
        self.message_bytes_max = attach.max_message_size or 0
        self._agree(attach, not self.is_receiver)

    def said(self, attach: Attach) -> None:
        self.handle = attach.handle
        self._agree(attach, self.is_receiver)

    def _agree(self, attach: Attach, by_receiver: bool) -> None:
        if by_receiver:
            self.rcv_settle_mode = attach.rcv_settle_mode
            self.target = attach.target
            if self.source is None:
                self.source = attach.source
        else:
            self.snd_settle_mode = attach.snd_settle_mode
            self.source = attach.source
            if self.target is None:
                self.target = attach.target

    def silence(self) -> None:
        """Detached or its session gone: nothing is sent or handled any more."""
        self.is_attached = False
        self.credit = 0

    def attached(self) -> None:
        self.is_attached = True
