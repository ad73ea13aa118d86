"""Publisher confirms of one channel, coalesced.

Sequence numbers count up with every publish. Most messages complete at once and are confirmed
together at the end of the tick with `multiple`; a held message keeps back the confirms of all later
ones, which keeps them in order and lets one frame confirm many.

Invariants: every sequence number is acknowledged or refused exactly once, in order.
"""

from penstock.dialects.container import Durability, EndOfTickAnswer
from penstock.dialects.ordered_answers import OrderedAnswers
from penstock.formats.amqp091_frames import ACK_START, END, METHOD, NACK_START
from penstock.wire.outgoing import Outgoing


class Confirms(OrderedAnswers):
    """Held by a channel in confirm mode, and by its messages until they are complete."""

    def __init__(
        self,
        answer_list: list[EndOfTickAnswer],
        outgoing: Outgoing,
        channel_number: int,
        durability: Durability,
        identity: str = "",
    ) -> None:
        super().__init__(answer_list, durability)
        self._identity: str = identity
        self._outgoing: Outgoing = outgoing
        self._frame_start: bytes = METHOD + channel_number.to_bytes(2, "big")
        self._refused: set[int] = set()

    def identity(self) -> str:
        return self._identity

    def next(self) -> int:
        """The sequence number of a publish that has just come."""
        if not self._is_listed:
            self._is_listed = True
            self._answer_list.append(self)
        self.sequence += 1
        return self.sequence

    def outgoing_of(self) -> Outgoing | None:
        return self._outgoing

    def refused(self, sequence: int) -> None:
        """It is answered with basic.nack."""
        self._refused.add(sequence)

    def flush(self) -> None:
        """Answer everything up to the first held message; called once per tick."""
        self._is_listed = False
        if self.closed:
            # There is no client left to answer, so there is nothing to wait for either.
            self._waits.clear()
            return
        limit = self.answerable()
        if self._refused:
            self._answer_refused(limit)
        if limit > self._answered:
            self._answer(ACK_START, limit)

    def _answer_refused(self, limit: int) -> None:
        kept: set[int] = set()
        for sequence in sorted(self._refused):
            if sequence > limit:
                kept.add(sequence)
                continue
            if sequence - 1 > self._answered:
                self._answer(ACK_START, sequence - 1)
            self._answer(NACK_START, sequence)
        self._refused = kept

    def _answer(self, method: bytes, sequence: int) -> None:
        multiple = b"\x01" if sequence > self._answered + 1 else b"\x00"
        self._answered = sequence
        self._outgoing.push(
            b"".join([self._frame_start, method, sequence.to_bytes(8, "big"), multiple, END])
        )
