"""Session windows: how many transfers may cross a session, each way (specification 2.5.6).

docs/design/amqp10.md gives the rules and their reasons. In short:

- A window counts transfer frames. A frame that does not complete its delivery is taken at once,
  into the link's assembly; the one that completes it holds its place until the owner says
  `taken`. So a delivery of many frames never waits for itself.
- `incoming_window` is what the peer may still send, as far as it knows; it shrinks with every frame
  and is opened again by a flow, to the limit less what is not taken, when half of the limit has
  come free or none was left.
- `remote_incoming_window` is the same of the other side, as its last flow gives it.
- `outgoing_window` is our own bound on deliveries sent and not settled.

Invariants: 0 <= incoming_window <= limit - untaken; nothing is sent while `room()` is 0; ids are
serial numbers.
"""

from penstock.wire.amqp10.conditions_generated import INVALID_FIELD
from penstock.wire.amqp10.errors import SessionFault
from penstock.wire.amqp10.framing import AMQP_FRAME, encode_frame
from penstock.wire.amqp10.limits import Limits
from penstock.wire.amqp10.performatives_generated import Begin, Flow
from penstock.wire.amqp10.serial import MASK, advance, difference
from penstock.wire.outgoing import Outgoing


class SessionWindow:
    """The part of a session that its links need: where they write, and how much they may."""

    def __init__(self, channel: int, outgoing: Outgoing, limits: Limits, frame_max: int) -> None:
        # The channel number that we send on; the peer has its own for the same session.
        self.channel: int = channel
        self.outgoing: Outgoing = outgoing
        # The largest frame the peer takes.
        self.frame_max: int = frame_max
        # False before begin and from end on: nothing may be sent.
        self.is_open: bool = False

        # Incoming.
        self.window_max: int = limits.incoming_window
        self.incoming_window: int = limits.incoming_window
        self.untaken: int = 0
        self.next_incoming_id: int = 0
        self.remote_outgoing_window: int = 0

        # Outgoing.
        self.initial_outgoing_id: int = 0
        self.next_outgoing_id: int = 0
        self.outgoing_window: int = limits.outgoing_window
        self.remote_incoming_window: int = 0
        self.next_delivery_id: int = 0
        # A link found no room to send; the links must be asked again once there is some.
        self.is_stalled: bool = False

    def begun_by_peer(self, begin: Begin) -> None:
        self.next_incoming_id = begin.next_outgoing_id
        self.remote_outgoing_window = begin.outgoing_window
        # The peer did not yet know what was sent before this arrived.
        sent = difference(self.next_outgoing_id, self.initial_outgoing_id)
        self.remote_incoming_window = begin.incoming_window - sent

    def flow_from_peer(self, flow: Flow) -> None:
        """The peer's view of both windows; frames are in order, so it is at most as old as the
        frames of ours that are under way.
        """
        seen = flow.next_incoming_id
        if seen is None:
            # Sent before the peer got our begin.
            seen = self.initial_outgoing_id
        under_way = difference(self.next_outgoing_id, seen)
        if under_way < 0:
            text = f"flow has seen transfer {seen}, {self.next_outgoing_id} is the next"
            raise SessionFault(INVALID_FIELD, text)
        self.next_incoming_id = flow.next_outgoing_id
        self.remote_outgoing_window = flow.outgoing_window
        self.remote_incoming_window = flow.incoming_window - under_way

    def room(self) -> int:
        """Transfers that may be sent now. If there is none, that is remembered until there is
        room.
        """
        room = min(self.remote_incoming_window, self.outgoing_window)
        if room <= 0 or not self.is_open:
            self.is_stalled = True
            return 0
        return room

    def frame_sent(self) -> None:
        self.next_outgoing_id = (self.next_outgoing_id + 1) & MASK
        self.remote_incoming_window -= 1

    def frame_received(self) -> None:
        self.next_incoming_id = (self.next_incoming_id + 1) & MASK
        self.remote_outgoing_window -= 1
        self.incoming_window -= 1

    def taken(self, count: int) -> None:
        """The owner has handled this many deliveries: settled, stored or passed on."""
        self.untaken -= count
        assert self.untaken >= 0, "more deliveries taken than received"

    def is_flow_due(self) -> bool:
        free = self.window_max - self.untaken - self.incoming_window
        return free > 0 and (free * 2 >= self.window_max or self.incoming_window == 0)

    def flow_if_needed(self) -> None:
        """Opens the incoming window again when that is worth a frame."""
        if self.is_open and self.is_flow_due():
            self.send_flow(Flow())

    def send_flow(self, flow: Flow) -> None:
        """Fills in the session's part; the caller fills in the link's part, if any."""
        self.incoming_window = self.window_max - self.untaken
        flow.next_incoming_id = self.next_incoming_id
        flow.incoming_window = self.incoming_window
        flow.next_outgoing_id = self.next_outgoing_id
        flow.outgoing_window = max(self.outgoing_window, 0)
        self.outgoing.push(encode_frame(AMQP_FRAME, self.channel, flow.encode()))

    def next_delivery(self) -> int:
        """The id for one more delivery of ours."""
        delivery_id = self.next_delivery_id
        self.next_delivery_id = advance(delivery_id, 1)
        return delivery_id
