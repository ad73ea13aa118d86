"""Publisher confirms of one channel, coalesced.

Sequence numbers count up with every publish. Most messages complete at once and are confirmed
together at the end of the tick with `multiple`; a held message keeps back the confirms of all later
ones, which keeps them in order and lets one frame confirm many.

Invariants: every sequence number is acknowledged or refused exactly once, in order.
"""

from collections import deque

from penstock.dialects.container import Durability, EndOfTickAnswer
from penstock.formats.amqp091_frames import ACK_START, END, METHOD, NACK_START
from penstock.wire.outgoing import Outgoing


class Confirms(EndOfTickAnswer):
    """Held by a channel in confirm mode, and by its messages until they are complete."""

    def __init__(
        self,
        answer_list: list[EndOfTickAnswer],
        outgoing: Outgoing,
        channel_number: int,
        durability: Durability,
        identity: str = "",
    ) -> None:
        self._identity: str = identity
        # Channels with something to confirm at the end of this tick.
        self._answer_list: list[EndOfTickAnswer] = answer_list
        self._is_listed: bool = False
        self._outgoing: Outgoing = outgoing
        self._frame_start: bytes = METHOD + channel_number.to_bytes(2, "big")
        # The last sequence number given to a publish, and the last one that was answered.
        self.sequence: int = 0
        self._answered: int = 0
        self._held: deque[int] = deque()
        self._completed: set[int] = set()
        self._refused: set[int] = set()
        # The first sequence number of this tick whose message was written down, or 0; and for
        # earlier ticks such numbers with the journal position that must become safe first.
        self._first_journalled: int = 0
        self._waits: deque[tuple[int, int]] = deque()
        self._durability: Durability = durability
        self.closed: bool = False

    def identity(self) -> str:
        return self._identity

    def answered(self) -> int:
        """How many publishes were confirmed, or refused."""
        return self._answered

    def next(self) -> int:
        """The sequence number of a publish that has just come."""
        if not self._is_listed:
            self._is_listed = True
            self._answer_list.append(self)
        self.sequence += 1
        return self.sequence

    def held(self, sequence: int) -> None:
        self._held.append(sequence)

    def completed(self, sequence: int) -> None:
        self._completed.add(sequence)
        if not self._is_listed:
            self._is_listed = True
            self._answer_list.append(self)

    def journalled(self, sequence: int) -> None:
        """The message was written down: its confirm, and all later ones, wait for the flush."""
        if self._first_journalled == 0:
            self._first_journalled = sequence

    def is_waiting(self) -> bool:
        """Whether more of the journal has to become durable before more can be answered."""
        return bool(self._waits)

    def outgoing_of(self) -> Outgoing | None:
        return self._outgoing

    def became_durable(self) -> None:
        """More of the journal is durable than before."""
        if not self._is_listed:
            self._is_listed = True
            self._answer_list.append(self)

    def refused(self, sequence: int) -> None:
        """It is answered with basic.nack."""
        self._refused.add(sequence)

    def flush(self) -> None:
        """Answer everything up to the first held message; called once per tick."""
        self._is_listed = False
        if self.closed:
            # Nobody is left to answer, so nothing is waited for either.
            self._waits.clear()
            return
        held = self._held
        while held and held[0] in self._completed:
            self._completed.discard(held.popleft())
        limit = held[0] - 1 if held else self.sequence
        if self._first_journalled:
            self._waits.append((self._first_journalled, self._durability.written))
            self._first_journalled = 0
        waits = self._waits
        while waits and waits[0][1] <= self._durability.durable:
            waits.popleft()
        if waits and waits[0][0] <= limit:
            limit = waits[0][0] - 1
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
