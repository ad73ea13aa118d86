"""The outgoing half of a channel: delivery tags, the channel's own prefetch limit, and what waits
for acknowledgement.
"""

from typing import Final

from penstock.broker.consumer import UNLIMITED
from penstock.dialects.amqp091.unacknowledged import Unacknowledged
from penstock.wire.amqp091.connection import Connection as WireConnection
from penstock.wire.amqp091.framing import FRAME_OVERHEAD
from penstock.wire.outgoing import Outgoing

NO_LIMIT: Final = 0
# Credit of a channel that has ended: settling what is out cannot lift it above zero again.
CLOSED: Final = -UNLIMITED


class Deliveries:
    """Held by a channel and shared with its consumers."""

    def __init__(self, number: int, wire: WireConnection) -> None:
        self.number: int = number
        self.wire: WireConnection = wire
        self.outgoing: Outgoing = wire.outgoing
        self.body_size_max: int = wire.frame_max - FRAME_OVERHEAD
        # The last delivery tag given out.
        self.tag: int = 0
        self.unacknowledged: Unacknowledged = Unacknowledged()
        # How many more the channel as a whole may have unacknowledged (basic.qos with global).
        self.credit: int = UNLIMITED
        self.has_limit: bool = False

    def close(self) -> None:
        """The channel has ended: its consumers take nothing more, whatever is given back."""
        self.credit = CLOSED

    def set_limit(self, count: int) -> None:
        """Limit the whole channel, counting what is out already; NO_LIMIT lifts it."""
        self.has_limit = count != NO_LIMIT
        self.credit = count - self.unacknowledged.count if self.has_limit else UNLIMITED
