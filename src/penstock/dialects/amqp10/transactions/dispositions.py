"""Delivery states that a transaction has to send to its client, in runs of ids.

They are sent at the end of the tick, or before that when the transaction is discharged: the client
must get all outcomes before it learns that they are final.
"""

from typing import Final

from penstock.dialects.container import EndOfTickAnswer
from penstock.wire.amqp10.link import RCV_FIRST
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import Composite
from penstock.wire.outgoing import Outgoing

_NO_ID: Final = -1
_MASK: Final = 0xFFFF_FFFF


class DispositionRuns(EndOfTickAnswer):
    """Held by the listener of one link. Subclasses define the role."""

    def __init__(self, session: Session, answer_list: list[EndOfTickAnswer]) -> None:
        self._session: Session = session
        self._answer_list: list[EndOfTickAnswer] = answer_list
        self._is_listed: bool = False
        self._first: int = _NO_ID
        self._last: int = _NO_ID
        self._state: Composite | None = None

    def add(self, delivery_id: int, state: Composite) -> None:
        if (
            self._first == _NO_ID
            or state is not self._state
            or (self._last + 1) & _MASK != delivery_id
        ):
            self.flush()
            self._first = delivery_id
            self._state = state
        self._last = delivery_id
        if not self._is_listed:
            self._is_listed = True
            self._answer_list.append(self)

    def flush(self) -> None:
        self._is_listed = False
        state = self._state
        if self._first == _NO_ID or state is None:
            return
        first = self._first
        self._first = _NO_ID
        self._state = None
        self._say(first, self._last, state)

    def _say(self, first: int, last: int, state: Composite) -> None:
        raise NotImplementedError

    def outgoing_of(self) -> Outgoing | None:
        return self._session.outgoing

    def is_waiting(self) -> bool:
        return False

    def became_durable(self) -> None:
        """Nothing provisional waits for the journal."""

    def held(self, sequence: int) -> None:
        """Nothing is published here."""

    def completed(self, sequence: int) -> None:
        """Nothing is published here."""


class SenderDispositions(DispositionRuns):
    """Provisional outcomes of what came in on a link."""

    def __init__(
        self, session: Session, link: ReceivingLink, answer_list: list[EndOfTickAnswer]
    ) -> None:
        super().__init__(session, answer_list)
        self._link: ReceivingLink = link

    def _say(self, first: int, last: int, state: Composite) -> None:
        if self._link.rcv_settle_mode == RCV_FIRST:
            self._session.settle(first, last, state)
        else:
            self._session.say_state(first, last, state)


class ReceiverDispositions(DispositionRuns):
    """Settlement of what went out on a link, when a transaction was discharged."""

    def _say(self, first: int, last: int, state: Composite) -> None:
        self._session.settle_sent(first, last, state)
