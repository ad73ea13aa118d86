"""What one channel of a conversation remembers: calls without an answer, publishes in flight.

Invariants: the broker answers a channel's calls in the order they were made; confirms count from
the moment confirm.select is written.
"""

from collections import deque

from penstock.client.confirms import OutstandingPublishes
from penstock.client.transaction import ClientTransaction
from penstock.wire.amqp091.errors import ConnectionFault
from penstock.wire.amqp091.methods_generated import ANSWERS, NAMES
from penstock.wire.amqp091.reply_codes_generated import UNEXPECTED_FRAME


class PendingCall:
    """A call that was written; `ticket` is what its `Replied` will carry."""

    __slots__ = ("answers", "ticket")

    def __init__(self, ticket: int, identity: int) -> None:
        self.ticket: int = ticket
        self.answers: tuple[int, ...] = ANSWERS[identity]


class Channel:
    """Held by the conversation under its number, from channel.open to its end."""

    def __init__(self, number: int) -> None:
        self.number: int = number
        self.calls: deque[PendingCall] = deque()
        # None until confirm.select.
        self.publishes: OutstandingPublishes[object] | None = None
        # None until tx.select.
        self.transaction: ClientTransaction | None = None

    def answered(self, identity: int) -> int:
        """The ticket of the call that a method with this identity answers."""
        if not self.calls or identity not in self.calls[0].answers:
            raise ConnectionFault(
                UNEXPECTED_FRAME,
                f"unexpected {NAMES[identity]} on channel {self.number}: no call is waiting for it",
            )
        return self.calls.popleft().ticket
