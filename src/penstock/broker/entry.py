"""A message's place in one queue."""

from mypy_extensions import mypyc_attr

from penstock.broker.message import Message


@mypyc_attr(acyclic=True)
class QueueEntry:
    """What one queue knows about one message. Ready, or delivered and unacknowledged."""

    # How often it was delivered and came back; above zero means `redelivered`. Defaults stand on
    # the class, which spares the interpreted build two stores per entry.
    delivery_count: int = 0
    # `now` at which it is dead; 0 for never.
    expires_at: int = 0

    def __init__(self, message: Message, position: int) -> None:
        self.message: Message = message
        # Order of arrival; a requeued entry goes back to where its position belongs.
        self.position: int = position
