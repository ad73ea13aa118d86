"""The outgoing half of a channel: delivery tags, the channel's own prefetch limit, and what waits
for acknowledgement.
"""

from typing import Final

from penstock.broker.consumer import UNLIMITED
from penstock.broker.entry import BROKER_ITSELF
from penstock.dialects.amqp091.unacknowledged import Receiver, Unacknowledged
from penstock.dialects.facts import UNKNOWN
from penstock.dialects.translator import Translator
from penstock.formats.amqp091_frames import FRAME_OVERHEAD
from penstock.wire.amqp091.connection import Connection as WireConnection
from penstock.wire.outgoing import Outgoing

NO_LIMIT: Final = 0
# Credit of a channel that has ended: settling what is out cannot lift it above zero again.
CLOSED: Final = -UNLIMITED


class Deliveries:
    """Held by a channel and shared with its consumers."""

    def __init__(
        self,
        number: int,
        wire: WireConnection,
        translator: Translator,
        holder: int = BROKER_ITSELF,
    ) -> None:
        self.number: int = number
        # The number under which queues note the channel as holder, whichever consumer took an
        # entry.
        self.holder: int = holder
        self.wire: WireConnection = wire
        self.outgoing: Outgoing = wire.outgoing
        self.translator: Translator = translator
        self.body_size_max: int = wire.frame_max - FRAME_OVERHEAD
        # The last delivery tag given out.
        self.tag: int = 0
        # Of these, what went to basic.get, what was acknowledged there at once, what was sent once
        # more, and what came back.
        self.got: int = 0
        self.got_unowned: int = 0
        self.got_empty: int = 0
        self.redelivered: int = 0
        self.returned: int = 0
        # Whether it ever had consumers that acknowledge, and others.
        self.has_had_owners: bool = False
        self.has_had_unowned: bool = False
        # All but the last octet of the tag that was last asked for, as a number and as octets.
        self._upper: int = 0
        self._upper_octets: bytes = b"\0\0\0\0\0\0\0"
        self.unacknowledged: Unacknowledged = Unacknowledged()
        # How many more the channel as a whole may have unacknowledged (basic.qos with global).
        self.credit: int = UNLIMITED
        self.has_limit: bool = False
        # Consumers that found the channel's credit used up; their queues are dispatched again when
        # some of it is returned.
        self._starved: list[Receiver] = []

    def delivered_unowned(self) -> int:
        """Deliveries to consumers that do not acknowledge; UNKNOWN where there were others too, for
        nobody counts them one by one.
        """
        if not self.has_had_unowned:
            return 0
        return UNKNOWN if self.has_had_owners else self.tag - self.got - self.got_unowned

    def acknowledged(self) -> int:
        """What is neither out nor has come back; UNKNOWN in the same case."""
        unowned = self.delivered_unowned()
        if unowned == UNKNOWN:
            return UNKNOWN
        settled = self.tag - self.got_unowned - unowned - self.unacknowledged.count
        return max(settled - self.returned, 0)

    def close(self) -> None:
        """The channel has ended: its consumers take nothing more, whatever is requeued."""
        self.credit = CLOSED
        self._starved = []

    def set_limit(self, count: int) -> None:
        """Limit the whole channel, counting what is out already; NO_LIMIT lifts it."""
        self.has_limit = count != NO_LIMIT
        self.credit = count - self.unacknowledged.count if self.has_limit else UNLIMITED
        self._feed()

    def upper_octets(self, tag: int) -> bytes:
        """All but the last octet of a delivery tag; 256 tags in a row share them."""
        if tag >> 8 != self._upper:
            self._upper = tag >> 8
            self._upper_octets = self._upper.to_bytes(7, "big")
        return self._upper_octets

    def has_credit_for(self, receiver: Receiver) -> bool:
        """Whether the channel as a whole may take one more. A 'no' is remembered."""
        if self.credit > 0:
            return True
        if receiver not in self._starved:
            self._starved.append(receiver)
        return False

    def settled(self, count: int) -> None:
        self.credit += count
        if self._starved:
            self._feed()

    def _feed(self) -> None:
        starved = self._starved
        self._starved = []
        for receiver in starved:
            receiver.queue.touch()
