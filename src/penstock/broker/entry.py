"""A message's place in one queue."""

from mypy_extensions import mypyc_attr

from penstock.broker.message import Message


@mypyc_attr(acyclic=True)
class QueueEntry:
    """What one queue knows about one message. Ready, or delivered and unacknowledged."""

    # Defaults stand on the class, which spares the interpreted build some stores per entry.
    # How often it was delivered and came back.
    delivery_count: int = 0
    # Whether somebody may have seen it: it came back, or was there before the last start.
    is_redelivered: bool = False
    # It left its queue before it was ever written down, so it need not be.
    is_gone: bool = False
    # `now` at which it is dead; 0 for never.
    expires_at: int = 0

    def __init__(self, message: Message, position: int) -> None:
        self.message: Message = message
        # Order of arrival; a requeued entry goes back to where its position belongs.
        self.position: int = position
